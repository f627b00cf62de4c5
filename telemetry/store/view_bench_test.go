package store

import (
	"testing"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/record"
)

// BenchmarkViewOfMany takes views of the records of 1,000 switches over two minutes, 140,000 of them, while more come: 100 batches of digests between
// two views, as between two questions, or fragments, of which all of an epoch are of one second.
func BenchmarkViewOfMany(b *testing.B) {
	const switches, seconds = 1000, 120
	for _, sketches := range []bool{false, true} {
		name := "digests"
		if sketches {
			name = "fragments"
		}
		b.Run(name, func(b *testing.B) {
			l, err := NewLive(LiveConfig{Bytes: 2 << 30})
			if err != nil {
				b.Fatal(err)
			}
			digests := func(sw uint32, second int64, sequence uint64) {
				start := second << 30
				body := pint.AppendDigests(nil, &pint.DigestBatch{Boot: 1, Sequence: sequence, Sent: sequence, Plan: 1})
				h := record.Header{Kind: record.PINT, Switch: sw, Name: "s", Instance: uint16(sw % record.Partitions), Plan: 1, Start: start, Span: 1 << 30}
				if o := l.Add(h, body); o != Taken {
					b.Fatal(o)
				}
			}
			headers, bodies := make([][]record.Header, switches), make([][][]byte, switches)
			for sw := range switches {
				headers[sw], bodies[sw] = smallFragments(b, uint64(sw+1), 1000, seconds/8+200)
			}
			for second := range int64(seconds) {
				for sw := range uint32(switches) {
					digests(sw+1, 1000*8+second, uint64(second))
					if second%8 == 0 {
						l.Add(headers[sw][second/8], bodies[sw][second/8])
					}
				}
			}
			next, at := seconds/8, int64(1000*8+seconds)
			sw, n := uint32(0), uint64(seconds)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for range 100 {
					if sketches {
						l.Add(headers[sw][next], bodies[sw][next])
					} else {
						digests(sw+1, at, n)
					}
					if sw++; sw == switches {
						sw, next, at, n = 0, next+1, at+1, n+1
					}
				}
				b.StartTimer()
				if v := l.View(Window{}); len(v.Batches) < seconds*switches {
					b.Fatal(len(v.Batches))
				}
			}
		})
	}
}

// smallFragments are records of one fragment of a KB, of epochs of 2^33 ns.
func smallFragments(tb testing.TB, sw, first uint64, epochs int) (headers []record.Header, bodies [][]byte) {
	f, err := disketch.NewFragment(disketch.Config{ID: disketch.ID{Switch: sw}, Kind: disketch.CountSketch, Memory: 1 << 10, Epochs: 33, Seed: 5, Candidates: 16})
	if err != nil {
		tb.Fatal(err)
	}
	c, err := f.NewCounter()
	if err != nil {
		tb.Fatal(err)
	}
	for e := range uint64(epochs) {

		c.Begin(f.Begin(first+e), 0)
		c.Add(sw+e, 1, false)
		body, err := c.Record().AppendBinary(nil)
		if err != nil {
			tb.Fatal(err)
		}
		bodies = append(bodies, body)
		headers = append(headers, record.Header{Kind: record.DiSketch, Switch: uint32(sw), Name: "s", Start: int64(first+e) << 33, Span: 1 << 33})
	}
	return headers, bodies
}
