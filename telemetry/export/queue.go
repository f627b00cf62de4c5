package export

import (
	"errors"
	"fmt"
	"io"

	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/telemetry/record"
)

// shipment is a record that was taken from a spool. Its bytes are its own.
type shipment struct {
	header  record.Header
	encoded []byte
	file    *spooled
	end     int64 // where the next record of the file begins
}

func (x *shipment) tally() Tally { return tallyOf(&x.header, len(x.encoded)) }

// takeBytes is what take reads at once, if the first record is not longer.
const takeBytes = 256 << 10

// take takes the next records in the order of writing; none waits if there are
// none. The error says what could not be read, and was dropped.
func (s *Spool) take() ([]shipment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.kept {
		if x.taken == x.size {
			continue
		}
		taken, err := s.takeFrom(x)
		if err != nil {
			return nil, s.unreadable(x, err)
		}
		return taken, nil
	}
	return nil, nil
}

func (s *Spool) takeFrom(x *spooled) (taken []shipment, err error) {
	file, err := safefile.OpenHere(x.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := readSome(file, x.taken, x.size)
	if err != nil {
		return nil, err
	}
	for len(b) > 0 {
		h, _, rest, err := record.Decode(b)
		if err != nil && !errors.Is(err, record.ErrKey) { // a network's key may have changed since: its collectors have both
			if len(taken) != 0 {
				break // it is the first of the next take, which reads enough of it
			}
			return nil, err
		}
		length := len(b) - len(rest)
		x.taken += int64(length)
		t := shipment{header: h, encoded: b[:length:length], file: x, end: x.taken}
		x.rest.take(t.tally())
		taken = append(taken, t)
		b = rest
	}
	return taken, nil
}

// readSome reads takeBytes of a file from an offset on, but the first record whole,
// and nothing behind its end.
func readSome(file io.ReaderAt, from, end int64) ([]byte, error) {
	b := make([]byte, min(takeBytes, end-from))
	if _, err := file.ReadAt(b, from); err != nil {
		return nil, err
	}
	length, err := record.Length(b)
	if err != nil {
		return nil, err
	}
	if length <= len(b) {
		return b, nil
	}
	if int64(length) > end-from {
		return nil, record.ErrShort
	}
	b = make([]byte, length)
	_, err = file.ReadAt(b, from)
	return b, err
}

// unreadable drops the rest of a file that cannot be read: it is gone, or not as
// it was written.
func (s *Spool) unreadable(x *spooled, err error) error {
	if s.file != nil && x == s.current() {
		err = errors.Join(err, s.file.Close()) // the next record goes to another file
		s.file = nil
	}
	s.dropRest(x, DropUnreadable)
	s.total -= x.size - x.taken
	x.size = x.taken
	s.forgetIfDone(x)
	return fmt.Errorf("read the spool's %s: %w; the rest of the file is dropped", x.path, err)
}

// settle says what became of the oldest record that was taken: sent, if there is no
// reason for which it was dropped.
func (s *Spool) settle(x *shipment, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reason == "" {
		s.sent.add(x.tally())
	} else {
		s.drop(reason, x.tally())
	}
	x.file.done = x.end
	s.stateChanged = true
	s.forgetIfDone(x.file)
}

// putBack ends the taking: what was taken and not settled waits again. Records
// whose file has gone meanwhile are dropped.
func (s *Spool) putBack(left []shipment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range left {
		x := &left[i]
		if x.file.gone {
			s.drop(DropFull, x.tally())
			continue
		}
		x.file.rest.add(x.tally())
		x.file.taken = x.file.done
	}
}

// save writes how far records are settled.
func (s *Spool) save() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saveState()
}

// KindCounts are what a spool counts of one kind of records, since it was opened:
// spooled + found = sent + waiting + dropped.
type KindCounts struct {
	Kind    record.Kind
	Spooled Tally // written
	Found   Tally // left behind by an earlier run
	Sent    Tally // kept by JetStream
	Waiting Tally // neither sent nor dropped; without epochs
	Dropped []Drop
}

// Counts returns the counts of all kinds that there were, in order.
func (s *Spool) Counts() []KindCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []KindCounts
	for _, k := range kindsOf(s.spooled, s.found) {
		c := KindCounts{Kind: k, Spooled: s.spooled.of(k), Found: s.found.of(k), Sent: s.sent.of(k)}
		c.Waiting = Tally{
			Kind: k, Records: c.Spooled.Records + c.Found.Records - c.Sent.Records,
			Bytes: c.Spooled.Bytes + c.Found.Bytes - c.Sent.Bytes,
		}
		for _, d := range s.dropped {
			if d.Kind == k {
				c.Waiting.Records -= d.Records
				c.Waiting.Bytes -= d.Bytes
				c.Dropped = append(c.Dropped, d)
			}
		}
		all = append(all, c)
	}
	return all
}

// DroppedBefore is what earlier runs dropped, as far as they could say.
func (s *Spool) DroppedBefore() []Drop {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.droppedBefore // replaced, never changed
}
