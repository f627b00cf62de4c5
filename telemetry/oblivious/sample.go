package oblivious

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
)

// Sample is what a sampler kept, or several together: of the packets that
// passed, exactly those entries whose rank is at most the threshold.
type Sample struct {
	Kind Kind
	Unit Unit
	// Size is chi. An improved merge has more entries than that.
	Size int
	Seed uint64
	// Hash is the family that ranks are drawn from. The encoding does not name it: who
	// decodes sets it, by the record's envelope.
	Hash hash.Family
	// Packets and Bytes are exact local totals, bytes on the wire. In a merged sample they are sums,
	// in which a packet counts as often as it was seen.
	Packets, Bytes uint64
	// Classes are the totals of classes of protocols, for Calibrate: all of Packets, if all were counted by
	// protocol, and their Bytes as entries have them, 0 in samples of packets.
	Classes [classes]Totals
	// Threshold is the rank of the last entry, or beyond all ranks if nothing was
	// left out.
	Threshold Rank
	// Entries are in increasing order of rank.
	Entries []Entry
	// Seen is how often a sampler saw each entry, which is more than once for packets that
	// came again. Improved and Union leave it out.
	Seen []uint32
	// Limits, made by Union only, are the entries' own threshold values.
	Limits []uint64
	// adjust, made by Calibrate only, is what each entry counts beside its own, of packets and of bytes.
	adjust [2][]float64
}

// Totals are exact counts of a switch.
type Totals struct{ Packets, Bytes uint64 }

// counted reports that the sample has all that Calibrate needs: how often each entry was seen, and all packets by class.
func (s *Sample) counted() bool {
	packets := uint64(0)
	for _, c := range s.Classes {
		packets += c.Packets
	}
	return s.Unit != Flows && s.Packets > 0 && packets == s.Packets && len(s.Seen) == len(s.Entries)
}

// classes are those that Calibrate tells apart: TCP, UDP and all others.
const classes = 3

const protoTCP, protoUDP = 6, 17

func classOf(proto uint8) int {
	switch proto {
	case protoTCP:
		return 0
	case protoUDP:
		return 1
	}
	return 2
}

// Entry is a sampled packet, or with UWRA in bytes a sampled byte of it.
type Entry struct {
	Rank  Rank
	Bytes uint32 // of the whole packet, on the wire
	Key   Key
}

// Complete reports that the sample lacks nothing: each packet that was counted is in it, those of one id once.
func (s *Sample) Complete() bool { return s.complete() }

// complete reports that the sample lacks nothing: what it counts it counts
// exactly.
func (s *Sample) complete() bool { return s.Threshold == maxRank }

// below returns the entries that estimates count: those below the threshold,
// which is itself an entry.
func (s *Sample) below() []Entry {
	if s.complete() || s.Limits != nil || len(s.Entries) == 0 {
		return s.Entries
	}
	return s.Entries[:len(s.Entries)-1]
}

// Shrink makes the sample the one that a sampler of a smaller size would have: of the entries of the smallest ranks. A
// sample that is not larger stays as it is.
func (s *Sample) Shrink(size int) {
	if size < 1 || size >= len(s.Entries) {
		return
	}
	s.Size, s.Entries, s.Threshold = size, s.Entries[:size], s.Entries[size-1].Rank
	s.Seen = s.Seen[:min(size, len(s.Seen))]
}

// Clone returns a copy that shares nothing.
func (s *Sample) Clone() *Sample {
	c := *s
	c.Entries, c.Seen, c.Limits = slices.Clone(s.Entries), slices.Clone(s.Seen), slices.Clone(s.Limits)
	c.adjust = [2][]float64{slices.Clone(s.adjust[0]), slices.Clone(s.adjust[1])}
	return &c
}

// ErrUnlike is returned for samples that cannot be merged.
var ErrUnlike = errors.New("samples that cannot be merged")

// sameShape checks that samples count the same by the same ranks.
func sameShape(samples []*Sample) error {
	if len(samples) == 0 {
		return fmt.Errorf("%w: none given", ErrUnlike)
	}
	a := samples[0]
	for _, b := range samples {
		switch {
		case b.Limits != nil:
			return fmt.Errorf("%w: a union is the last step", ErrUnlike)
		case a.Kind != b.Kind:
			return fmt.Errorf("%w: %v and %v", ErrUnlike, a.Kind, b.Kind)
		case a.Unit != b.Unit:
			return fmt.Errorf("%w: one of %v and one of %v", ErrUnlike, a.Unit, b.Unit)
		case a.Seed != b.Seed:
			return fmt.Errorf("%w: seeds %#x and %#x", ErrUnlike, a.Seed, b.Seed)
		case a.Hash != b.Hash:
			return fmt.Errorf("%w: hashed by %v and by %v", ErrUnlike, a.Hash, b.Hash)
		}
	}
	return nil
}
