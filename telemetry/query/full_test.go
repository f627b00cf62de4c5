package query

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// fullStore is a live store of so many bytes that has made room for records of all kinds, of eight switches in a chain.
func fullStore(t *testing.T, bytes int64) *store.Store {
	t.Helper()
	const switches, flows, ports = 8, 2000, 4
	l, err := store.NewLive(store.LiveConfig{Bytes: bytes})
	if err != nil {
		t.Fatal(err)
	}
	add := func(h record.Header, body func([]byte) ([]byte, error)) {
		h.Span = 1 << epochBits
		b, err := body(nil)
		if err != nil {
			t.Fatal(err)
		}
		if o := l.Add(h, b); o != store.Taken && o != store.Late {
			t.Fatalf("%v: %v", h.Kind, o)
		}
	}
	plan := pintplan.Default()
	encoder, err := plan.Compile()
	if err != nil {
		t.Fatal(err)
	}
	fragments := make([]*disketch.Fragment, switches+1)
	for sw := range fragments {
		if fragments[sw], err = disketch.NewFragment(disketch.Config{ID: disketch.ID{Switch: uint64(sw)}, Kind: disketch.UnivMon, Memory: 1 << 14, Epochs: epochBits, Target: 1, Candidates: 64}); err != nil {
			t.Fatal(err)
		}
	}
	r, e := rand.New(rand.NewPCG(26, 4)), Engine{}
	sequence, sent := map[int]uint64{}, map[int]uint64{}
	for epoch := int64(1); l.Counts().Evicted < 1000; epoch++ {
		start := epoch << epochBits
		digests := map[int][]pint.Record{}
		packets := make([]Key, 1000)
		ids := make([]uint64, len(packets))
		for i := range packets {
			packets[i], ids[i] = key(r.IntN(flows)), r.Uint64()
			o := pint.Record{Flow: pint.FlowKey(packets[i]), ID: ids[i], TimeNs: uint64(start) + uint64(i), Plan: plan.ID, Hops: switches}
			for hop := range switches {
				v := pint.Observed{pint.SwitchID: uint64(hop + 1), pint.HopLatency: r.Uint64N(5000), pint.EgressUtilisation: pint.UtilisationOne / 10, pint.IngressTime: o.TimeNs}
				o.Digest = encoder.Encode(o.ID, hop+1, o.Digest, &v)
			}
			digests[o.Flow.Partition(record.Partitions)] = append(digests[o.Flow.Partition(record.Partitions)], o)
		}
		for p, list := range digests {
			b := &pint.DigestBatch{Boot: 1, Sequence: sequence[p], Sent: sent[p], Plan: plan.ID, Records: list}
			sequence[p]++
			sent[p] += uint64(len(list))
			add(record.Header{Kind: record.PINT, Switch: switches, Instance: uint16(p), Plan: plan.ID, Start: start, Hash: plan.Hash},
				func(dst []byte) ([]byte, error) { return pint.AppendDigests(dst, b), nil })
		}
		for sw := uint32(1); sw <= switches; sw++ {
			s, _ := oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Packets, Size: 200})
			f, _ := oblivious.NewSampler(oblivious.Config{Kind: oblivious.DUS, Unit: oblivious.Flows, Size: 200})
			c, err := fragments[sw].NewCounter()
			if err != nil {
				t.Fatal(err)
			}
			c.Begin(fragments[sw].Begin(uint64(epoch)), 0)
			for i := range packets {
				s.Add(ids[i], 100, &packets[i])
				f.Add(Hash(hash.XX, packets[i], 77), 1, &packets[i])
				c.Add(e.FlowID(hash.XX, packets[i]), 1, false)
			}
			add(record.Header{Kind: record.Oblivious, Switch: sw, Start: start}, s.Sample().AppendBinary)
			add(record.Header{Kind: record.Oblivious, Switch: sw, Instance: 1, Start: start}, f.Sample().AppendBinary)
			add(record.Header{Kind: record.DiSketch, Switch: sw, Start: start}, c.Record().AppendBinary)
			status := said(1, start)
			add(record.Header{Kind: record.Status, Switch: sw, Start: start}, status.AppendBinary)
			for port := range uint16(ports) {
				p, err := lds.NewPoint(lds.Config{Rows: 2, Columns: 64, Virtual: 1, IntervalNs: 1 << epochBits})
				if err != nil {
					t.Fatal(err)
				}
				p.Begin(epoch)
				for i := range 50 {
					p.Add(Hash(hash.XX, packets[i], 0), ids[i], start+int64(sw)*1000+int64(i), 100)
				}
				add(record.Header{Kind: record.LDS, Switch: sw, Instance: 2*port + uint16(sw&1), Start: start}, p.AppendBinary)
			}
		}
	}
	return l.View(store.Window{})
}

// TestFullStore: with a store that is full of records of all kinds, a question of each kind ends with its context wherever it is, answers or not,
// and takes no more memory than it may.
func TestFullStore(t *testing.T) {
	bytes := int64(64 << 20)
	if testing.Short() {
		bytes = 8 << 20
	}
	full := fullStore(t, bytes)
	t.Logf("a store of %d MiB: %+v", bytes>>20, full.Counts())
	e := Engine{Store: full, FlowSeed: 0, Limits: Limits{Bytes: 256 << 20}}
	questions := append(everyQuestion(), Question{Kind: KindNetwork}, Question{Kind: KindCongestion}, Question{Kind: KindDelay, From: "1", To: "8"},
		Question{Kind: KindLoss, From: "1", To: "8"}, Question{Kind: KindDelay, From: "1:0", To: "8:0", Step: 1 << epochBits})
	asked := map[Kind]bool{}
	for _, q := range questions {
		asked[q.Kind] = true
		if q.Start != 0 {
			continue // the same of a part
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		whole, began := &givesUp{context.Background(), 1 << 30}, time.Now()
		_, err := e.Ask(whole, &q)
		took, looks := time.Since(began), 1<<30-whole.looks
		runtime.ReadMemStats(&after)
		if err != nil && !errors.Is(err, ErrTooCostly) {
			t.Errorf("%s: %v", q.Kind, err)
			continue
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(e.Limits.Bytes) {
			t.Errorf("%s: %d MiB were allocated, %d may be", q.Kind, got>>20, e.Limits.Bytes>>20)
		}
		again := &givesUp{context.Background(), 1 << 30} // with what the store remembers
		_, _ = e.Ask(again, &q)
		for part := range 4 {
			n := part * (1<<30 - again.looks) / 4
			if a, err := e.Ask(&givesUp{context.Background(), n}, &q); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, given up at look %d of %d: %v, %v", q.Kind, n, 1<<30-again.looks, a, err)
			}
		}
		// A deadline in the middle: how much later the question ends is printed, since it is up to the machine.
		ctx, cancel := context.WithTimeout(context.Background(), took/2)
		began = time.Now()
		_, err = e.Ask(ctx, &q)
		late := max(0, time.Since(began)-took/2)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrTooCostly) {
			t.Errorf("%s with a deadline: %v", q.Kind, err)
		}
		t.Logf("%-14s step %-10d %6d looks, %8v in all, %4d MiB allocated; with half of that time: %8v late, %.60s", q.Kind, q.Step, looks,
			took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20, late.Round(time.Millisecond), errText(err))
	}
	for _, k := range Kinds() {
		if !asked[k] {
			t.Errorf("no question of kind %s", k)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return "answered"
	}
	return err.Error()
}
