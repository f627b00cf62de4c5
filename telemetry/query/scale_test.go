package query

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// The network that answers are timed of: 20 switches, of which each flow passes five, with
// fragments of 128 KB, over 100 epochs.
const (
	scaleSwitches = 20
	scaleEpochs   = 100
	scaleHops     = 5
	scaleMemory   = 128 << 10
	scaleFlows    = 20_000
	scalePackets  = 20_000 // by switch and epoch
)

// scalePath leads by five switches, which the flow chooses.
func scalePath(k Key) (way []uint32) {
	first := uint32(k.SrcPort) % scaleSwitches
	for i := range uint32(scaleHops) {
		way = append(way, (first+3*i)%scaleSwitches+1)
	}
	return way
}

// scaleNetwork is a live store with the records of the network.
var scaleNetwork = sync.OnceValues(func() (*store.Live, error) {
	l, err := store.NewLive(store.LiveConfig{Bytes: 1 << 30})
	if err != nil {
		return nil, err
	}
	e := Engine{}
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 1)), 1.2, 4, scaleFlows-1)
	bySwitch := make([][]Key, scaleSwitches+1)
	for range scaleSwitches * scalePackets / scaleHops {
		k := key(int(zipf.Uint64()))
		for _, sw := range scalePath(k) {
			bySwitch[sw] = append(bySwitch[sw], k)
		}
	}
	for sw := uint64(1); sw <= scaleSwitches; sw++ {
		f, err := disketch.NewFragment(disketch.Config{
			ID: disketch.ID{Switch: sw}, Kind: disketch.UnivMon, Memory: scaleMemory, Epochs: 30, Seed: 7, Candidates: 128,
		})
		if err != nil {
			return nil, err
		}
		c, err := f.NewCounter()
		if err != nil {
			return nil, err
		}
		flows, values := make([]uint64, 64), make([]int64, 64)
		for i := range values {
			values[i] = 1
		}
		for epoch := range int64(scaleEpochs) {
			c.Begin(f.Begin(uint64(epoch)), 0)
			for some := range slices.Chunk(bySwitch[sw], 64) {
				for i, k := range some {
					flows[i] = e.FlowID(hash.XX, k)
				}
				c.AddBatch(flows[:len(some)], values[:len(some)], false)
				for _, a := range c.Admitted() {
					*a.Key = disketch.Key(some[a.Index])
				}
			}
			body, err := c.Record().AppendBinary(nil)
			if err != nil {
				return nil, err
			}
			l.Add(record.Header{Kind: record.DiSketch, Switch: uint32(sw), Start: epoch << 30, Span: 1 << 30}, body)
		}
	}
	return l, nil
})

// median of the times that f takes, and the first one.
func timed(b *testing.B, f func()) {
	var all []time.Duration
	for b.Loop() {
		begin := time.Now()
		f()
		all = append(all, time.Since(begin))
	}
	first := all[0]
	slices.Sort(all)
	b.ReportMetric(float64(first.Microseconds())/1000, "first-ms")
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "median-ms")
}

// coldLines is more memory than any cache has.
var coldLines = make([]byte, 256<<20)

// coolDown takes all that was read out of the caches.
func coolDown() {
	for i := 0; i < len(coldLines); i += 64 {
		coldLines[i]++
	}
}

// BenchmarkScale asks a network of 20 switches, over 100 epochs.
func BenchmarkScale(b *testing.B) {
	l, err := scaleNetwork()
	if err != nil {
		b.Fatal(err)
	}
	if c := l.Counts(); c.Records != scaleSwitches*scaleEpochs {
		b.Fatalf("%+v", c)
	}
	engine := func() *Engine {
		return &Engine{Store: l.View(store.Window{}), Paths: PathFunc(scalePath)}
	}
	b.Run("view", func(b *testing.B) { timed(b, func() { engine() }) })
	frequency := func(b *testing.B, e *Engine, i int) {
		if f, err := e.SketchFrequency(key(i)); err != nil || f.Covered < 0.99 {
			b.Fatal(f, err)
		}
	}
	b.Run("frequency", func(b *testing.B) {
		i := 0
		timed(b, func() { frequency(b, engine(), i%100); i++ })
	})
	b.Run("frequency-cold", func(b *testing.B) {
		var all []time.Duration
		for b.Loop() {
			coolDown()
			begin := time.Now()
			frequency(b, engine(), len(all)%100)
			all = append(all, time.Since(begin))
		}
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "median-ms")
	})
	b.Run("heavy-hitters", func(b *testing.B) {
		timed(b, func() {
			h, err := engine().SketchHeavyHitters(0.01, 0)
			if err != nil || len(h.Flows) == 0 {
				b.Fatal(h, err)
			}
		})
	})
	b.Run("entropy", func(b *testing.B) {
		timed(b, func() {
			if _, err := engine().Entropy(); err != nil {
				b.Fatal(err)
			}
		})
	})
}
