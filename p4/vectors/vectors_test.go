package vectors

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/bmv2/bmv2test"
	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/telemetry/hash"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	code := m.Run()
	if err := writeTable(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

const (
	setupDir  = "../testdata/setups"
	vectorDir = "../testdata/vectors"
)

// suffix ends the names of vectors' files.
const suffix = ".jsonl.gz"

// vectorFile is where the vector of a setup and a capture is.
func vectorFile(setup, capture string) string {
	return filepath.Join(vectorDir, setup+"-"+shortName(capture)+suffix)
}

// vectorFiles are all of them.
func vectorFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(vectorDir, "*"+suffix))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no vectors: %v", vectorDir, err)
	}
	return files
}

var program = "../v1model/weir.p4"

var update = flag.Bool("update", false, "write the vectors of p4/testdata anew, by BMv2")

// PacketsVariable is how many packets of each capture go through BMv2; see make p4-test.
const PacketsVariable = "WEIR_P4_PACKETS"

// What is compared instead of the shared data's captures under the configurations of testdata; see README.md.
const (
	CapturesVariable = "WEIR_P4_CAPTURES" // files, with commas between them
	SetupsVariable   = "WEIR_P4_SETUPS"   // a folder
	SeedVariable     = "WEIR_P4_SEED"     // of what Inputs draw: the first capture's, the next one's is one more
)

// ProgramVariable names the program where it is compiled already, with WEIR_GIVEN_TIME, for all setups that are
// compared.
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
	defaultPackets = 150
	vectorPackets  = 60
	// The packets of the malformed captures, and Corners.
	malformedCapture = "malformed"
	cornerCapture    = "corners"
	boundaryCapture  = "boundaries" // the packets of Boundaries, which are a setup's own
)

// TestVectors holds the Go stages to what BMv2 did when the vectors were made.
func TestVectors(t *testing.T) {
	sources := sourceDigest(t)
	for i, f := range vectorFiles(t) {
		if testing.Short() && i%3 != 0 {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(f), suffix), func(t *testing.T) {
			v, err := ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d packets of %s, by p4c-bm2-ss %s and simple_switch %s", v.Count, v.Capture, v.Compiler, v.Switch)
			if v.Program != sources {
				t.Errorf("the programs have changed since: run make p4-vectors")
			}
			s, err := LoadSetup(setupDir, v.Setup)
			if err != nil {
				t.Fatal(err)
			}
			want, err := RunGo(s, v.Packets)
			if err != nil {
				t.Fatal(err)
			}
			for name, cells := range v.State {
				if strings.HasSuffix(name, ".cell_digest") {
					for i := range cells {
						cells[i] &= 1<<32 - 1 // records have the lower half
					}
				}
			}
			report(t, Compare(v.Packets, want, &Run{Results: v.Results, Writes: v.Writes, State: v.State}))
		})
	}
}

