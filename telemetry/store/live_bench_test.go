package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/record"
)

// digestBodies are batches of one switch of 4096 digests each, of flows of the partition,
// one behind the other in time.
func digestBodies(n, flows int) (headers []record.Header, bodies [][]byte) {
	r := rand.New(rand.NewPCG(1, 1))
	var keys []pint.FlowKey
	for i := 0; len(keys) < flows; i++ {
		k := pint.FlowKey{Version: 4, Proto: 6, SrcPort: uint16(i), DstPort: uint16(i >> 16)}
		k.Src[0], k.Dst[0] = 10, 10
		if k.Partition(record.Partitions) == 3 {
			keys = append(keys, k)
		}
	}
	for i := range n {
		b := &pint.DigestBatch{Boot: 1, Sequence: uint64(i), Sent: uint64(i) * 4096, Plan: 1}
		start := int64(1000+i/4) << 30
		for range 4096 {
			b.Records = append(b.Records, pint.Record{Flow: keys[r.IntN(flows)], ID: r.Uint64(), Digest: r.Uint64() & 0xffff, TimeNs: uint64(start + r.Int64N(1<<30)), Plan: 1, Hops: 5})
		}
		bodies = append(bodies, pint.AppendDigests(nil, b))
		headers = append(headers, record.Header{Kind: record.PINT, Switch: 1, Name: "s1", Instance: 3, Plan: 1, Start: start, Span: 1 << 30})
	}
	return headers, bodies
}

// BenchmarkLiveDigests adds batches of 4096 digests, beside a bare copy of their bytes.
// Records of as many switches as come round are different ones.
func BenchmarkLiveDigests(b *testing.B) {
	for _, flows := range []int{16, 1000, 50_000} {
		headers, bodies := digestBodies(64, flows)
		report := func(b *testing.B) {
			b.ReportMetric(4096*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mdigests/s")
			b.SetBytes(int64(len(bodies[0])))
		}
		b.Run(fmt.Sprintf("flows=%d/copy", flows), func(b *testing.B) {
			i := 0
			for b.Loop() {
				sink = bytes.Clone(bodies[i%len(bodies)])
				i++
			}
			report(b)
		})
		b.Run(fmt.Sprintf("flows=%d/live", flows), func(b *testing.B) {
			l, err := NewLive(LiveConfig{Bytes: 256 << 20})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				at := i % len(bodies)
				h := headers[at]
				h.Switch = uint32(i / len(bodies))
				if o := l.Add(h, bodies[at]); o != Taken && o != Late {
					b.Fatal(o)
				}
				i++
			}
			report(b)
		})
		b.Run(fmt.Sprintf("flows=%d/live-parallel", flows), func(b *testing.B) {
			l, err := NewLive(LiveConfig{Bytes: 256 << 20})
			if err != nil {
				b.Fatal(err)
			}
			var next atomic.Int64
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					i := int(next.Add(1))
					at := i % len(bodies)
					h := headers[at]
					h.Switch = uint32(i / len(bodies))
					l.Add(h, bodies[at])
				}
			})
			report(b)
		})
	}
}

var sink []byte

// sketchRecords are those of one fragment of 128 KB, of epochs of 2^30 ns from 1000 on,
// which counted packets of flows of all sizes.
func sketchRecords(tb testing.TB, kind disketch.Kind, sw uint64, epochs, packets int) (headers []record.Header, bodies [][]byte) {
	f, err := disketch.NewFragment(disketch.Config{ID: disketch.ID{Switch: sw}, Kind: kind, Memory: 128 << 10, Epochs: 30, Seed: 5, Candidates: 256})
	if err != nil {
		tb.Fatal(err)
	}
	c, err := f.NewCounter()
	if err != nil {
		tb.Fatal(err)
	}
	r := rand.New(rand.NewPCG(sw, 1))
	zipf := rand.NewZipf(r, 1.1, 1, 1<<20)
	for e := range uint64(epochs) {
		c.Begin(f.Begin(1000+e), 0)
		for range packets {
			c.Add(zipf.Uint64(), 1, false)
		}
		body, err := c.Record().AppendBinary(nil)
		if err != nil {
			tb.Fatal(err)
		}
		bodies = append(bodies, body)
		headers = append(headers, record.Header{Kind: record.DiSketch, Switch: uint32(sw), Name: fmt.Sprint("s", sw), Start: int64(1000+e) << 30, Span: 1 << 30})
	}
	return headers, bodies
}

// BenchmarkLiveFragments adds records of fragments of 128 KB, beside a bare copy of their
// bytes. Switches send the same body under their own names.
func BenchmarkLiveFragments(b *testing.B) {
	for _, kind := range []disketch.Kind{disketch.CountSketch, disketch.CountMin, disketch.UnivMon} {
		headers, bodies := sketchRecords(b, kind, 1, 8, 200_000)
		report := func(b *testing.B) {
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			b.SetBytes(int64(len(bodies[0])))
			b.ReportMetric(float64(len(bodies[0])), "bytes/record")
		}
		b.Run(kind.String()+"/copy", func(b *testing.B) {
			i := 0
			for b.Loop() {
				sink = bytes.Clone(bodies[i%len(bodies)])
				i++
			}
			report(b)
		})
		b.Run(kind.String()+"/live", func(b *testing.B) {
			b.ReportAllocs()
			l, err := NewLive(LiveConfig{Bytes: 256 << 20})
			if err != nil {
				b.Fatal(err)
			}
			i := 0
			for b.Loop() {
				at := i % len(bodies)
				h := headers[at]
				h.Instance = 0
				h.Partial = true // so that those that come round are taken
				h.Missed = uint64(i)
				if o := l.Add(h, bodies[at]); o != Taken && o != Conflict {
					b.Fatal(o)
				}
				i++
			}
			report(b)
		})
	}
}

// BenchmarkFlow finds the digests of one flow among those of three sinks over 100 seconds, of
// 5 million: the view, the flow, all flows and all digests.
func BenchmarkFlow(b *testing.B) {
	l, err := NewLive(LiveConfig{Bytes: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	headers, bodies := digestBodies(400, 1000)
	for sw := range uint32(3) {
		for i, h := range headers {
			h.Switch = sw
			l.Add(h, bodies[i])
		}
	}
	v := l.View(Window{})
	flow := v.Flows(1)[0].Key
	b.Run("view", func(b *testing.B) {
		for b.Loop() {
			v = l.View(Window{})
		}
	})
	b.Run("flow", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n = len(v.Digests(flow, 1))
		}
		b.ReportMetric(float64(n), "digests")
		b.ReportMetric(float64(len(v.Batches)), "batches")
	})
	b.Run("flows", func(b *testing.B) {
		for b.Loop() {
			v.Flows(1)
		}
	})
}
