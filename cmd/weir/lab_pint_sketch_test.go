package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/telemetry/query"
)

// TestPintTellsTheSketch: five switches carry PINT's digests and hold a fragment each. The
// network is known only by these digests: the paths that the sink decoded tell the query which
// fragments counted a flow, and it counts what the far end received. On a machine with much else
// to do, switches may have an epoch of the traffic in part only, and say so; then another run must do.
func TestPintTellsTheSketch(t *testing.T) {
	const attempts = 3
	for attempt := range attempts {
		again := false
		t.Run(fmt.Sprintf("attempt %d", attempt), func(t *testing.T) { again = pintTellsTheSketch(t, attempt == attempts-1) })
		if !again {
			return
		}
	}
}

// pintTellsTheSketch is one run, the last one or not. It reports whether the answer names what was missing.
func pintTellsTheSketch(t *testing.T, last bool) (again bool) {
	dir := t.TempDir()
	records := filepath.Join(dir, "records")
	extra := fmt.Sprintf("[switch.config.telemetry]\nspool = %q\n[switch.config.stages.disketch]\nepoch_bits = 28\n", records) +
		"[[switch.config.stages.disketch.fragment]]\nkind = \"countsketch\"\nmemory = 65536\n" // the defaults: n is chosen from the traffic
	l := newPintLab(t, chainOfFive(`["parse", "l2", "disketch", "pint"]`, extra, false), flatAddresses)
	time.Sleep(1 << 28) // The switches have the epoch in which they started in part only, which answers leave out.
	// On and off, so that n > 1 would be wrong.
	for range 4 {
		l.udp(4, 100, 100)
		time.Sleep(1 << 27)
	}
	l.settle()
	received := 0.0
	for _, f := range l.seen[1].frames(false) {
		// IPv4, UDP, and the ports of the flow.
		if len(f) >= 38 && bytes.Equal(f[12:14], []byte{8, 0}) && f[23] == 17 && binary.BigEndian.Uint16(f[34:]) == udpFrom && binary.BigEndian.Uint16(f[36:]) == udpTo {
			received++
		}
	}
	l.awaitDigests("s5")
	paths := filepath.Join(dir, "paths.json")
	out, err := weirCommand("ctl", "--socket", filepath.Join(lab.Root, l.name, "s5.sock"), "show", "paths", "--json").Output()
	if err == nil {
		err = os.WriteFile(paths, out, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	flow := fmt.Sprintf("10.0.0.1:%d > 10.0.0.2:%d udp", udpFrom, udpTo)
	ask := func(args ...string) (f query.Frequency, err error) {
		out, err := weirCommand(append([]string{"query", "frequency", "--json", "--records", records, "--flow", flow}, args...)...).Output()
		if err == nil {
			err = json.Unmarshal(out, &f)
		}
		return f, err
	}
	// The last epoch's records come when it is over.
	var f query.Frequency
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		f, err = ask("--pint", paths)
		if err == nil && f.Sketch != nil && f.Sketch.Holds(received) && f.Sketch.Value > 0.95*received {
			break
		}
		if !time.Now().After(deadline) {
			continue
		}
		if err != nil || f.Sketch == nil {
			t.Fatalf("%+v, %v; the sink says %s", f, err, out)
		}
		if len(f.Sketch.Absent) > 0 && !last {
			t.Logf("estimate %+v, missing %+v; %g datagrams were received", f.Sketch.Bounded, f.Sketch.Absent, received)
			return true
		}
		t.Fatalf("estimate %+v, missing %+v; %g datagrams were received", f.Sketch.Bounded, f.Sketch.Absent, received)
	}
	if !slices.Equal(f.Sketch.Path, []string{"s1", "s2", "s3", "s4", "s5"}) || f.Sketch.Value > 1.05*received {
		t.Errorf("%+v; %g datagrams were received", f.Sketch, received)
	}
	// The digests are among the records: without the sink they give the same path.
	waitFor(t, "the path out of the records", func() bool { f, err = ask(); return err == nil && f.Sketch != nil })
	if !slices.Equal(f.Sketch.Path, []string{"s1", "s2", "s3", "s4", "s5"}) {
		t.Errorf("by the records: %+v", f.Sketch)
	}
	return false
}
