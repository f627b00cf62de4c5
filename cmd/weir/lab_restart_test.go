package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/labpath"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// restart ends a switch of a lab that is up, and starts it again with its own configuration.
func restart(t *testing.T, l *lab.Lab, name, node string) {
	t.Helper()
	status, err := lab.Inspect(name)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(status.Nodes, func(n lab.NodeStatus) bool { return n.Name == node })
	process, err := os.FindProcess(status.Nodes[i].PID)
	if err == nil {
		err = process.Signal(unix.SIGTERM)
	}
	for deadline := time.Now().Add(time.Minute); err == nil && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if status, err = lab.Inspect(name); err == nil && !status.Nodes[i].Running {
			break
		}
	}
	again := weirCommand("switch", "-c", filepath.Join(lab.Root, name, node+".toml"))
	again.Stdout, again.Stderr = new(strings.Builder), new(strings.Builder)
	if err == nil {
		err = l.Namespace(node).Start(again)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = again.Process.Signal(unix.SIGTERM)
		if err := again.Wait(); err != nil {
			t.Errorf("%s, started again: %v\n%s", node, err, again.Stderr)
		}
	})
}

// TestRestartInTheMiddle: a spine that ends and starts again under traffic costs its own records of the epochs in
// which it was away. All other answers are as good as before, and those along its paths name what was missing.
//
// Senders that nothing holds up overrun switches that get no processor. Where that spoils a run, another one has
// half of the traffic at half of the rate.
func TestRestartInTheMiddle(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	netnstest.Require(t)
	t.Setenv(testMain, "1")
	const attempts = 4
	for attempt := range attempts {
		o := runRestart(t, 20_000>>attempt, 3000>>attempt)
		faults := o.check(t)
		if len(faults) == 0 {
			return
		}
		if o.starved == 0 || attempt == attempts-1 {
			t.Fatal(strings.Join(faults, "\n"))
		}
		t.Logf("attempt %d: %d flows that do not pass spine1 lost packets, so again: %s", attempt, o.starved, strings.Join(faults, "\n"))
	}
}

// restarted is a lab in which spine1 was started again.
type restarted struct {
	config  *lab.Config
	records string
	loads   []lab.LoadCount
	starved int // flows that lost packets elsewhere
}

// runRestart runs the lab with the given number of packets of each load, and per second.
func runRestart(t *testing.T, packets, rate int) *restarted {
	t.Helper()
	// What is lost must not hold up the senders: only the switch is to be away.
	file := smallLab(t, "spineleaf", "count = 60_000", fmt.Sprintf("count = %d", packets), "flows = 5000", "flows = 500",
		"window = 200", "window = 100_000", "rate = 6000", fmt.Sprintf("rate = %d", rate))
	c, err := lab.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	c.Key = lab.NoKey // the test reads the records itself, and finds sketches' paths by public hashes
	o := &restarted{config: c, records: filepath.Join(t.TempDir(), "records")}
	t.Run("run", func(t *testing.T) { // its cleanup ends the switch, which writes its last records
		l, err := lab.Up(context.Background(), c, lab.Options{File: file, Keep: o.records, Command: []string{os.Args[0], "switch"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := l.Down(); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(c.Quiet)
		var all sync.WaitGroup
		results := make([]lab.Result, len(c.Traffic))
		for i := range c.Traffic {
			all.Go(func() { results[i] = l.Traffic(context.Background(), c.Traffic[i]) })
		}
		time.Sleep(1500 * time.Millisecond)
		restart(t, l, c.Name, "spine1")
		all.Wait()
		time.Sleep(c.Quiet)
		for i := range results {
			if results[i].Fault != "" || results[i].Counts == nil {
				t.Fatalf("%+v", results[i])
			}
			o.loads = append(o.loads, *results[i].Counts)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	return o
}

// check lists what is not as it should be.
func (o *restarted) check(t *testing.T) (faults []string) {
	t.Helper()
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	truth := map[query.Key]lab.FlowCount{}
	var keys []query.Key
	sent, received := 0.0, 0.0
	for _, load := range o.loads {
		for _, f := range load.Flows {
			k, err := query.ParseKey(f.Flow)
			if err != nil {
				t.Fatal(err)
			}
			truth[k], keys = f, append(keys, k)
			sent, received = sent+float64(f.Sent), received+float64(f.Received)
		}
	}
	s, err := store.Read(o.records)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := labpath.New(o.config)
	if err != nil {
		t.Fatal(err)
	}
	const confidence = 0.95 // of bounds of many flows: as large a share of them must hold
	e := query.Engine{Store: s, Confidence: confidence, Paths: paths, FlowSeed: paths.Seed}
	list, err := e.SketchFrequencies(keys)
	if err != nil {
		t.Fatal(err)
	}
	spine1, _ := s.Switch("spine1")
	// Behind the first epochs and before the last ones, which all switches have in part only.
	epochs := s.Sketches.Epochs()
	first, last := epochs[0]+3, epochs[len(epochs)-1]-3
	within, apart, named := 0, 0, 0
	for i, k := range keys {
		is := truth[k]
		if slices.Contains(paths.Of(k), spine1) {
			if slices.ContainsFunc(list[i].Absent, func(a query.Absent) bool {
				return strings.HasPrefix(a.Fragment, "switch spine1,") && first < a.Epoch && a.Epoch < last
			}) {
				named++
			}
			continue
		}
		apart++
		if is.Sent != is.Received {
			o.starved++
		}
		// Switches upstream of a loss saw what was sent, those behind it what was received.
		if list[i].Low <= float64(is.Sent) && list[i].High >= float64(is.Received) {
			within++
		}
	}
	if float64(within) < confidence*float64(apart) || apart < 500 {
		fault("%d of %d flows that do not pass spine1 are within their bounds", within, apart)
	}
	if named != len(keys)-apart {
		fault("spine1's absence is named for %d of %d flows that pass it", named, len(keys)-apart)
	}
	if counts := s.Counts(); counts.Conflicts+counts.Duplicates+counts.Unreadable != 0 {
		fault("%+v", counts)
	}
	// The sample still counts what entered the network, as the leaves saw it.
	e.Confidence = 1 - 1e-6
	v, err := e.Volume(func(k *query.Key) bool { _, ok := truth[*k]; return ok })
	if err != nil || v.Packets.Low > sent || v.Packets.High < received {
		fault("%+v, %v, truth %g", v, err, sent)
	}
	t.Logf("%d flows apart from spine1, %d within bounds, %d of them lost packets; %d by spine1; %d of %d packets got lost; %+v",
		apart, within, o.starved, named, int(sent-received), int(sent), s.Counts())
	return faults
}
