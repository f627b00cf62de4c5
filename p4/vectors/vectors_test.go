package vectors

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/p4/bmv2"
)

const (
	setupDir  = "../testdata/setups"
	vectorDir = "../testdata/vectors"
)

var program = "../v1model/weir.p4"

var update = flag.Bool("update", false, "write the vectors of p4/testdata anew, by BMv2")

// PacketsVariable is how many packets of each capture go through BMv2; see make p4-test.
const PacketsVariable = "WEIR_P4_PACKETS"

// ProgramVariable names the program where it is compiled already, with WEIR_GIVEN_TIME.
const ProgramVariable = "WEIR_P4_PROGRAM"

// The captures: those of which vectors are committed, and those that make p4-test adds.
var (
	committed = []string{
		"pcapplusplus-many-protocols.pcap.gz", "pcapplusplus-ip-frag.pcap.gz", "suricata-ipv6-exthdr-flood-5.pcap.gz",
		"vast-vlan.pcap.gz", "stopddos-synflood-spoofed.pcap.gz",
	}
	large = []string{
		"realmix-snap128.pcap.gz", "stopddos-synflood-spoofed.pcap.gz", "suricata-ipv6-exthdr-flood-5.pcap.gz",
		"libtrace-link2000-31k.pcap.gz", "suricata-defrag-spray.pcap.gz",
	}
)

const (
	defaultPackets   = 150
	vectorPackets    = 120
	malformedCapture = "malformed"
)

// frames reads a capture of the shared data, from its beginning again where it is shorter than n,
// or all of the malformed ones.
func frames(t *testing.T, capture string, n int) [][]byte {
	t.Helper()
	if capture == malformedCapture {
		return malformed(t, n)
	}
	path := filepath.Join(netsim.DataDir(), "traces", capture)
	all, err := ReadCapture(path, n)
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("%s is missing: the shared data are not here", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	for m := len(all); len(all) < n; {
		all = append(all, all[len(all)%m])
	}
	return all
}

// malformed are the packets of all malformed captures that are Ethernet; of n files where that is
// not 0, evenly chosen.
func malformed(t *testing.T, n int) (all [][]byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(netsim.DataDir(), "malformed", "*.pcap*"))
	if err != nil || len(files) == 0 {
		t.Skip("the shared data are not here")
	}
	if n != 0 {
		// Of projects whose licence lets their packets be passed on.
		files = slices.DeleteFunc(files, func(f string) bool {
			b := filepath.Base(f)
			return !strings.HasPrefix(b, "suricata") && !strings.HasPrefix(b, "libpcap") && !strings.HasPrefix(b, "gopacket")
		})
	}
	for _, f := range files {
		limit := 1 << 20
		if n != 0 {
			limit = 2
		}
		packets, err := ReadCapture(f, limit)
		if err != nil {
			continue // not Ethernet, or no capture at all
		}
		all = append(all, packets...)
	}
	if n != 0 {
		all = all[:min(n, len(all))]
	}
	return all
}

// TestVectors holds the Go stages to what BMv2 did when the vectors were made.
func TestVectors(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(vectorDir, "*.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no vectors: %v", vectorDir, err)
	}
	sources := sourceDigest(t)
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".jsonl.gz"), func(t *testing.T) {
			v, err := ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d packets of %s, by p4c-bm2-ss %s and simple_switch %s", v.Count, v.Capture, v.Compiler, v.Switch)
			if v.Program != sources {
				t.Logf("the programs have changed since: run make p4-vectors")
			}
			s, err := LoadSetup(setupDir, v.Setup)
			if err != nil {
				t.Fatal(err)
			}
			want, err := RunGo(s, v.Packets)
			if err != nil {
				t.Fatal(err)
			}
			report(t, Compare(v.Packets, want, &Run{v.Results, v.Writes, v.State}))
		})
	}
}

// report fails the test with the first differences.
func report(t *testing.T, differences []Difference) {
	t.Helper()
	for i, d := range differences {
		if i == 20 {
			t.Errorf("and %d more", len(differences)-i)
			break
		}
		t.Error(d)
	}
}

// TestBMv2 compares afresh: the programs are compiled and run, and all that comes out is what the Go
// stages give.
func TestBMv2(t *testing.T) {
	tools, err := bmv2.Find()
	if err != nil {
		t.Skipf("%v; the Go stages are held to the vectors of p4/testdata", err)
	}
	netnstest.Require(t)
	compiled := compile(t, tools)
	n, captures := defaultPackets, append(slices.Clone(committed), malformedCapture)
	if text := os.Getenv(PacketsVariable); text != "" {
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", PacketsVariable, err)
		}
		captures = append(slices.Clone(large), malformedCapture)
	}
	if *update {
		n, captures = vectorPackets, append(slices.Clone(committed), malformedCapture)
	}
	compiler, simple, err := tools.Versions(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	setups, err := Setups(setupDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range setups {
		for i, capture := range captures {
			t.Run(name+"/"+shortName(capture), func(t *testing.T) {
				s, err := LoadSetup(setupDir, name)
				if err != nil {
					t.Fatal(err)
				}
				count := n
				if capture == malformedCapture && os.Getenv(PacketsVariable) != "" && !*update {
					count = 0
				}
				v := &Vector{Header: Header{
					Setup: name, Capture: capture, Seed: uint64(i + 1), Compiler: compiler, Switch: simple, Program: sourceDigest(t),
				}}
				if v.Packets, err = Inputs(s, frames(t, capture, count), v.Seed); err != nil {
					t.Fatal(err)
				}
				compareFresh(t, tools, compiled, s, v)
				if *update && !t.Failed() {
					if err := v.WriteFile(filepath.Join(vectorDir, name+"-"+shortName(capture)+".jsonl.gz")); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

func shortName(capture string) string {
	short, _, _ := strings.Cut(capture, ".")
	return short
}

// compile compiles the program for given times.
func compile(t *testing.T, tools bmv2.Tools) string {
	t.Helper()
	if path := os.Getenv(ProgramVariable); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "weir.json")
	if err := tools.Compile(context.Background(), program, path, "WEIR_GIVEN_TIME"); err != nil {
		t.Fatal(err)
	}
	return path
}

// compareFresh runs both sides, and completes the vector.
func compareFresh(t *testing.T, tools bmv2.Tools, compiled string, s *Setup, v *Vector) {
	t.Helper()
	want, err := RunGo(s, v.Packets)
	if err != nil {
		t.Fatal(err)
	}
	sw, err := bmv2.Start(context.Background(), bmv2.Config{
		Binary: tools.Switch, Program: compiled, Namespace: netnstest.New(t, "wvec"), Log: os.Getenv("WEIR_P4_LOG"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sw.Stop(); err != nil {
			t.Error(err)
		}
	})
	p, err := NewP4(sw, s, v.Packets[0].Now)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Run(v.Packets, want.Writes, want)
	if err != nil {
		t.Error(err)
	}
	if got == nil {
		return
	}
	v.Results, v.Writes, v.State = got.Results, got.Writes, got.State
	report(t, Compare(v.Packets, want, got))
	t.Logf("%d packets", len(v.Packets))
}

// sourceDigest is the SHA-256 of the program's sources, by name and content.
func sourceDigest(t *testing.T) string {
	t.Helper()
	h := sha256.New()
	for _, dir := range []string{"../include", "../v1model"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.p4"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no programs: %v", dir, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(h, "%s %d\n", filepath.Base(f), len(text))
			_, _ = h.Write(text)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
