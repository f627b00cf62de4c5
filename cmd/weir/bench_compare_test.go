package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/bench/forward"
)

// TestCompareReports: two reports of devices under test are compared by their rounds, and one round each is too few for a verdict.
func TestCompareReports(t *testing.T) {
	write := func(name string, throughputs ...float64) string {
		r := forward.WireReport{TX: "eth1", RX: "eth2"}
		for _, x := range throughputs {
			r.Rounds = append(r.Rounds, []forward.WireSize{{Size: 64, Throughput: x, MRR: 2 * x, Offered: 3 * x, Burst: 10, Latency: []forward.WireLatency{{Share: 0.5, Rate: x / 2, P50: 1e9 / x, P99: 2e9 / x, P999: 3e9 / x}}}})
		}
		r.Sizes = r.Rounds[0]
		if len(throughputs) == 1 {
			r.Rounds = nil
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	slow, fast := write("slow.json", 100, 101, 99, 102, 100), write("fast.json", 120, 121, 119, 122, 120)
	status, stdout, stderr := weir("bench", "compare", slow, fast)
	if status != 0 || stderr != "" || strings.Count(stdout, "better") != 5 || !strings.Contains(stdout, "64B.latency_p50_at_50") || !strings.Contains(stdout, "not shown to differ") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	status, stdout, stderr = weir("bench", "compare", write("a.json", 100), write("b.json", 120))
	if status != 0 || !strings.Contains(stdout, "too few runs") || !strings.Contains(stderr, "--rounds 7 or more") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	limited, invalid := edit(t, fast, func(s *forward.WireSize) { s.Limited = true }), edit(t, fast, func(s *forward.WireSize) { s.Invalid = "it is none" })
	status, stdout, stderr = weir("bench", "compare", slow, limited)
	if status != 0 || strings.Contains(stdout, "worse") || strings.Count(stdout, "better") != 1 || strings.Count(stdout, "5 source-limited of B") != 4 ||
		!strings.Contains(stderr, "source-limited, 4 of 6 figures: what sent, not the device, set them in so many rounds that fewer than 4 others are left") {
		t.Errorf("a source that was the limit: status %d: %s%s", status, stdout, stderr)
	}
	status, stdout, stderr = weir("bench", "compare", slow, invalid)
	if status != statusFailure || strings.Contains(stdout, "better") || strings.Count(stdout, "5 INVALID of B") != 6 || !strings.Contains(stderr, "no result (INVALID): 5 rounds of a size") ||
		!strings.Contains(stderr, "INVALID, 6 of 6 figures: no round of a side is a result") || !strings.Contains(stderr, "nothing could be compared") {
		t.Errorf("no result: status %d: %s%s", status, stdout, stderr)
	}
	status, stdout, stderr = weir("bench", "compare", "--json", slow, invalid)
	if status != statusFailure || strings.Count(stdout, `"verdict": "INVALID"`) != 6 || !strings.Contains(stderr, "nothing could be compared") {
		t.Errorf("no result, as JSON: status %d: %s%s", status, stdout, stderr)
	}
	text, err := os.ReadFile(fast)
	var other forward.WireReport
	if err := errors.Join(err, json.Unmarshal(text, &other)); err != nil {
		t.Fatal(err)
	}
	other.Trial, other.Trials, other.Precision, other.Sizes = 0.2, 1, 0.05, append(other.Sizes, forward.WireSize{Size: 512})
	if text, err = json.Marshal(other); err != nil {
		t.Fatal(err)
	}
	unlike := filepath.Join(t.TempDir(), "unlike.json")
	if err := os.WriteFile(unlike, text, 0o600); err != nil {
		t.Fatal(err)
	}
	status, _, stderr = weir("bench", "compare", slow, unlike)
	if want := "A and B were not measured alike, so figures may differ for that alone: length of trials (--duration), 0 s and 0.2 s; trials at a rate (--trials), 0 and 1; " +
		"resolution of the search (--precision), 0 and 0.05; frame sizes (--size), 64 and 64,512: "; status != statusGood || !strings.Contains(stderr, want) {
		t.Errorf("other settings: status %d: %s, want %s", status, stderr, want)
	}
	first := true
	one := edit(t, fast, func(s *forward.WireSize) { s.Limited, first = first, false })
	status, stdout, stderr = weir("bench", "compare", slow, one)
	if status != 0 || strings.Count(stdout, "better") != 5 || strings.Count(stdout, "5, 4") != 4 || strings.Count(stdout, "1 source-limited of B") != 4 ||
		!strings.Contains(stderr, "of 4 of 6 figures, left out are rounds in which what sent, not the device, set them") {
		t.Errorf("a source that was the limit once: status %d: %s%s", status, stdout, stderr)
	}
	for line, want := range map[string]string{
		"--tx eth1 --rx eth2 --dut patch": "--dut: not for a device of your own",
		"--tx eth1 --rx eth2 --rounds 0":  "--rounds 0: choose 1 to 1000",
		"--html report.html":              "--html: it is for a device of your own: name its interfaces with --tx and --rx",
	} {
		if status, _, stderr := weir(append([]string{"bench", "forward"}, strings.Fields(line)...)...); status != statusUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s", line, status, stderr)
		}
	}
}

// edit writes a report with each size of each round changed.
func edit(t *testing.T, file string, change func(*forward.WireSize)) string {
	t.Helper()
	text, err := os.ReadFile(file)
	var r forward.WireReport
	if err := errors.Join(err, json.Unmarshal(text, &r)); err != nil {
		t.Fatal(err)
	}
	for _, round := range r.Rounds {
		for i := range round {
			change(&round[i])
		}
	}
	if text, err = json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "edited.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWireStatus: a report without a result is printed and written as any other, and the status is 1; one result is enough for 0.
func TestWireStatus(t *testing.T) {
	good, none := forward.WireSize{Size: 64, Throughput: 5}, forward.WireSize{Size: 512, Invalid: "it is none"}
	for _, tt := range []struct {
		sizes []forward.WireSize
		want  int
	}{{[]forward.WireSize{good, none}, statusGood}, {[]forward.WireSize{none, none}, statusFailure}} {
		for _, asJSON := range []bool{false, true} {
			o := wireOptions{csv: filepath.Join(t.TempDir(), "report.csv")}
			var stdout, stderr strings.Builder
			status := conclude(o.write(&stdout, &forward.WireReport{Sizes: tt.sizes}, asJSON), &stderr)
			table, err := os.ReadFile(o.csv)
			if status != tt.want || err != nil || !strings.Contains(stdout.String(), "it is none") || !strings.Contains(string(table), "it is none") {
				t.Errorf("status %d, want %d, %v: %s%s%s", status, tt.want, err, &stdout, &stderr, table)
			}
			if said := strings.Contains(stderr.String(), "no frame size has a result, all are INVALID"); said != (tt.want == statusFailure) {
				t.Errorf("%s", &stderr)
			}
		}
	}
}

// TestInterruptedBench: a signal's end is called so, and whether there is a report; other errors stay as they are.
func TestInterruptedBench(t *testing.T) {
	ended, other := fmt.Errorf("frames of 64 bytes: %w", context.Canceled), errors.New("no link")
	for _, tt := range []struct {
		err      error
		reported bool
		want     string
	}{
		{ended, true, "interrupted: the report has what was complete by then"},
		{ended, false, "interrupted before a measurement was complete: there is no report"},
		{other, true, "no link"},
	} {
		if got := interrupted(tt.err, tt.reported); got == nil || got.Error() != tt.want {
			t.Errorf("%v: %v, want %s", tt.err, got, tt.want)
		}
	}
	if err := interrupted(nil, true); err != nil {
		t.Error(err)
	}
	if rounds(1) != "1 round" || rounds(2) != "2 rounds" {
		t.Error(rounds(1), rounds(2))
	}
}

// TestSinkLate: a report with late packets says what they are, and no other one does.
func TestSinkLate(t *testing.T) {
	for late, want := range map[uint64]bool{0: false, 2: true} {
		var out strings.Builder
		s := sinkReport{Packets: 5, Late: late}
		if err := s.print(&out, false); err != nil || strings.Contains(out.String(), "late: behind a later packet of any flow") != want {
			t.Errorf("%d late: %v, %s", late, err, &out)
		}
	}
}

// TestShellCommand: a report's command line is one that a shell takes back.
func TestShellCommand(t *testing.T) {
	got := commandLine([]string{"/tmp/x", "bench", "forward", "--device", "ACME's <2>", "--csv", ""})
	if want := `weir bench forward --device 'ACME'\''s <2>' --csv ''`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestRoundsInDocs: each example that compares measures enough rounds.
func TestRoundsInDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/bench.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 0 || !strings.Contains(block, "weir bench compare") {
			continue
		}
		for _, rest := range strings.Split(block, "--rounds ")[1:] {
			checked++
			if n, err := strconv.Atoi(strings.Fields(rest)[0]); err != nil || n < bench.EnoughRuns {
				t.Errorf("--rounds %s: %v, want %d or more", rest, err, bench.EnoughRuns)
			}
		}
	}
	if checked < 4 {
		t.Errorf("%d examples were found", checked)
	}
}
