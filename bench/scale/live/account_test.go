package live

import (
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/view/api"
)

// encodedRecord is the number-th record of a kind that a switch writes.
func encodedRecord(t *testing.T, kind record.Kind, sw uint32, number byte) []byte {
	t.Helper()
	b, err := record.Append(nil, &record.Header{Kind: kind, Switch: sw, Name: "s", Span: 1}, func(b []byte) ([]byte, error) { return append(b, "body"...), nil })
	if err != nil {
		t.Fatal(err)
	}
	return append(b, number) // behind the record: marks are of all bytes
}

// counted are the counts of one switch's kind.
func counted(kind record.Kind, sw uint32, c *kindCount) counts {
	return counts{Switches: map[uint32]map[string]*kindCount{sw: {kind.String(): c}}}
}

func waiting(kind record.Kind, sw uint32, n uint64) counts {
	return counted(kind, sw, &kindCount{Waiting: n})
}

func dropped(kind record.Kind, sw uint32, n uint64) counts {
	return counted(kind, sw, &kindCount{Dropped: map[string]uint64{"spool_full": n}})
}

// TestAccount: what is written, and neither in the stream nor counted as dropped or waiting, is a fault, whatever other kinds and switches count.
func TestAccount(t *testing.T) {
	type rec struct {
		kind   record.Kind
		sw     uint32
		number byte
	}
	s1 := []rec{{record.Status, 1, 1}, {record.Status, 1, 2}, {record.Status, 1, 3}}
	other := []rec{{record.Status, 2, 1}, {record.LDS, 1, 1}}
	written := append(append([]rec{}, s1...), other...)
	for name, c := range map[string]struct {
		absent  []int // of written
		counts  []counts
		lost    uint64
		unacked uint64
		says    string
	}{
		"all are there":                   {},
		"one is not":                      {absent: []int{0}, lost: 1, says: "1, are status of switch 1"},
		"it is dropped":                   {absent: []int{0}, counts: []counts{dropped(record.Status, 1, 1)}},
		"it waits":                        {absent: []int{2}, counts: []counts{waiting(record.Status, 1, 1)}},
		"another one of the switch waits": {absent: []int{0}, counts: []counts{waiting(record.Status, 1, 1)}, lost: 1, unacked: 1, says: "switch 1"},
		"one of another switch waits, and is there":  {absent: []int{0}, counts: []counts{waiting(record.Status, 2, 1)}, lost: 1, unacked: 1, says: "switch 1"},
		"one of another kind waits, and is there":    {absent: []int{0}, counts: []counts{waiting(record.LDS, 1, 1)}, lost: 1, unacked: 1, says: "switch 1"},
		"another switch has dropped one":             {absent: []int{0}, counts: []counts{dropped(record.Status, 2, 1)}, lost: 1, says: "switch 1"},
		"another kind has dropped one":               {absent: []int{0}, counts: []counts{dropped(record.LDS, 1, 1)}, lost: 1, says: "switch 1"},
		"more are absent than dropped":               {absent: []int{0, 1}, counts: []counts{dropped(record.Status, 1, 1)}, lost: 1, says: "switch 1"},
		"one is dropped, and one waits":              {absent: []int{0, 2}, counts: []counts{counted(record.Status, 1, &kindCount{Waiting: 1, Dropped: map[string]uint64{"refused": 1}})}},
		"all of a switch wait":                       {absent: []int{0, 1, 2}, counts: []counts{waiting(record.Status, 1, 3)}},
		"what waits is there: no acknowledgement":    {counts: []counts{waiting(record.Status, 1, 2)}, unacked: 2},
		"two switches lack some":                     {absent: []int{0, 1, 3}, lost: 3, says: "2, are status of switch 1"},
		"the counts are of two publishers":           {absent: []int{2, 4}, counts: []counts{waiting(record.Status, 1, 1), dropped(record.LDS, 1, 1)}},
		"more are counted as waiting than there are": {absent: []int{0, 1, 2}, counts: []counts{waiting(record.Status, 1, 9)}},
	} {
		t.Run(name, func(t *testing.T) {
			b, m := newLedger(), measured{stream: streamed{kinds: map[record.Kind]uint64{}}}
			away := map[int]bool{}
			for _, i := range c.absent {
				away[i] = true
			}
			for i, r := range written {
				data := encodedRecord(t, r.kind, r.sw, r.number)
				h := record.Header{Kind: r.kind, Switch: r.sw}
				b.add(markOf(&h, data))
				if !away[i] {
					m.stream.take(b, data)
				}
			}
			m.stream.finish(b, c.counts)
			m.statuses = [collectors]*api.CollectorStatus{statusOf(m.stream.kinds), statusOf(m.stream.kinds)}
			err := m.fault()
			if m.stream.unaccounted() != c.lost || m.stream.unacked != c.unacked || (err != nil) != (c.lost > 0) {
				t.Errorf("%+v: %v", m.stream, err)
			}
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v does not name %q", err, c.says)
			}
		})
	}
}

