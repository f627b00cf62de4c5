package live

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	nats_js "github.com/nats-io/nats.go/jetstream"

	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/view/api"
)

// streamed is what the stream has, compared with what was written to spools.
type streamed struct {
	messages uint64
	bytes    uint64
	kinds    map[record.Kind]uint64
	once     uint64               // records that were written and are in the stream once
	again    uint64               // messages whose record is there already
	strange  uint64               // messages that nothing wrote
	alike    uint64               // records that are equal to another one of their switch: the stream has one of them
	unacked  uint64               // records that a switch counts as waiting, and that are in the stream: it received no acknowledgement
	absent   map[ledgerKey]uint64 // records that were written, are counted neither as dropped nor as waiting, and are not there
}

// unaccounted is how many records that were written are neither in the stream nor counted as dropped or as waiting.
func (s *streamed) unaccounted() (sum uint64) {
	for _, n := range s.absent {
		sum += n
	}
	return sum
}

// worst names the kind and the switch that lack most.
func (s *streamed) worst() string {
	if len(s.absent) == 0 {
		return ""
	}
	k := slices.MaxFunc(slices.SortedFunc(maps.Keys(s.absent), ledgerKey.compare), func(a, b ledgerKey) int { return cmp.Compare(s.absent[a], s.absent[b]) })
	return fmt.Sprintf(" (most of them, %d, are %s of switch %d)", s.absent[k], k.kind, k.sw)
}

// unapplied is how many records of the stream the collectors did not apply. Each of them reads all records that are no digests, and must have applied each once. Partitions of digests
// move between collectors, so what is known of these is that all collectors together have applied as many at least.
func (m *measured) unapplied() (sum uint64) {
	for kind, n := range m.stream.kinds {
		together := uint64(0)
		for _, s := range m.statuses {
			got := applied(s, kind)
			if together += got; kind != record.PINT {
				sum += max(got, n) - min(got, n)
			}
		}
		if kind == record.PINT {
			sum += n - min(together, n)
		}
	}
	return sum
}

// applied is how many records of a kind a collector has applied.
func applied(s *api.CollectorStatus, kind record.Kind) uint64 {
	for _, k := range s.GetKinds() {
		if k.Kind == kind.String() {
			return k.Records
		}
	}
	return 0
}

// fault says what is wrong with the account; nil: nothing is.
func (m *measured) fault() error {
	s := &m.stream
	if n := s.unaccounted(); n > 0 || s.again != 0 || s.strange != 0 {
		return fmt.Errorf("the account does not hold: %d records are neither in the stream nor counted as dropped or waiting%s, %d are in it again, and %d are of no switch: this is a fault of Weir: report it with the logs",
			n, s.worst(), s.again, s.strange)
	}
	if n := m.unapplied(); n > 0 {
		return fmt.Errorf("the account does not hold: collectors did not apply %d records of the stream: give them more memory or choose fewer --switches; if their logs name no late records, this is a fault of Weir: report it with the logs", n)
	}
	return nil
}

// account reads the whole stream.
func (r *run) account(ctx context.Context) error {
	book, err := r.ledger()
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
	s.kinds, s.alike = map[record.Kind]uint64{}, book.alike
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
			s.take(book, m.Data())
		}
	}
	s.finish(book, r.counts)
	return nil
}

// finish counts what is not there, by kind and switch: so a record of one that waits, and is in the stream, does not make up for one of another that is not.
//
// A spool sends in the order of writing, and settles records in that order. So those of a kind that wait at the end are the last ones that were written, and all before them are
// sent or dropped. A dropped record may be in the stream, too, if its acknowledgement was lost; which ones were dropped is not known, so such a record makes up for one of the
// same kind and switch that is lost.
func (s *streamed) finish(b *ledger, all []counts) {
	s.absent = map[ledgerKey]uint64{}
	for k, written := range b.written {
		var waiting, dropped uint64
		for i := range all {
			if c := all[i].Switches[k.sw][k.kind.String()]; c != nil {
				waiting += c.Waiting
				for _, n := range c.Dropped {
					dropped += n
				}
			}
		}
		settled := len(written) - int(min(waiting, uint64(len(written))))
		absent, counted := uint64(0), map[mark]bool{}
		for _, m := range written[:settled] {
			if b.found[m] == 0 && !counted[m] {
				counted[m] = true
				absent++
			}
		}
		for _, m := range written[settled:] {
			if b.found[m] != 0 {
				s.unacked++
			}
		}
		if absent > dropped {
			s.absent[k] = absent - dropped
		}
	}
}

// take counts a message.
func (s *streamed) take(b *ledger, data []byte) {
	s.messages++
	s.bytes += uint64(len(data))
	h, _, err := record.Peek(data)
	if err != nil {
		s.strange++
		return
	}
	s.kinds[h.Kind]++
	m := markOf(&h, data)
	n, known := b.found[m]
	switch {
	case !known:
		s.strange++
		return
	case n == 0:
		s.once++
	default:
		s.again++
	}
	b.found[m]++
}

// ledger is what publishers wrote to spools.
type ledger struct {
	written map[ledgerKey][]mark // in the order of writing
	found   map[mark]int         // how often each is in the stream
	alike   uint64               // records that are equal to another one
}

// ledgerKey is what records are balanced by.
type ledgerKey struct {
	kind record.Kind
	sw   uint32
}

func (k ledgerKey) compare(o ledgerKey) int {
	return cmp.Or(cmp.Compare(k.kind, o.kind), cmp.Compare(k.sw, o.sw))
}

// add adds a record that was written.
func (b *ledger) add(m mark) {
	if _, twice := b.found[m]; twice {
		b.alike++
	}
	b.found[m] = 0
	k := m.key()
	b.written[k] = append(b.written[k], m)
}

func newLedger() *ledger { return &ledger{written: map[ledgerKey][]mark{}, found: map[mark]int{}} }

// mark is what a record is recognised by: its kind, its switch, and a hash of its bytes.
type mark [1 + 4 + 8]byte

func markOf(h *record.Header, encoded []byte) (m mark) {
	m[0] = byte(h.Kind)
	binary.BigEndian.PutUint32(m[1:], h.Switch)
	binary.BigEndian.PutUint64(m[5:], xxhash.Sum64(encoded))
	return m
}

func (m mark) key() ledgerKey {
	return ledgerKey{record.Kind(m[0]), binary.BigEndian.Uint32(m[1:])}
}

// ledger reads what publishers wrote.
func (r *run) ledger() (*ledger, error) {
	b := newLedger()
	for i := range r.publishers {
		file, err := os.Open(r.written(i))
		if err != nil {
			return nil, err
		}
		defer file.Close()
		for in := bufio.NewReaderSize(file, 1<<20); ; {
			var m mark
			if _, err := io.ReadFull(in, m[:]); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			b.add(m)
		}
	}
	return b, nil
}
