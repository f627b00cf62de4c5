package collect

import (
	"strconv"
	"strings"
	"sync"
)

// shares count which bytes of the stream are of which switch. The stream drops its oldest messages when it is full,
// so a switch that sends very much would drop those of all others: from one that has more than its
// share no more is taken until it has less.
type shares struct {
	mu     sync.Mutex
	chunks map[uint64]map[uint32]int64 // by sequence number
	bytes  map[uint32]int64
}

// chunkBits: a chunk is 2^10 messages, which leave the count together.
const chunkBits = 10

// nearlyFull is the part of its bound from which the stream's shares count.
const nearlyFull = 0.9

// add counts a message under a subject.
func (s *shares) add(sequence uint64, subject string, size int) {
	number, err := strconv.ParseUint(subject[strings.LastIndexByte(subject, '.')+1:], 10, 32)
	if err != nil {
		return
	}
	sw := uint32(number)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.chunks == nil {
		s.chunks, s.bytes = map[uint64]map[uint32]int64{}, map[uint32]int64{}
	}
	at := sequence >> chunkBits
	if s.chunks[at] == nil {
		s.chunks[at] = map[uint32]int64{}
	}
	s.chunks[at][sw] += int64(size)
	s.bytes[sw] += int64(size)
}

// dropBefore takes off the messages before a sequence number.
func (s *shares) dropBefore(first uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, by := range s.chunks {
		if at >= first>>chunkBits {
			continue
		}
		for sw, n := range by {
			if s.bytes[sw] -= n; s.bytes[sw] <= 0 {
				delete(s.bytes, sw)
			}
		}
		delete(s.chunks, at)
	}
}

// reset forgets all: the stream is another one.
func (s *shares) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chunks, s.bytes = nil, nil
}

// over lists the switches that have more than four times an even share, or than half, of what the stream may keep. One that was
// over is so until it has a tenth less.
func (s *shares) over(most int64, before map[uint32]bool) map[uint32]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	over := map[uint32]bool{}
	if len(s.bytes) < 2 || most <= 0 {
		return over
	}
	share := min(4*most/int64(len(s.bytes)), most/2)
	for sw, n := range s.bytes {
		if n > share || before[sw] && n > share-share/10 {
			over[sw] = true
		}
	}
	return over
}