// TestVectorsAreThere: each setup has a vector of each capture.
func TestVectorsAreThere(t *testing.T) {
	setups, err := Setups(setupDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range setups {
		for _, capture := range append(slices.Clone(committed), cornerCapture, boundaryCapture, malformedCapture) {
			if _, err := os.Stat(vectorFile(name, capture)); err != nil {
				t.Errorf("%v: run make p4-vectors", err)
			}
		}
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
	tools := bmv2test.Find(t)
	var err error
	n, captures := defaultPackets, append(slices.Clone(committed), cornerCapture, boundaryCapture, malformedCapture)
	if text := os.Getenv(PacketsVariable); text != "" {
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", PacketsVariable, err)
		}
		captures = append(slices.Clone(large), cornerCapture, boundaryCapture, malformedCapture)
	}
	if text := os.Getenv(CapturesVariable); text != "" {
		captures = strings.Split(text, ",")
	}
	dir, seed := setupDir, uint64(1)
	if text := os.Getenv(SetupsVariable); text != "" {
		dir = text
	}
	if text := os.Getenv(SeedVariable); text != "" {
		if seed, err = strconv.ParseUint(text, 0, 64); err != nil {
			t.Fatalf("%s: %v", SeedVariable, err)
		}
	}
	if *update {
		n, captures, dir, seed = vectorPackets, append(slices.Clone(committed), cornerCapture, boundaryCapture, malformedCapture), setupDir, 1
	}
	compiler, simple, err := tools.Versions(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	setups, err := Setups(dir)
	if err != nil {
		t.Fatal(err)
	}
	compiled := map[hash.Family]string{}
	for _, name := range setups {
		s, err := LoadSetup(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		if compiled[s.Switch.Hash] == "" {
			compiled[s.Switch.Hash] = compile(t, tools, s.Switch.Hash)
		}
	}
	begun, done := time.Now(), 0
	for _, name := range setups {
		for i, capture := range captures {
			t.Run(name+"/"+shortName(capture), func(t *testing.T) {
				s, err := LoadSetup(dir, name)
				if err != nil {
					t.Fatal(err)
				}
				count := n
				if capture == malformedCapture && os.Getenv(PacketsVariable) != "" && !*update {
					count = 0
				}
				v := &Vector{Header: Header{
					Setup: name, Capture: capture, Seed: seed + uint64(i), Compiler: compiler, Switch: simple, Program: sourceDigest(t),
				}}
				v.Packets = packets(t, s, capture, count, v.Seed)
				o := ran(t, programName(s.Switch.Hash), "p4c-bm2-ss "+compiler, "BMv2 "+simple, len(v.Packets))
				o.differences += compareFresh(t, tools, compiled[s.Switch.Hash], s, v)
				done++
				t.Logf("%s: %d packets; %d of %d, %v", name+"/"+shortName(capture), len(v.Packets), done, len(setups)*len(captures), time.Since(begun).Round(time.Second))
				if *update && !t.Failed() {
					if err := v.WriteFile(vectorFile(name, capture)); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
	if *update {
		removeOthers(t, setups, captures)
	}
}

// packets are those of a capture under a setup.
func packets(t *testing.T, s *Setup, capture string, count int, seed uint64) []Packet {
	t.Helper()
	made := func() ([]Packet, error) { return Inputs(s, frames(t, capture, count), seed) }
	if capture == boundaryCapture {
		made = func() ([]Packet, error) { return Boundaries(s) }
	}
	all, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// removeOthers removes the vectors of setups and captures that are no more.
func removeOthers(t *testing.T, setups, captures []string) {
	t.Helper()
	for _, f := range vectorFiles(t) {
		known := slices.ContainsFunc(setups, func(name string) bool {
			return slices.ContainsFunc(captures, func(capture string) bool { return vectorFile(name, capture) == f })
		})
		if known {
			continue
		}
		if err := os.Remove(f); err != nil {
			t.Error(err)
		}
	}
}

func shortName(capture string) string {
	short, _, _ := strings.Cut(filepath.Base(capture), ".")
	return short
}

// programName is how the program of a hash family is named where what has run is listed.
func programName(f hash.Family) string {
	name := "v1model/weir.p4"
	for _, d := range tables.Defines(f) {
		name += " -D" + d
	}
	return name
}

// compile compiles the program for given times and a hash family.
func compile(t *testing.T, tools bmv2.Tools, f hash.Family) string {
	t.Helper()
	if path := os.Getenv(ProgramVariable); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		program, err := tables.ReadProgram(text)
		if err == nil {
			err = program.CheckFamily(f)
		}
		if err != nil {
			t.Fatalf("%s: %v", ProgramVariable, err)
		}
		return path
	}
	return bmv2test.Compile(t, tools, program, append(tables.Defines(f), "WEIR_GIVEN_TIME")...)
}

// compareFresh runs both sides, and completes the vector. It returns how many differences there were.
func compareFresh(t *testing.T, tools bmv2.Tools, compiled string, s *Setup, v *Vector) int {
	t.Helper()
	want, err := RunGo(s, v.Packets)
	if err != nil {
		t.Fatal(err)
	}
	got := runP4(t, tools, compiled, s, v.Packets, want)
	if got == nil {
		return 0 // the test has failed
	}
	v.Results, v.Writes, v.State = got.Results, got.Writes, got.State
	differences := Compare(v.Packets, want, got)
	if len(differences) != 0 && differences[0].Packet > 0 {
		// What comes of a packet of which nothing is to come is found with a later one: so once more, with time.
		if got = runP4(t, tools, compiled, s, v.Packets, want, slowly(differences[0].Packet)); got == nil {
			return 0
		}
		if again := Compare(v.Packets, want, got); len(again) != 0 {
			differences = again
		} else {
			t.Error("the first of two runs differs, the second one does not:")
		}
	}
	report(t, differences)
	return len(differences)
}

// slowly waits for all that comes of the packets in front of one, and of that.
func slowly(packet int) func(*testing.T, *P4) {
	const before = 16
	return func(_ *testing.T, p *P4) { p.slowFrom, p.slowTo = max(0, packet-before), packet+1 }
}

// runP4 runs the packets through a new switch, which prepare may change before.
func runP4(t *testing.T, tools bmv2.Tools, compiled string, s *Setup, packets []Packet, want *Run, prepare ...func(*testing.T, *P4)) *Run {
	t.Helper()
	sw := bmv2test.Start(t, tools, compiled, "wvec")
	p, err := NewP4(sw, s, packets[0].Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range prepare {
		f(t, p)
	}
	got, err := p.Run(packets, want.Writes, want)
	if err != nil {
		t.Error(err)
	}
	return got
}

// TestBMv2CellsWrap: cells of fragments wrap at their ends, so that the difference of two readings is what
// was counted between them.
func TestBMv2CellsWrap(t *testing.T) {
	tools := bmv2test.Find(t)
	s, err := LoadSetup(setupDir, "patch")
	if err != nil {
		t.Fatal(err)
	}
	packets, err := Inputs(s, frames(t, cornerCapture, 0), 1)
	if err != nil {
		t.Fatal(err)
	}
	want, err := RunGo(s, packets)
	if err != nil {
		t.Fatal(err)
	}
	var preset []Write
	for name, cells := range want.State {
		if !narrow(name) {
			continue
		}
		for i, v := range cells {
			var first uint32
			switch n := int32(v); {
			case n > 0:
				first = 1<<32 - 1
			case n < 0:
				first = 1 << 31
			default:
				continue
			}
			preset = append(preset, Write{Register: name, Index: i, Value: uint64(first)})
			cells[i] = uint64(first + uint32(v))
		}
	}
	if len(preset) < 100 {
		t.Fatalf("%d cells count something", len(preset))
	}
	write := func(t *testing.T, p *P4) {
		for _, w := range preset {
			if err := p.sw.WriteRegister(w.Register, w.Index, w.Value); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := runP4(t, tools, compile(t, tools, s.Switch.Hash), s, packets, want, write); got != nil {
		report(t, Compare(packets, want, got))
	}
	t.Logf("%d cells", len(preset))
}

// sourceDigest is the SHA-256 of the program's sources, by name and content.
func sourceDigest(t *testing.T) string {
	t.Helper()
	h := sha256.New()
	eachSource(t, func(name string, text []byte) {
		fmt.Fprintf(h, "%s %d\n", name, len(text))
		_, _ = h.Write(text)
	})
	return fmt.Sprintf("%x", h.Sum(nil))
}

// eachSource hands over the P4 sources of the program, always in the same order.
func eachSource(t *testing.T, f func(name string, text []byte)) {
	t.Helper()
	for _, dir := range []string{"../include", "../v1model"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.p4"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no programs: %v", dir, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f(filepath.Base(file), text)
		}
	}
}
