package live

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	nats_js "github.com/nats-io/nats.go/jetstream"

	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// streamed is what the stream has, held to what was written to spools.
type streamed struct {
	messages uint64
	bytes    uint64
	kinds    map[record.Kind]uint64
	once     uint64 // records that were written and are in the stream once
	again    uint64 // messages whose record is there already
	strange  uint64 // messages that nothing wrote
	absent   uint64 // records that were written and are not there
	alike    uint64 // records that are equal to another one of their switch: the stream has one of them
}

// unaccounted is how many records that were written are neither in the stream nor counted as dropped or as waiting. Below 0: some are counted so, and are there.
func (s *streamed) unaccounted(all []counts) float64 {
	counted := uint64(0)
	for _, c := range all {
		for _, k := range c.Kinds {
			counted += k.Waiting
			for _, n := range k.Dropped {
				counted += n
			}
		}
	}
	return float64(s.absent) - float64(counted)
}

// fault says what is wrong with the account; nil: nothing is.
func (m *measured) fault(all []counts) error {
	s := &m.stream
	if n := s.unaccounted(all); n > 0 || s.again != 0 || s.strange != 0 {
		return fmt.Errorf("the account does not hold: %.0f records are neither in the stream nor counted as dropped or waiting, %d are in it again, and %d are of no switch: this is a fault of Weir: report it with the logs",
			max(n, 0), s.again, s.strange)
	}
	return nil
}

// account reads the whole stream.
func (r *run) account(ctx context.Context) error {
	marks, alike, err := r.marks()
	if err != nil {
		return err
	}
	nc, js, err := r.dial()
	if err != nil {
		return err
	}
	defer nc.Close()
	var stream nats_js.Stream
	if err := r.await(ctx, func() bool { stream, err = js.Stream(ctx, jetstream.Stream); return err == nil }); err != nil {
		return fmt.Errorf("find the stream: %w", err)
	}
	s := &r.measured.stream
	s.kinds, s.alike = map[record.Kind]uint64{}, alike
	last := stream.CachedInfo().State.LastSeq
	if last > 0 {
		consumer, err := stream.OrderedConsumer(ctx, nats_js.OrderedConsumerConfig{})
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		messages, err := consumer.Messages(nats_js.PullMaxBytes(16<<20), nats_js.PullHeartbeat(5*time.Second))
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		defer messages.Stop()
		for seq := uint64(0); seq < last; {
			m, err := messages.Next(nats_js.NextContext(ctx))
			if err != nil {
				return fmt.Errorf("read message %d of %d of the stream: %w", seq+1, last, err)
			}
			meta, err := m.Metadata()
			if err != nil {
				return err
			}
			if seq = meta.Sequence.Stream; seq%(1<<14) == 0 {
				r.say("%d of %d messages", seq, last)
			}
			s.take(marks, m.Data())
		}
	}
	s.finish(marks)
	return nil
}

// finish counts what is not there.
func (s *streamed) finish(marks map[mark]int) {
	for _, n := range marks {
		if n == 0 {
			s.absent++
		}
	}
}

// take counts a message.
func (s *streamed) take(marks map[mark]int, data []byte) {
	s.messages++
	s.bytes += uint64(len(data))
	h, _, err := record.Peek(data)
	if err != nil {
		s.strange++
		return
	}
	s.kinds[h.Kind]++
	m := mark(appendMark(nil, h.Kind, data))
	switch n, known := marks[m]; {
	case !known:
		s.strange++
	case n == 0:
		s.once++
	default:
		s.again++
	}
	if _, known := marks[m]; known {
		marks[m]++
	}
}

// mark is what a record is recognised by.
type mark [markBytes]byte

// marks are those of all records that publishers wrote, each found no time, and how many records are equal to another one.
func (r *run) marks() (all map[mark]int, alike uint64, err error) {
	all = map[mark]int{}
	for i := range r.publishers {
		file, err := os.Open(r.written(i))
		if err != nil {
			return nil, 0, err
		}
		defer file.Close()
		for in := bufio.NewReaderSize(file, 1<<20); ; {
			var m mark
			if _, err := io.ReadFull(in, m[:]); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, 0, err
			}
			if _, twice := all[m]; twice {
				alike++
			}
			all[m] = 0
		}
	}
	return all, alike, nil
}
