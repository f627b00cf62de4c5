package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/dataplane/pcapfile/pcaptest"
	"github.com/weirswitch/weir/node/replay"
)

// runReplay runs the command line in this process. A replay that does not end
// is a fault like any other.
func runReplay(t testing.TB, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	done := make(chan int, 1)
	go func() { done <- run(append([]string{"replay"}, args...), strings.NewReader(""), &out, &errs) }()
	select {
	case status = <-done:
	case <-time.After(5 * time.Minute):
		t.Fatalf("weir replay %s does not end", strings.Join(args, " "))
	}
	return status, out.String(), errs.String()
}

// TestReplayUsage: each mistake gives one sentence and status 2, and creates
// no output.
func TestReplayUsage(t *testing.T) {
	good := pcaptest.Write(t, "in.pcap", pcapfile.Format{}, pcaptest.Frame(1, 2, 0, 60))
	raw, _ := os.ReadFile(good)
	file := func(content []byte) string {
		path := filepath.Join(t.TempDir(), "made.pcap")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	linked := func(link byte) string {
		b := slices.Clone(raw)
		b[20] = link
		return file(b)
	}
	for _, tc := range []struct {
		name string
		want string
		args []string
	}{
		{"nothing", "--in", nil},
		{"argument", "is no argument", []string{"x.pcap"}},
		{"flag", "unknown flag", []string{"--on", good}},
		{"config and graph", "config", []string{"-c", "x", "--graph", "parse", "--in", good}},
		{"config missing", "x.toml", []string{"-c", "x.toml", "--in", good}},
		{"graph", `no stage "l4"|stage "l4" does not exist`, []string{"--graph", "parse,l4", "--in", good}},
		{"graph without parse", "parse", []string{"--graph", "patch", "--in", good}},
		{"trace", "trace -1", []string{"--trace", "-1", "--in", good}},
		{"no file", "no such file", []string{"--in", "absent.pcap"}},
		{"no port", `"p7"`, []string{"--in", "p7=" + good}},
		{"no name", "names no file", []string{"--in", "p0="}},
		{"twice in", "has that port already", []string{"--in", good, "--in", good}},
		{"twice out", "has that port already", []string{"--in", good, "--out", "a", "--out", "b"}},
		{"directory", "directory", []string{"--in", t.TempDir()}},
		{"empty", "too few", []string{"--in", file(nil)}},
		{"text", "not a readable capture", []string{"--in", file([]byte("hello, world, how are you?"))}},
		{"raw IP", "101 (raw IP)", []string{"--in", linked(101)}},
		{"802.11", "105 (802.11)", []string{"--in", linked(105)}},
		{"chain", "chain 256", []string{"--chain", "256", "--in", good}},
		{"carrier", "there is int-md", []string{"--chain", "3", "--carrier", "ioam", "--in", good}},
		{"carrier without a chain", "name its switches", []string{"--carrier", "int-md", "--in", good}},
		{"carrier with one switch", "at least 2", []string{"--chain", "1", "--carrier", "int-md", "--in", good}},
		{"metadata", "of switch_id", []string{"--chain", "3", "--carrier", "int-md", "--int-metadata", "vlan", "--in", good}},
		{"rate", "not a rate", []string{"--chain", "3", "--link-rate", "fast", "--in", good}},
		{"slow", "1 Mbit/s", []string{"--chain", "3", "--link-rate", "5kbps", "--in", good}},
		{"mtu", "68 to 65535", []string{"--chain", "3", "--mtu", "20", "--in", good}},
		{"no folder", "no such file", []string{"--in", good, "--out", "absent/out.pcap"}},
		{"same file", "written over", []string{"--in", good, "--out", good}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out.pcap")
			if !slices.Contains(tc.args, "--out") {
				tc.args = append(tc.args, "--out", out)
			}
			status, stdout, stderr := runReplay(t, tc.args...)
			found := slices.ContainsFunc(strings.Split(tc.want, "|"), func(w string) bool { return strings.Contains(stderr, w) })
			if status != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !found {
				t.Errorf("status %d, stdout %q, stderr %q; want 2 and one line with %q", status, stdout, stderr, tc.want)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("an output was created")
			}
		})
	}
	if now, _ := os.ReadFile(good); !bytes.Equal(now, raw) {
		t.Error("the capture was written over")
	}
	t.Run("one output for two ports", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "out.pcap")
		status, _, stderr := runReplay(t, "--in", good, "--out", "p0="+out, "--out", "p1="+out)
		if status != 2 || !strings.Contains(stderr, "twice") {
			t.Errorf("status %d, %q", status, stderr)
		}
	})
}

// TestReplayStatus: the report is printed with each status, on standard error if a capture goes to standard output.
func TestReplayStatus(t *testing.T) {
	good := pcaptest.Write(t, "in.pcap", pcapfile.Format{}, pcaptest.Frame(1, 2, 0, 60), pcaptest.Frame(1, 2, 1000, 60))
	raw, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "short.pcap")
	if err := os.WriteFile(short, raw[:len(raw)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in, out  string
		status   int
		received uint64
	}{{good, "", 0, 2}, {short, "", 2, 1}, {good, "/dev/full", 1, 2}} {
		args := []string{"--json", "--in", c.in}
		if c.out != "" {
			args = append(args, "--out", c.out)
		}
		status, stdout, stderr := runReplay(t, args...)
		var r replay.Report
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || status != c.status || r.Received != c.received || (r.Error == "") != (status == 0) || (stderr == "") != (status == 0) {
			t.Errorf("%+v: status %d, %v, %s%s", c, status, err, stdout, stderr)
		}
	}
}

// TestReplayMetrics: the report has what the stages counted beside packets, by stage, and leaves out what is zero.
func TestReplayMetrics(t *testing.T) {
	// Station 1 sends twice, station 2 answers: both are learned, and only the first packet is flooded twice.
	in := pcaptest.Write(t, "in.pcap", pcapfile.Format{}, pcaptest.Frame(1, 2, 0, 60), pcaptest.Frame(1, 2, 1, 60), pcaptest.Frame(2, 1, 2, 60))
	status, stdout, stderr := runReplay(t, "--graph", "parse,l2", "--in", in)
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	_, below, found := strings.Cut(stdout, "\nmetrics of the stages\n")
	metrics, _, _ := strings.Cut(below, "\n\n")
	got := map[string]string{}
	for line := range strings.Lines(metrics) {
		if f := strings.Fields(line); len(f) > 3 {
			got[f[0]+" "+f[1]] = f[2]
		}
	}
	for name, want := range map[string]string{"l2 learned_stations_total": "2", "l2 flooded_packets_total": "2", "l2 fdb_entries": "2"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	for name, value := range got {
		if value == "0" {
			t.Errorf("%s is 0 and is printed", name)
		}
	}
	if !found || t.Failed() {
		t.Logf("the report: %s", stdout)
	}
	if !found {
		t.Error("the report has no metrics of stages")
	}
}
