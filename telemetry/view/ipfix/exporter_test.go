package ipfix

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

const offset = 37 * int64(time.Second) // of CLOCK_TAI from UTC

// sampled is an engine over the samples of two switches, of which each saw all packets of some flows in each of
// the epochs from first on.
func sampled(t *testing.T, first int64, epochs int, flows []query.Key) *query.Engine {
	t.Helper()
	s := &store.Store{}
	for epoch := range epochs {
		for sw := uint32(1); sw <= 2; sw++ {
			sampler, err := oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Bytes, Size: 4096, Gamma: oblivious.DefaultGamma, Seed: 3})
			if err != nil {
				t.Fatal(err)
			}
			id := uint64(epoch) << 32
			for i := range flows {
				for range 10 * (i + 1) { // flow i has so many packets of 1000 bytes
					id++
					k := oblivious.Key(flows[i])
					sampler.Add(id*0x9e3779b97f4a7c15, 1000, &k)
				}
			}
			body, err := sampler.Sample().AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			s.Add(record.Header{Kind: record.Oblivious, Switch: sw, Name: fmt.Sprint("s", sw), Start: (first + int64(epoch)) << 30, Span: 1 << 30}, body)
		}
	}
	s.Sort()
	return &query.Engine{Store: s}
}

// TestExport: what a real engine says of real records arrives as IPFIX, with times of UTC.
func TestExport(t *testing.T) {
	flows := []query.Key{key(t, "10.0.0.1:1 > 10.0.0.2:2 udp"), key(t, "[fd00::1]:1 > [fd00::2]:2 tcp"), key(t, "10.0.0.3:1 > 10.0.0.2:2 udp")}
	const first = 1_700_000_000
	engine := sampled(t, first, 4, flows)
	c, target := receiver(t, "127.0.0.1:0")
	config := DefaultConfig()
	config.Target, config.Interval = target, 4*time.Second
	now := int64(first+4) << 30
	e, err := New(config, Options{Ask: engine.Ask, Clock: func() (int64, int64) { return now, now - offset }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if e.Window() != 1<<32 {
		t.Errorf("windows of %v", e.Window())
	}
	if err := e.Export(t.Context(), first<<30, (first+4)<<30); err != nil {
		t.Fatal(err)
	}
	d := newDecoder()
	for len(d.flows) < len(flows) { // in one message, where the kernel knows the MTU of the path
		if err := d.decode(hear(t, c, 1)[0], 0); err != nil {
			t.Fatal(err)
		}
	}
	got := map[query.Key]Flow{}
	for _, f := range d.flows {
		got[f.Key] = f
	}
	for i, k := range flows {
		packets := float64(4 * 10 * (i + 1))
		f, ok := got[k]
		if !ok || f.Packets == nil || f.Bytes == nil || f.Packets.Value != packets || f.Bytes.Value != 1000*packets || f.Packets.Low > packets || f.Packets.High < packets {
			t.Errorf("flow %d: %+v", i, f)
		}
	}
	for w := range d.windows {
		if start := int64(first<<30) - offset; w.Start/1e6 != start/1e6 || w.End < start+1<<32 || w.Confidence != 0.95 {
			t.Errorf("window %+v", w)
		}
	}
	// A window without records sends nothing, and is no fault; a question that fails is one.
	before, _ := e.Counters()
	if err := e.Export(t.Context(), 1<<30, 2<<30); err != nil {
		t.Error(err)
	}
	e.options.Ask = func(context.Context, *query.Question) (any, error) { return nil, query.ErrTooCostly }
	if err := e.Export(t.Context(), first<<30, (first+4)<<30); !errors.Is(err, query.ErrTooCostly) {
		t.Errorf("got %v", err)
	}
	if after, _ := e.Counters(); after != before {
		t.Errorf("%+v, then %+v", before, after)
	}
}

// TestRun: windows follow each other without gap or overlap; those for which there was no time are counted.
func TestRun(t *testing.T) {
	_, target := receiver(t, "127.0.0.1:0")
	config := DefaultConfig()
	config.Target, config.Interval, config.Delay = target, MinInterval, 0
	var now atomic.Int64 // the clock runs when it is asked, as if a window took no time
	now.Store(100<<30 + 5)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var windows []store.Window
	o := Options{
		Clock: func() (int64, int64) { return now.Load(), now.Load() },
		Ask: func(_ context.Context, q *query.Question) (any, error) {
			windows = append(windows, store.Window{From: q.Start, To: q.End})
			now.Store(q.End + 1)
			switch len(windows) {
			case 3:
				now.Store(q.End + 10<<30)
			case 5:
				cancel()
			}
			return nil, query.ErrNoRecords
		},
		Fault: func(err error) { t.Error(err) },
	}
	e, err := New(config, o)
	if err != nil {
		t.Fatal(err)
	}
	e.length = 1 << 20 // a millisecond: the test waits for it
	now.Store(100 << 20)
	o.Ask = nil
	e.Run(ctx)
	if len(windows) != 5 {
		t.Fatalf("%d windows", len(windows))
	}
	left := int64(0)
	for i, w := range windows {
		if w.To-w.From != 1<<20 || w.From&(1<<20-1) != 0 {
			t.Errorf("window %+v", w)
		}
		if i > 0 {
			gap := (w.From - windows[i-1].To) >> 20
			if gap < 0 || gap > 0 != (i == 3) {
				t.Errorf("window %d begins %d windows behind the one before", i, gap)
			}
			left += gap
		}
	}
	if _, missed := e.Counters(); int64(missed) != left {
		t.Errorf("%d windows missed, counted %d", left, missed)
	}
}