// TestTake: a record that is in the stream again, one that no switch wrote and what is no record are faults; of records that are alike the stream has one.
func TestTake(t *testing.T) {
	data := encodedRecord(t, record.Status, 1, 1)
	h := record.Header{Kind: record.Status, Switch: 1}
	b, m := newLedger(), measured{stream: streamed{kinds: map[record.Kind]uint64{}}}
	b.add(markOf(&h, data))
	b.add(markOf(&h, data))
	s := &m.stream
	s.take(b, data)
	s.finish(b, nil)
	m.statuses = [collectors]*api.CollectorStatus{statusOf(s.kinds), statusOf(s.kinds)}
	if b.alike != 1 || s.once != 1 || m.fault() != nil {
		t.Errorf("%+v, %d alike: %v", s, b.alike, m.fault())
	}
	if s.take(b, data); s.again != 1 || m.fault() == nil {
		t.Errorf("%+v: a record came twice", s)
	}
	s.again = 0
	if s.take(b, encodedRecord(t, record.Status, 9, 1)); s.strange != 1 || m.fault() == nil {
		t.Errorf("%+v: no switch wrote it", s)
	}
	if s.take(b, []byte("no record")); s.strange != 2 {
		t.Errorf("%+v: it is no record", s)
	}
}

// statusOf is a collector that has applied so many records.
func statusOf(kinds map[record.Kind]uint64) *api.CollectorStatus {
	s := new(api.CollectorStatus)
	for k, n := range kinds {
		s.Kinds = append(s.Kinds, &api.KindStatus{Kind: k.String(), Records: n})
	}
	return s
}

// TestUnapplied: what a collector did not apply is a fault, of digests what both together did not.
func TestUnapplied(t *testing.T) {
	type kinds = map[record.Kind]uint64
	stream := kinds{record.Status: 10, record.LDS: 5, record.PINT: 100}
	for name, c := range map[string]struct {
		first, second kinds
		want          uint64
	}{
		"all":                                  {first: kinds{record.Status: 10, record.LDS: 5, record.PINT: 40}, second: kinds{record.Status: 10, record.LDS: 5, record.PINT: 60}},
		"a partition has moved":                {first: kinds{record.Status: 10, record.LDS: 5, record.PINT: 70}, second: kinds{record.Status: 10, record.LDS: 5, record.PINT: 60}},
		"a status is lacking in one":           {first: kinds{record.Status: 9, record.LDS: 5, record.PINT: 40}, second: kinds{record.Status: 10, record.LDS: 5, record.PINT: 60}, want: 1},
		"another kind does not make up for it": {first: kinds{record.Status: 9, record.LDS: 6, record.PINT: 40}, second: kinds{record.Status: 10, record.LDS: 5, record.PINT: 60}, want: 2},
		"nor does the other collector":         {first: kinds{record.Status: 9, record.LDS: 5, record.PINT: 40}, second: kinds{record.Status: 11, record.LDS: 5, record.PINT: 60}, want: 2},
		"digests are lacking in both":          {first: kinds{record.Status: 10, record.LDS: 5, record.PINT: 40}, second: kinds{record.Status: 10, record.LDS: 5, record.PINT: 50}, want: 10},
		"a kind never came":                    {first: kinds{record.Status: 10, record.PINT: 40}, second: kinds{record.Status: 10, record.LDS: 5, record.PINT: 60}, want: 5},
	} {
		t.Run(name, func(t *testing.T) {
			m := measured{stream: streamed{kinds: stream}, statuses: [collectors]*api.CollectorStatus{statusOf(c.first), statusOf(c.second)}}
			if got := m.unapplied(); got != c.want || (m.fault() != nil) != (c.want > 0) {
				t.Errorf("%d, want %d: %v", got, c.want, m.fault())
			}
		})
	}
}
