package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/bench"
)

// TestBenchScaleLive: ten switches, three servers and two collectors, each a process; a server and a collector are killed, and each record
// that was written is in the stream once. The folder is named as it is from here.
func TestBenchScaleLive(t *testing.T) {
	t.Setenv(testMain, "1") // of the processes
	t.Chdir(t.TempDir())
	const folder = "files"
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(folder, "weir-bench-live-1") // of a run that was killed
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := weir("bench", "scale", "--live", "--switches", "10", "--budget", "250kB/s", "--epoch-bits", "29", "--packets", "2000", "--flows", "40",
		"--length", "10s", "--publishers", "2", "--folder", folder, "--json")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var r bench.Result
	if err := json.NewDecoder(bytes.NewReader([]byte(stdout))).Decode(&r); err != nil {
		t.Fatal(err)
	}
	value := func(metric string) float64 {
		row, ok := r.Row(metric)
		if !ok {
			t.Fatalf("there is no %s in %s", metric, stdout)
		}
		return row.Value
	}
	for _, metric := range []string{"records.not_accounted", "records.twice", "records.strange", "records.lost", "records.dropped", "records.waiting", "collectors.not_applied", "path.wrong"} {
		if v := value(metric); v != 0 {
			row, _ := r.Row(metric)
			t.Errorf("%s = %v: %s", metric, v, row.Source)
		}
	}
	// A status per second of each switch alone is more.
	if written, stored := value("records.written"), value("records.stored"); written < 100 || stored != written {
		t.Errorf("%v records were written, and %v are in the stream", written, stored)
	}
	for _, kind := range []string{"pint", "disketch", "oblivious", "lds", "status"} {
		value("bytes_per_record." + kind)
	}
	for _, kind := range []string{"path", "heavy_hitters"} {
		if value(kind+".asked") == 0 {
			t.Errorf("no question of %s was asked", kind)
		}
		if row, _ := r.Row(kind + "_ms"); strings.HasPrefix(row.Source, "median of 0 ") {
			t.Logf("the machine is too busy for an answer of %s that lacks nothing: %s", kind, stdout)
		}
	}
	if left, _ := os.ReadDir(folder); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

// TestBenchScaleMistakes: what cannot be run is refused with the remedy.
func TestBenchScaleMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"--switches 20":                                        "--switches: it is for --live",
		"--live --switches 7":                                  "choose a multiple",
		"--live --budget 1kB/s":                                `choose at least "10kB/s"`,
		"--live --length 1s":                                   "not between 10s and 1h",
		"--live --folder /no-such-folder":                      "name another one",
		"--live --publishers 9 --switches 20":                  "have no row of 5 switches each",
		"--live --switches 10000 --length 1h --budget 100MB/s": "a smaller --budget",
	} {
		if status, _, stderr := weir(append([]string{"bench", "scale"}, strings.Fields(args)...)...); status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %q, want %q", args, status, stderr, want)
		}
	}
}
