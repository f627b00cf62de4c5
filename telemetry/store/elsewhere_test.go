package store

import (
	"errors"
	"math"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/record"
)

// partBatch is a record of digests of a flow of a number, as it travels.
func partBatch(t *testing.T, sequence uint64, flow int) []byte {
	t.Helper()
	k := pint.FlowKey{Version: 4, Proto: 17, SrcPort: uint16(flow)}
	b := &pint.DigestBatch{Boot: 3, Sequence: sequence, Sent: sequence, Plan: 1, Records: []pint.Record{{Flow: k, ID: sequence, TimeNs: sequence << 20, Plan: 1, Hops: 1}}}
	h := record.Header{Kind: record.PINT, Switch: 7, Name: "s7", Instance: uint16(k.Partition(record.Partitions)), Plan: 1, Start: int64(sequence) << 20, Span: 1 << 20}
	return envelope(t, h, func(dst []byte) ([]byte, error) { return pint.AppendDigests(dst, b), nil })
}

// TestPartPages: pages of any size have each batch of the partition and window once, also when more come in between.
func TestPartPages(t *testing.T) {
	s := &Store{}
	for i := range 300 {
		s.AddBytes(partBatch(t, uint64(i), i%40))
	}
	s.Sort()
	s.Freeze()
	for partition := range record.Partitions {
		w := Window{From: 20 << 20, To: 250 << 20}
		want := 0
		for i := range s.Batches {
			if b := s.Batches[i]; int(b.Instance) == partition && b.Overlaps(w) {
				want++
			}
		}
		for _, most := range []int{1, 500, 1 << 20} {
			view, q := s, PartQuery{Partition: partition, Window: w, Most: most}
			x := Elsewhere{Part: *view.Part(partition, w, true)}
			for more := true; more; {
				var page []byte
				if page, q.After, more = view.AppendPart(nil, q); most == 1 && more && len(page) == 0 {
					t.Fatal("a page without a record")
				}
				if _, err := x.Add(page); err != nil {
					t.Fatal(err)
				}
				if view == s { // from now on there is another record, before all others
					later := *s
					later.Batches = append([]*Batch{}, s.Batches...)
					later.AddBytes(partBatch(t, 1, 77))
					later.Sort()
					later.Freeze()
					view = &later
				}
			}
			if len(x.batches) != want {
				t.Errorf("partition %d in pages of %d bytes: %d batches, not %d", partition, most, len(x.batches), want)
			}
			u := (&Store{names: map[uint32]string{}, memo: s.memo}).With([]Elsewhere{x, x})
			if len(u.Batches) != want || want > 0 && u.Name(7) != "s7" {
				t.Errorf("partition %d twice: %d batches of %d, of switch %s", partition, len(u.Batches), want, u.Name(7))
			}
		}
	}
}

// TestPartHostile: what is no part, or no record of it, is refused; numbers beyond measure do no harm.
func TestPartHostile(t *testing.T) {
	good := partBatch(t, 1, 5)
	at := int((&pint.FlowKey{Version: 4, Proto: 17, SrcPort: 5}).Partition(record.Partitions))
	lds := envelope(t, record.Header{Kind: record.LDS, Switch: 7, Instance: uint16(at), Span: 1}, func(dst []byte) ([]byte, error) { return dst, nil })
	empty := envelope(t, record.Header{Kind: record.PINT, Switch: 7, Instance: uint16(at), Span: 1}, func(dst []byte) ([]byte, error) { return dst, nil })
	for name, b := range map[string][]byte{"cut": good[:len(good)-1], "text": []byte("hello"), "another kind": lds, "no digests": empty, "behind a good one": append(append([]byte{}, good...), 1)} {
		x := Elsewhere{Part: Part{Partition: at}}
		if _, err := x.Add(b); !errors.Is(err, errPart) {
			t.Errorf("%s: %v", name, err)
		}
	}
	x := Elsewhere{Part: Part{Partition: (at + 1) % record.Partitions}}
	if _, err := x.Add(good); !errors.Is(err, errPart) {
		t.Errorf("another partition: %v", err)
	}
	far := Window{From: math.MinInt64, To: math.MaxInt64}
	for name, p := range map[string]Part{
		"partition": {Partition: record.Partitions}, "below": {Partition: -1}, "first": {First: far}, "last": {Last: Window{From: 2, To: 1}},
		"gap": {Gaps: []PartGap{{Window: far}}}, "evicted": {Evicted: []PartGone{{Window: far}}}, "name": {Sinks: []PartSink{{Name: "a\nb"}}},
		"many": {Gaps: make([]PartGap, maxPartRows+1)},
	} {
		if p.Validate() == nil {
			t.Errorf("%s: %+v is taken", name, p)
		}
	}
	w := Window{From: 0, To: 10}
	p := Part{Partition: at, Skewed: []PartGone{{w, 7, math.MaxUint64, 0}, {w, 7, math.MaxUint64, 0}}, Gaps: []PartGap{{w, 7, 1, math.MaxUint64, math.MaxUint64}}, Evicted: []PartGone{{w, 0, math.MaxUint64, 0}}}
	s := &Store{}
	s.Freeze()
	u := s.With([]Elsewhere{{Part: p}})
	for _, m := range u.Missing(OfDigests, w) {
		if m.Skewed > math.MaxInt64 || m.Lost > math.MaxInt64 || m.Packets > math.MaxInt64 || m.Evicted > math.MaxInt64 {
			t.Errorf("%+v", m)
		}
	}
}
