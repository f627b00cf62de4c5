package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/lab/process"
	"github.com/weirswitch/weir/dataplane/traffic"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	bench.Favoured = 0
	m.Run()
}

// shortConfig measures for a second or so, with the real weir.
func shortConfig(t *testing.T, devices ...string) Config {
	t.Helper()
	netnstest.Require(t)
	binary, err := buildWeir()
	if err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig()
	c.Devices, c.Sizes, c.Rounds, c.Weir = devices, []string{"64"}, 1, []string{binary}
	c.Trial, c.Trials, c.Precision = 20*time.Millisecond, 1, 0.5
	if c.Cores.Source == c.Cores.Device || c.Validate() != nil {
		t.Skipf("needs two cores: %v", c.Validate())
	}
	return c
}

// buildWeir builds weir for all tests, in the temporary files of this test run.
var buildWeir = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(os.TempDir(), "weir")
	out, err := exec.Command("go", "build", "-o", binary, "github.com/weirswitch/weir/cmd/weir").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build weir: %w: %s", err, out)
	}
	return binary, nil
})

// Nothing of a run stays: neither namespaces nor processes nor files.
func checkGone(t *testing.T) {
	t.Helper()
	names, err := netns.List(fmt.Sprintf("%s-%d.", prefix, process.Self().PID))
	if err != nil || len(names) != 0 {
		t.Errorf("namespaces left: %v, %v", names, err)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	if err == nil && len(bytes.TrimSpace(children)) != 0 {
		t.Errorf("processes left: %s", children)
	}
}

// A short run gives each figure of each device and the ratios, and the figures fit each other. How large
// they are depends on the machine.
func TestForward(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: its parts are tested")
	}
	c := shortConfig(t, "bridge", "patch")
	var samples []Sample
	c.Raw = func(s Sample) { samples = append(samples, s) }
	r, err := Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	checkGone(t)
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	if len(samples) != 2 || r.Name != "forward" || r.Seed != 1 {
		t.Fatalf("%d samples, %+v", len(samples), r)
	}
	for _, s := range samples {
		if s.MRR <= 0 || s.Offered <= 0 || s.Granted == "" {
			t.Errorf("%+v", s)
		}
		if s.PDR.Trials == 0 || s.NDR.Rate > 0 && len(s.Latency) != len(shares) {
			t.Errorf("%+v", s)
		}
		for _, l := range s.Latency {
			if l.P50 <= 0 || l.P50 > l.P99 || l.P99 > l.P999 || l.Loss < 0 || l.Loss > 1 {
				t.Errorf("%s: %+v", s.Device, l)
			}
		}
	}
	for _, metric := range []string{
		"bridge.64B.mrr", "bridge.64B.ndr", "patch.64B.mrr", "patch.64B.pdr", "patch.64B.cpu",
		"patch.64B.latency_p999_at_90", "patch.mrr_over_bridge",
	} {
		if _, ok := r.Row(metric); !ok {
			t.Errorf("there is no row %s", metric)
		}
	}
	if row, _ := r.Row("patch.64B.mrr"); !strings.Contains(row.Source, "native") || row.Unit != "pps" || row.Better != bench.Higher {
		t.Errorf("%+v", row)
	}
}

// The second placement, the drivers, and frames of several sizes.
func TestForwardMRR(t *testing.T) {
	devices := []string{"asavie", "l2"}
	rows := []string{"l2.IMIX.mrr_over_best_afxdp"}
	if !testing.Short() {
		devices = append(devices, "redirect", "l2_before")
		rows = append(rows, "l2.IMIX.mrr_over_l2_before")
	}
	for _, d := range devices {
		rows = append(rows, d+".IMIX.mrr")
	}
	c := shortConfig(t, devices...)
	c.Placement, c.Searches, c.Sizes, c.Before = OnDevice, false, []string{"imix"}, c.Weir
	// On a core that others use as well, a worker may not run at all within a trial: then another one tells.
	var r *bench.Result
	for tries := 5; ; tries-- {
		var err error
		if r, err = Run(context.Background(), c); errors.Is(err, traffic.ErrHiddenThreads) {
			c.Placement = OnSource
			t.Log(err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		checkGone(t)
		missing := ""
		for _, metric := range rows {
			if row, ok := r.Row(metric); !ok || row.Value <= 0 {
				missing += fmt.Sprintf("%s: %+v\n", metric, row)
			}
		}
		if missing == "" {
			break
		}
		if tries == 0 {
			t.Fatal(missing)
		}
	}
	if _, ok := r.Row("l2.IMIX.ndr"); ok {
		t.Error("a row that was not measured")
	}
}

// Whatever fails, all is undone.
func TestForwardUndoes(t *testing.T) {
	c := shortConfig(t, "patch")
	for _, weir := range [][]string{{"/bin/false"}, {"/bin/sleep", "100", "#"}, {"/no/such/program"}} {
		broken := c
		broken.Weir = weir
		if _, err := Run(context.Background(), broken); err == nil {
			t.Errorf("%v forwarded", weir)
		}
		checkGone(t)
	}
	before := c
	before.Devices, before.Before = []string{"patch_before"}, []string{"/bin/false"}
	if _, err := Run(context.Background(), before); err == nil {
		t.Error("patch_before is not the build that was named")
	}
	checkGone(t)
	ctx, cancel := context.WithCancel(context.Background())
	c.Progress = func(int, int, string) { time.AfterFunc(300*time.Millisecond, cancel) }
	c.Trial = time.Hour
	if _, err := Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	checkGone(t)
}

// The loss counts what each part of the path lost: sent = arrived + lost.
func TestTrialAccounts(t *testing.T) {
	c := shortConfig(t, "redirect")
	w, err := newWorkload(&c, "imix", 9)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRig(c.Cores, OnSource, w, t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	d, err := startRedirect(r, deviceOptions{})
	if err != nil {
		t.Fatal(errors.Join(err, r.close()))
	}
	defer func() {
		_, err := d.stop()
		if err := errors.Join(err, r.close()); err != nil {
			t.Error(err)
		}
		checkGone(t)
	}()
	if err := r.start(context.Background()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		got, err := r.offer(context.Background(), 10_000, 50*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		lost := got.got.Lost(got.sent.Packets)
		if got.sent.Packets == 0 || got.got.Unique()+lost != got.sent.Packets || got.loss() != float64(lost)/float64(got.sent.Packets) {
			t.Errorf("sent %+v, %d arrived, %d lost", got.sent, got.got.Unique(), lost)
		}
	}
	// With the device gone nothing arrives any more, and that is loss, not silence.
	if _, err := d.stop(); err != nil {
		t.Fatal(err)
	}
	d = kernelDevice{undo: func() error { return nil }}
	got, err := r.offer(context.Background(), 10_000, 20*time.Millisecond)
	if err != nil || got.loss() != 1 {
		t.Errorf("without a device the loss is %v, %v", got.loss(), err)
	}
}
