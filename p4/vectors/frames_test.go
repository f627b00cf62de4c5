package vectors

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/p4/bmv2/bmv2test"
	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/stages/parse"
	"github.com/weirswitch/weir/stages/patch"
)

// frames reads n packets of a capture of the shared data, from its beginning again where it is shorter, or of
// Corners, all of them at least. Of the malformed captures they are all where n is 0, else some of each fault.
func frames(t *testing.T, capture string, n int) (all [][]byte) {
	t.Helper()
	switch capture {
	case malformedCapture:
		return malformed(t, n == 0)
	case cornerCapture:
		all = Corners()
	default:
		path := capture
		if filepath.Base(path) == path {
			path = filepath.Join(netsim.DataDir(), "traces", capture)
		}
		var left LeftOut
		var err error
		if all, left, err = ReadCapture(path, n); errors.Is(err, os.ErrNotExist) {
			missing(t, path)
		} else if err != nil {
			t.Fatal(err)
		}
		if left != (LeftOut{}) {
			t.Logf("left out: %d packets that are not Ethernet, %d too long", left.NotEthernet, left.TooLong)
		}
		if len(all) == 0 {
			t.Fatalf("%s has no packet", path)
		}
	}
	for m := len(all); len(all) < n; {
		all = append(all, all[len(all)%m])
	}
	return all
}

// missing skips a test without its data, or fails it where a comparison was asked for.
func missing(t *testing.T, what string) {
	t.Helper()
	if bmv2test.Required() || os.Getenv(CapturesVariable) != "" {
		t.Fatalf("%s is missing", what)
	}
	t.Skipf("%s is missing: the shared data are not here", what)
}

// Of each fault so many packets are chosen, and of those without one.
const (
	ofFault = 3
	ofNone  = 20
)

// malformed are packets of the malformed captures that are Ethernet: all, or ofFault of each fault, of
// different captures where there are as many.
func malformed(t *testing.T, all bool) (chosen [][]byte) {
	t.Helper()
	folder := filepath.Join(netsim.DataDir(), "malformed")
	files, err := filepath.Glob(filepath.Join(folder, "*.pcap*"))
	if err != nil || len(files) == 0 {
		missing(t, folder)
	}
	if !all {
		// Of projects whose licence, MIT or BSD, lets their packets be passed on.
		files = slices.DeleteFunc(files, func(f string) bool {
			project, _, _ := strings.Cut(filepath.Base(f), "--")
			return !slices.Contains([]string{"suricata-verify", "libpcap", "tcpdump", "gopacket", "brimcap", "pcapng-test-generator"}, project)
		})
	}
	faults := newFaultFinder(t)
	byFault := map[string][][]byte{}
	refused, left := 0, LeftOut{}
	for range ofFault { // the first of each file, then the second ...
		for _, f := range files {
			packets, l, err := ReadCapture(f, 1<<20)
			if err != nil {
				refused++ // not Ethernet, or no capture at all
				continue
			}
			left.NotEthernet += l.NotEthernet
			left.TooLong += l.TooLong
			if all {
				chosen = append(chosen, packets...)
				continue
			}
			took := map[string]bool{}
			for _, p := range packets {
				fault := faults.of(t, p)
				most := ofFault
				if fault == parse.NoFault.String() {
					most = ofNone
				}
				same := func(q []byte) bool { return slices.Equal(p, q) }
				if took[fault] || len(byFault[fault]) >= most || len(p) > mtu || slices.ContainsFunc(byFault[fault], same) {
					continue
				}
				took[fault] = true
				byFault[fault] = append(byFault[fault], p)
			}
		}
		if all {
			t.Logf("%d packets of %d files; left out: %d files that are no capture of Ethernet, %d packets of other links, %d too long",
				len(chosen), len(files)-refused, refused, left.NotEthernet, left.TooLong)
			return chosen
		}
	}
	for f := parse.NoFault; f < numFaults; f++ {
		chosen = append(chosen, byFault[f.String()]...)
	}
	return chosen
}

// faultFinder parses packets by themselves.
type faultFinder struct {
	g      *goSwitch
	module *parse.Module
	before map[string]uint64
}

func newFaultFinder(t *testing.T) *faultFinder {
	t.Helper()
	g, err := newGoSwitch(&tables.Switch{
		Graph: []string{"parse", "patch"}, Ports: namedPorts("in", "out"),
		Stages: map[string]any{"patch": &patch.Config{Pairs: [][2]string{{"in", "out"}}}},
	}, nothing{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.close(); err != nil {
			t.Error(err)
		}
	})
	m := g.chain[0].Module.(*parse.Module)
	return &faultFinder{g, m, m.Counters().Malformed}
}

// of is the name of a packet's fault.
func (f *faultFinder) of(t *testing.T, packet []byte) string {
	t.Helper()
	if _, err := f.g.step(Packet{Data: packet}); err != nil {
		return parse.NoFault.String() // longer than any frame
	}
	now := f.module.Counters().Malformed
	defer func() { f.before = now }()
	for name, n := range now {
		if n != f.before[name] {
			return name
		}
	}
	return parse.NoFault.String()
}

// TestCorners: they have each fault that the parser knows, and the same packets each time.
func TestCorners(t *testing.T) {
	faults := newFaultFinder(t)
	seen := map[string]bool{}
	corners := Corners()
	for _, p := range corners {
		seen[faults.of(t, p)] = true
	}
	for f := parse.NoFault; f < numFaults; f++ {
		if !seen[f.String()] {
			t.Errorf("no corner has the fault %s", f)
		}
	}
	if !slices.EqualFunc(corners, Corners(), slices.Equal) {
		t.Error("the corners are others at the second time")
	}
	t.Logf("%d corners", len(corners))
}
