package query

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// A network at about the size that a collector is built for: 100 epochs of 20 switches, 12
// leaves and 8 spines, with fragments of 128 KB, samples of the default size and digests of
// 4 of a flow's first 16 packets in each epoch.
const (
	benchEpochs   = 100
	benchLeaves   = 12
	benchSpines   = 8
	benchFlows    = 50_000
	benchPackets  = 133_000 // of an epoch
	benchFragment = 128 << 10
	benchSample   = 10_000
)

// benchWay is a flow's leaf, spine and leaf.
func benchWay(i int) [3]uint32 {
	h := hash.Uint64(1, uint64(i))
	from, to := uint32(h%benchLeaves), uint32(h>>16%benchLeaves)
	return [3]uint32{1 + from, 1 + benchLeaves + uint32(h>>32%benchSpines), 1 + to}
}

// benchLive is made once, for all benchmarks.
var benchLive = sync.OnceValue(func() *store.Live {
	l, err := store.NewLive(store.LiveConfig{Bytes: 8 << 30, Now: func() int64 { return benchEpochs << epochBits }})
	if err != nil {
		panic(err)
	}
	r, e := rand.New(rand.NewPCG(1, 2)), Engine{}
	plan, err := pintplan.Default().Compile()
	if err != nil {
		panic(err)
	}
	var counters [benchLeaves + benchSpines + 1]*disketch.Counter
	var fragments [len(counters)]*disketch.Fragment
	for sw := 1; sw < len(counters); sw++ {
		fragments[sw], err = disketch.NewFragment(disketch.Config{
			ID: disketch.ID{Switch: uint64(sw)}, Kind: disketch.CountSketch, Memory: benchFragment, Epochs: epochBits, Target: 100, Candidates: 256,
		})
		if err == nil {
			counters[sw], err = fragments[sw].NewCounter()
		}
		if err != nil {
			panic(err)
		}
	}
	var sequence, sent [record.Partitions]uint64
	for epoch := range uint64(benchEpochs) {
		var samplers [len(counters)]*oblivious.Sampler
		for sw := 1; sw < len(counters); sw++ {
			counters[sw].Begin(fragments[sw].Begin(epoch), 0)
			samplers[sw], _ = oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Bytes, Size: benchSample})
		}
		var digests [record.Partitions][]pint.Record
		seen := map[int]int{}
		for p := range benchPackets {
			i := int(math.Pow(benchFlows, r.Float64())) - 1
			k, id, way := key(i), r.Uint64(), benchWay(i)
			for _, sw := range way {
				counters[sw].AddBatch([]uint64{e.FlowID(hash.XX, k)}, []int64{1}, false)
				for _, a := range counters[sw].Admitted() {
					*a.Key = disketch.Key(k)
				}
				samplers[sw].Add(id, 1000, &k)
			}
			if seen[i]++; seen[i] > 16 || seen[i]%4 != 0 {
				continue
			}
			o := pint.Record{Flow: pint.FlowKey(k), ID: id, TimeNs: epoch<<epochBits + uint64(p)*8000, Plan: 1, Hops: 3}
			for hop, sw := range way {
				o.Digest = plan.Encode(id, hop+1, o.Digest, &pint.Observed{pint.SwitchID: uint64(sw), pint.HopLatency: 1000 + r.Uint64N(1000)})
			}
			partition := o.Flow.Partition(record.Partitions)
			digests[partition] = append(digests[partition], o)
		}
		put := func(h record.Header, body func([]byte) ([]byte, error)) {
			h.Start, h.Span, h.Name = int64(epoch)<<epochBits, 1<<epochBits, string(rune('a'+h.Switch))
			b, err := body(nil)
			if err != nil {
				panic(err)
			}
			if outcome := l.Add(h, b); outcome != store.Taken {
				panic(outcome.String())
			}
		}
		for sw := uint32(1); sw < uint32(len(counters)); sw++ {
			put(record.Header{Kind: record.DiSketch, Switch: sw}, counters[sw].Record().AppendBinary)
			put(record.Header{Kind: record.Oblivious, Switch: sw}, samplers[sw].Sample().AppendBinary)
		}
		for partition, records := range digests {
			b := &pint.DigestBatch{Boot: 1, Sequence: sequence[partition], Sent: sent[partition], Plan: 1, Records: records}
			sequence[partition]++
			sent[partition] += uint64(len(records))
			put(record.Header{Kind: record.PINT, Switch: 1, Instance: uint16(partition), Plan: 1},
				func(dst []byte) ([]byte, error) { return pint.AppendDigests(dst, b), nil })
		}
	}
	return l
})

// benchAsk reports the median time of a question, of a view that was asked before and of one that
// is made for it.
func benchAsk(b *testing.B, q Question) {
	l := benchLive()
	for _, c := range []struct {
		name string
		view func() *store.Store
	}{
		{"warm", sync.OnceValue(func() *store.Store { return l.View(store.Window{}) })},
		{"cold", func() *store.Store { return l.View(store.Window{}) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.view()
			var times []float64
			cpu := cpuTime()
			for b.Loop() {
				begin := time.Now()
				if _, err := (&Engine{Store: c.view()}).Ask(context.Background(), &q); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(begin).Seconds()*1000)
			}
			b.ReportMetric((cpuTime()-cpu)/float64(len(times))*1000, "cpu-ms")
			slices.Sort(times)
			b.ReportMetric(times[len(times)/2], "median-ms")
			b.ReportMetric(times[0], "least-ms")
		})
	}
}

// cpuTime is what the process used so far, in seconds: on a busy machine it tells more than the
// time by the clock.
func cpuTime() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func BenchmarkPath(b *testing.B) {
	benchAsk(b, Question{Kind: KindPath, Flow: FormatKey(key(0))})
}

func BenchmarkPathMouse(b *testing.B) {
	benchAsk(b, Question{Kind: KindPath, Flow: FormatKey(key(5000))})
}

func BenchmarkLatency(b *testing.B) {
	benchAsk(b, Question{Kind: KindLatency, Flow: FormatKey(key(0))})
}

func BenchmarkLatencyPooled(b *testing.B) {
	benchAsk(b, Question{Kind: KindLatency})
}

func BenchmarkFrequency(b *testing.B) {
	benchAsk(b, Question{Kind: KindFrequency, Flow: FormatKey(key(10))})
}

func BenchmarkHeavyHitters(b *testing.B) {
	benchAsk(b, Question{Kind: KindHeavyHitters})
}

func BenchmarkHeavyHittersOfSketch(b *testing.B) {
	benchAsk(b, Question{Kind: KindHeavyHitters, By: BySketch})
}

func BenchmarkVolumeSeries(b *testing.B) {
	benchAsk(b, Question{Kind: KindVolume, Step: 1 << epochBits})
}
