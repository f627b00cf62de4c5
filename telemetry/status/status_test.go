package status

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// example is a status with a different value in each field.
func example() *Status {
	return &Status{
		Time: 1 << 60, Boot: 1<<60 - 99, Program: "v1.2", Spool: Spool{Bytes: 7, Bound: 8, Remote: true, Connected: true},
		Clock: Clock{Source: "CLOCK_TAI", Synchronised: true, OffsetNs: -12, ErrorNs: 13, MaxErrorNs: 14, TAIOffset: 37},
		Ports: []Port{
			{Number: 0, Name: "p0", Interface: "eth0", Mode: "native, copy", Up: true, Speed: 1e10,
				Received: 1, ReceivedBytes: 2, Transmitted: 3, TransmittedBytes: 4, Backlog: 5,
				Drops: []Drop{{"acl_denied", 6}, {"rx_ring_full", math.MaxUint64}}},
			{Number: 1, Name: "p1 ü"},
		},
		Measurements: []Measurement{{Stage: "disketch", Part: "fragment 0", Epochs: 20, Overruns: 21, Missed: 22}},
		Exports:      []Export{{Kind: "lds", Made: 30, Sent: 31, Dropped: 32, Lost: 33, Waiting: 34}},
		Workers:      []Worker{{ID: 1, Core: -1, CPUNs: 40, Batches: 41, Packets: 42, Rounds: 43, Sleeps: 44}},
	}
}

func encode(t testing.TB, s *Status) []byte {
	t.Helper()
	b, err := s.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRoundTrip: no field is forgotten, as each has a value of its own.
func TestRoundTrip(t *testing.T) {
	for _, want := range []*Status{example(), {}, {Time: -maxTime, Boot: maxTime, Ports: make([]Port, maxPorts)}} {
		got, err := Decode(encode(t, want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	noZeros(t, reflect.ValueOf(example()).Elem(), "Status")
}

// noZeros fails if the first element of any list, or any field outside lists, is zero, but for the port number 0.
func noZeros(t *testing.T, v reflect.Value, path string) {
	for i := range v.NumField() {
		f, name := v.Field(i), path+"."+v.Type().Field(i).Name
		switch {
		case f.Kind() == reflect.Slice && f.Len() > 0:
			noZeros(t, f.Index(0), name)
		case f.Kind() == reflect.Struct:
			noZeros(t, f, name)
		case f.IsZero() && name != "Status.Ports.Number":
			t.Errorf("%s has no value in the example", name)
		}
	}
}

// TestGolden: records that are kept today are read tomorrow.
func TestGolden(t *testing.T) {
	file := filepath.Join("testdata", "v1.status")
	b := encode(t, example())
	if *update {
		if err := os.WriteFile(file, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("the format changed without a new version: %x", b)
	}
}

// TestCut: no part of a status is one, nor one with a byte too many.
func TestCut(t *testing.T) {
	b := encode(t, example())
	for n := range len(b) {
		if _, err := Decode(b[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	if _, err := Decode(append(bytes.Clone(b), 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte too many: %v", err)
	}
	b[0]++
	if _, err := Decode(b); !errors.Is(err, ErrVersion) {
		t.Errorf("another version: %v", err)
	}
}

func TestBounds(t *testing.T) {
	long := strings.Repeat("ü", maxText)
	for name, s := range map[string]*Status{
		"ports":        {Ports: make([]Port, maxPorts+1)},
		"drops":        {Ports: []Port{{Drops: make([]Drop, maxDrops+1)}}},
		"measurements": {Measurements: make([]Measurement, maxMeasurements+1)},
		"exports":      {Exports: make([]Export, maxExports+1)},
		"workers":      {Workers: make([]Worker, maxWorkers+1)},
		"long text":    {Ports: []Port{{Mode: long}}},
		"control":      {Program: "\x1b[2J"},
		"no UTF-8":     {Measurements: []Measurement{{Part: "\xff"}}},
	} {
		if _, err := s.AppendBinary(nil); err == nil {
			t.Errorf("%s: taken as they are", name)
		}
		s.Bound()
		if _, err := Decode(encode(t, s)); err != nil {
			t.Errorf("%s, bounded: %v", name, err)
		}
	}
	if _, err := (&Status{Time: maxTime + 1}).AppendBinary(nil); err == nil {
		t.Error("a time from which sums overflow")
	}
}

// FuzzDecode: whatever is taken has this one form.
func FuzzDecode(f *testing.F) {
	f.Add(encode(f, example()))
	f.Add(encode(f, &Status{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(b)
		if err != nil {
			return
		}
		if got := encode(t, s); !bytes.Equal(got, b) {
			t.Errorf("%x was read, and written as %x", b, got)
		}
	})
}
