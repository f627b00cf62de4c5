package vectors

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// exampleVector is a vector with something of all.
func exampleVector() *Vector {
	return &Vector{
		Header:  Header{Setup: "patch", Capture: "c.pcap", Seed: 3, Count: 2, Compiler: "1", Switch: "2", Program: "ab"},
		Packets: []Packet{{Port: 1, Arrival: 5, Now: 9, Depth: 3, Data: []byte{1, 2}}, {Data: []byte{7}}},
		Writes:  []Write{{1, "r", 2, 1 << 63}},
		Results: []Result{
			{Out: []Output{{4, []byte{9}}}, Messages: []Message{{Kind: 3, Hop: 1, Plan: 2, InPort: 3, OutPort: 4, Digest: 1<<64 - 1, ID: 6, Arrival: 7, Data: []byte{1}}}},
			{},
		},
		State: State{"r": {0, 0, 1<<64 - 1}, "zero": {0, 0}},
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v.gz")
	if err := exampleVector().WriteFile(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(exampleVector(), got); diff != "" {
		t.Error(diff)
	}
}

func zipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.Bytes()
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"", "EOF"},
		{`{"packets": 99999999}`, "at most"},
		{`{"packets": 1}`, "packet 0"},
		{`{"packets": 1} {"data": "0g"}`, "packet 0"},
		{`{"packets": 0} {"registers": {"r": {"size": 99999999}}}`, "at most"},
		{`{"packets": 0} {"registers": {"r": {"size": 1, "cells": [[1, 2]]}}}`, "no cell 1"},
	} {
		if _, err := Read(bytes.NewReader(zipped(c.text))); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want it to say %q", c.text, err, c.says)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"packets": 1} {"data": "00"} {"registers": {"r": {"size": 3, "cells": [[1, 2]]}}}`))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = Read(bytes.NewReader(zipped(string(text)))) })
}

// TestCompare: whatever is changed in a run is found, with packet and field.
func TestCompare(t *testing.T) {
	run := func() *Run {
		v := exampleVector()
		return &Run{Results: v.Results, Writes: v.Writes, State: v.State}
	}
	packets := exampleVector().Packets
	if d := Compare(packets, run(), run()); len(d) != 0 {
		t.Errorf("equal runs differ: %v", d)
	}
	for _, c := range []struct {
		change func(*Run)
		want   string
	}{
		{func(r *Run) { r.Results[0].Out[0].Data[0]++ }, "packet 0: out by port 4, byte 0 (destination MAC address): Go has 09, P4 0a"},
		{func(r *Run) { r.Results[0].Out[0].Port++ }, "packet 0: output ports: Go has [4], P4 [5]"},
		{func(r *Run) { r.Results[1].Out = []Output{{}} }, "packet 1: output ports: Go has [], P4 [0]"},
		{func(r *Run) { r.Results[0].Out[0].Data = nil }, "packet 0: out by port 4, length: Go has 1, P4 0"},
		{func(r *Run) { r.Results[0].Messages[0].Digest-- }, "packet 0: message of kind 3, digest: Go has 0xffffffffffffffff, P4 0xfffffffffffffffe"},
		{func(r *Run) { r.Results[0].Messages[0].OutPort = 9 }, "packet 0: message of kind 3, out_port: Go has 0x4, P4 0x9"},
		{func(r *Run) { r.Results[0].Messages = nil }, "packet 0: kinds of messages: Go has [3], P4 []"},
		{func(r *Run) { r.State["r"][2]-- }, "registers: r[2]: Go has 0xffffffffffffffff, P4 0xfffffffffffffffe"},
		{func(r *Run) { r.State["zero"] = nil }, "registers: zero, size: Go has 2, P4 0"},
		{func(r *Run) { r.Writes = nil }, "registers: the control plane's writes: Go has 1, P4 0"},
	} {
		got := run()
		c.change(got)
		if d := Compare(packets, run(), got); len(d) != 1 || d[0].String() != c.want {
			t.Errorf("differences %v, want %s", d, c.want)
		}
	}
}

// TestSizes: what the comparison believes of P4's registers is what the programs say.
func TestSizes(t *testing.T) {
	text := ""
	for _, file := range []string{"types.p4", "telemetry.p4"} {
		b, err := os.ReadFile(filepath.Join("../include", file))
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
	}
	for name, want := range map[string]int{
		"FRAGMENT_COLUMN_BITS": fragmentColumnBits, "LDS_ROW_BITS": ldsRowBits, "LDS_COLUMN_BITS": ldsColumnBits, "LDS_POINT_BITS": ldsPointBits,
		"NUM_FAULTS": numFaults, "NUM_REASONS": numReasons, "PINT_COUNTS": len(pintCounts),
		"CPU_SAMPLE": MessageSample, "CPU_RECORD": MessageRecord, "CPU_PUNT": MessagePunt,
	} {
		m := regexp.MustCompile(fmt.Sprintf(`(?m)^#define %s (?:\d+w)?(\d+)`, name)).FindStringSubmatch(text)
		if m == nil {
			t.Errorf("the programs have no %s", name)
		} else if n, _ := strconv.Atoi(m[1]); n != want {
			t.Errorf("%s is %s in P4, %d here", name, m[1], want)
		}
	}
	for name, want := range reasonNumbers {
		m := regexp.MustCompile(fmt.Sprintf(`(?m)^#define REASON_%s (?:\d+w)?(\d+)`, strings.ToUpper(name))).FindStringSubmatch(text)
		if m == nil {
			continue // P4 has no such reason
		}
		if n, _ := strconv.Atoi(m[1]); n != want {
			t.Errorf("the reason %s is %s in P4, %d here", name, m[1], want)
		}
	}
}
