package collect

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

func message(t testing.TB, h record.Header, body []byte) (subject string, data []byte) {
	t.Helper()
	data, err := record.Append(nil, &h, func(dst []byte) ([]byte, error) { return append(dst, body...), nil })
	if err != nil {
		t.Fatal(err)
	}
	return jetstream.Subject(&h), data
}

// TestCheck: what is whole is to be applied, and all else is counted as what it is, of the kind
// that it claims to be.
func TestCheck(t *testing.T) {
	all, second := DefaultPartitions(), Partitions{Index: 1, Of: 3}
	lds := record.Header{Kind: record.LDS, Switch: 7, Start: 30, Span: 10}
	digest := record.Header{Kind: record.PINT, Switch: 7, Instance: 4, Span: 1}
	subject, data := message(t, lds, []byte("body"))
	pintSubject, pintData := message(t, digest, nil)
	later, laterData := message(t, record.Header{Kind: 77, Switch: 7, Span: 1}, nil)
	for _, c := range []struct {
		name    string
		subject string
		data    []byte
		p       Partitions
		kind    record.Kind
		o       Outcome
	}{
		{"whole", subject, data, all, record.LDS, Applied},
		{"whole, of many collectors", subject, data, second, record.LDS, Applied},
		{"ours", pintSubject, pintData, second, record.PINT, Applied},
		{"another's", pintSubject, pintData, Partitions{Index: 0, Of: 3}, record.PINT, Foreign},
		{"of a later version", later, laterData, all, kindOther, Applied},
		{"empty", subject, nil, all, record.LDS, Unreadable},
		{"cut", subject, data[:len(data)-1], all, record.LDS, Unreadable},
		{"two", subject, append(slices.Clone(data), data...), all, record.LDS, Unreadable},
		{"another switch", jetstream.SubjectsOf(8), data, all, kindOther, Forged},
		{"another kind", pintSubject, data, all, record.PINT, Forged},
		{"no subject", "weir", nil, all, kindOther, Unreadable},
	} {
		h, body, kind, o := check(c.subject, c.data, c.p.Fixed())
		if kind != c.kind || o != c.o || (o == Applied) != (body != nil) {
			t.Errorf("%s: %v of %v, %+v %q", c.name, o, KindName(kind), h, body)
		}
	}
}

// FuzzCheck: whatever comes, nothing panics, and only what names itself as its subject does is
// applied.
func FuzzCheck(f *testing.F) {
	subject, data := message(f, record.Header{Kind: record.PINT, Switch: 1, Instance: 15, Start: -5, Span: 3}, []byte("x"))
	f.Add(subject, data, uint8(3), uint8(0))
	f.Add("weir.records.lds.0.0.1", []byte("WR\x01"), uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, subject string, data []byte, of, index uint8) {
		p := Partitions{Of: 1 + int(of)%record.Partitions}
		p.Index = int(index) % p.Of
		h, _, kind, o := check(subject, data, p.Fixed())
		if o == Applied && jetstream.Subject(&h) != subject {
			t.Errorf("%q is applied as %+v", subject, h)
		}
		if kind != kindOther && !slices.Contains(Kinds, kind) || o >= outcomes {
			t.Errorf("%v, %v", kind, o)
		}
	})
}

// TestFilters: however many collectors share the partitions, each is read by one of them, and
// each other kind by all.
func TestFilters(t *testing.T) {
	for of := 2; of <= record.Partitions; of++ {
		readers := map[string]int{}
		for index := range of {
			for _, f := range filters((&Partitions{Index: index, Of: of}).Fixed()) {
				readers[f]++
			}
		}
		for _, k := range Kinds {
			want := of
			for partition := range record.Partitions {
				if k == record.PINT {
					want = 1
				} else if partition > 0 {
					want = 0
				}
				if got := readers[jetstream.Filter(k, partition)]; got != want {
					t.Errorf("%d collectors: %v of partition %d is read by %d", of, k, partition, got)
				}
			}
		}
	}
}

// TestWants: where all subjects are read, those are taken that the filters ask for.
func TestWants(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	subjects := []string{"", "weir", "weir.records.pint.3", "weir.records.pint.03.1.1", "weir.records.pint.-1.1.1", "weir.records.pint.32.1.1", "weir.records.lds.1.1.1", "weir.records.other.0.1.1"}
	for range 200 {
		h := record.Header{Kind: Kinds[r.IntN(len(Kinds))], Switch: r.Uint32N(9), Instance: uint16(r.IntN(record.Partitions)), Start: r.Int64N(1 << 40), Span: 1 << 30}
		subjects = append(subjects, jetstream.Subject(&h))
	}
	wanted := 0
	for of := 1; of <= record.Partitions; of++ {
		for index := range of {
			held := (&Partitions{Index: index, Of: of}).Fixed()
			for _, subject := range subjects {
				want := false
				for _, f := range filters(held) {
					want = want || strings.HasPrefix(subject, strings.TrimSuffix(f, ">"))
				}
				if got := held.wants(subject); got != want && held != AllPartitions {
					t.Errorf("%d of %d, %q: %v", index, of, subject, got)
				}
				if want {
					wanted++
				}
			}
		}
	}
	if wanted == 0 {
		t.Error("it tests little")
	}
}

// TestSwitches: what is remembered of switches is bounded, whatever numbers come.
func TestSwitches(t *testing.T) {
	var s Switches
	for i := range uint32(maxSwitches + 1000) {
		s.Note(&record.Header{Kind: record.LDS, Switch: i, Name: fmt.Sprint(i), Start: 5, Span: 5, Missed: 2})
	}
	s.Note(&record.Header{Kind: record.PINT, Switch: 1, Name: "one", Start: 3, Span: 4, Missed: 1})
	list := s.List()
	if len(list) != maxSwitches {
		t.Errorf("%d switches", len(list))
	}
	if h := list[1]; h.Name != "one" || h.Records != 2 || h.Missed != 3 || h.Newest() != 10 || h.Last[record.PINT] != 7 {
		t.Errorf("%+v", h)
	}
}
