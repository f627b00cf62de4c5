package service_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/stages/disketch"
	sketches "github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// crowded are the records of three switches on one path, whose few cells many flows share that send evenly.
func crowded(t *testing.T, o jetstream.Options, first uint64, bits sketches.Epochs) {
	t.Helper()
	const switches, epochs, flows, each, slices = 3, 4, 300, 16, 2
	for sw := uint64(1); sw <= switches; sw++ {
		f, err := sketches.NewFragment(sketches.Config{ID: sketches.ID{Switch: sw}, Kind: sketches.CountSketch, Memory: 160, Epochs: bits, Slices: slices})
		if err != nil {
			t.Fatal(err)
		}
		counter, err := f.NewCounter()
		if err != nil {
			t.Fatal(err)
		}
		parts, err := f.NewSlices()
		if err != nil {
			t.Fatal(err)
		}
		spool, _ := sender(t, o)
		for e := range uint64(epochs) {
			plan := f.Schedule(first+e, 0)
			parts.Begin(plan, slices)
			for range 1 << slices {
				counter.Begin(plan, 0)
				for flow := range uint64(flows) {
					counter.Add(hash.Uint64(1, flow), each>>slices, false)
				}
				if err := parts.Add(counter); err != nil {
					t.Fatal(err)
				}
			}
			r := parts.Record()
			for flow := range uint64(8) {
				k := sketches.Key{Src: [16]byte{10, 0, 1}, Dst: [16]byte{10, 0, 2}, Proto: 17, Version: 4, SrcPort: uint16(flow)}
				r.Candidates = append(r.Candidates, sketches.Candidate{Flow: hash.Uint64(1, flow), Key: k, Count: each})
			}
			h := &record.Header{Kind: record.DiSketch, Switch: uint32(sw), Name: fmt.Sprint("s", sw), Start: int64((first + e) << bits), Span: int64(bits.Nanoseconds())}
			encoded, err := record.Append(nil, h, r.AppendBinary)
			if err != nil {
				t.Fatal(err)
			}
			if err := spool.Write(h, encoded); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestCoordinate: a collector that knows the records and paths of three crowded switches assigns subepochs to them, over the
// connection of the records; a switch takes them once, and what is older, over or broken not at all.
func TestCoordinate(t *testing.T) {
	b := newCollectBed(t, "", "")
	text, err := os.ReadFile(b.file)
	if err != nil {
		t.Fatal(err)
	}
	paths := filepath.Join(b.dir, "paths.json")
	if err := os.WriteFile(paths, []byte(`[{"switches": ["s1", "s2", "s3"]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	text = append([]byte(fmt.Sprintf("[collect]\ncoordinate = true\npaths = %q\n", paths)), text[len("[collect]\n"):]...)
	if err := os.WriteFile(b.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	b.start(t)
	o := export.Config{Collector: []string{"nats://" + b.nats}}
	options := o.Options("s1")
	options.Inbox = jetstream.Acks(1)
	nc, err := options.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	came := make(chan []byte, 64)
	if err := jetstream.Listen(nc, jetstream.Assignments(1), jetstream.MaxAssignments, func(m []byte) { came <- append([]byte(nil), m...) }); err != nil {
		t.Fatal(err)
	}
	const bits = 30
	first := uint64(clock.Kernel.TAI())>>bits - 5
	crowded(t, options, first, bits)
	var body []byte
	select {
	case body = <-came:
	case <-time.After(3 * time.Minute):
		t.Fatalf("nothing was assigned\n%s", b.stderr)
	}
	var a sketches.Assignments
	if err := a.UnmarshalBinary(body); err != nil || len(a.Each) != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	if e := a.Each[0]; e.Log < 1 || e.Epochs != bits || e.From <= first || e.Until <= e.From {
		t.Errorf("%+v, of records from epoch %d on", e, first)
	}

	config := disketch.DefaultConfig()
	m, err := disketch.New(config, pipeline.Env{Name: "s1", ID: 1, Workers: 1, Ports: []pipeline.Port{{Name: "p0"}}})
	if err != nil {
		t.Fatal(err)
	}
	n := func() uint64 {
		// The first two epochs, and those whose number is a multiple of 16, are looked at with n = 1.
		e := a.Each[0].From
		m.Begin(0, e)
		if e += 2; e%16 == 0 {
			e++
		}
		s := m.Begin(0, e)
		return s.N()
	}
	metric := func(name string) (v float64) {
		m.Metrics(func(x pipeline.Metric) {
			if x.Name == name {
				v = x.Value
			}
		})
		return v
	}
	now := int64(a.Each[0].From << bits)
	for _, broken := range [][]byte{nil, body[:len(body)-1], append(body[:len(body):len(body)], 0)} {
		if m.Assign(now, broken) == nil {
			t.Errorf("%d bytes are taken", len(broken))
		}
	}
	future := append([]byte(nil), body...)
	binary.LittleEndian.PutUint64(future[1:], uint64(now)+3600e9)
	if m.Assign(now, future) == nil {
		t.Error("what is made in an hour is taken")
	}
	older := append([]byte(nil), body...)
	binary.LittleEndian.PutUint64(older[1:], a.Version-1)
	for i, x := range [][]byte{body, body, older} {
		if err := m.Assign(now, x); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if taken, stale := metric("assignments_total"), metric("stale_assignments_total"); taken != 1 || stale != 1 {
		t.Errorf("%g assignments were taken, %g are stale", taken, stale)
	}
	if got := n(); got != 1<<a.Each[0].Log || metric("assigned") != 1 {
		t.Errorf("n = %d, assigned %d", got, 1<<a.Each[0].Log)
	}
	newer := a
	newer.Version++
	late, _ := newer.AppendBinary(nil)
	if err := m.Assign(int64(a.Each[0].Until<<bits), late); err != nil || metric("stale_assignments_total") != 2 {
		t.Errorf("%v, %g are stale: what is over is taken", err, metric("stale_assignments_total"))
	}
}
