package scale

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
)

var update = flag.Bool("update", false, "write the tables of docs/scale.md anew")

// TestDocument: the tables in docs/scale.md are what the simulation says now.
func TestDocument(t *testing.T) {
	one := theSecond(t)
	runs, err := readLive(liveFolder)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := errors.Join(writeTables(&b, one), writeCarried(&b, runs, one)); err != nil {
		t.Fatal(err)
	}
	inDocument(t, "tables", b.String())
}

// inDocument compares what is between two comments of docs/scale.md with what it is to be, or writes that.
func inDocument(t *testing.T, name, want string) {
	t.Helper()
	const file = "../../docs/scale.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	head, rest, ok := strings.Cut(string(text), begin)
	old, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("docs/scale.md has no comments %q and %q", begin, end)
	}
	if *update {
		if err := os.WriteFile(file, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != want {
		t.Errorf("docs/scale.md differs from what was computed: run this test with -update. It is to have\n%s", want)
	}
}

// TestNeeds: a network of more switches needs more of everything, in proportion where nothing is rounded; turning down
// helps.
func TestNeeds(t *testing.T) {
	one := &second{Packets: 1e7, Bytes: map[string]int{"disketch": 1e5, "oblivious": 3e5, "lds": 1e6, "status": 500, "pint": 80_000}, DigestBytes: 19, PartitionExcess: 1.1, Cuts: map[float64]*cut{
		1e6:   {Bytes: 9e5, PINTBytes: 4e5, Records: 30, Digests: 4000, Flows: 10_000},
		250e3: {Bytes: 2e5, PINTBytes: 1e5, Records: 29, Digests: 1000, Flows: 3000},
	}}
	all := needs(one)
	for i, n := range all {
		if i >= len(settings) {
			less := all[i-len(settings)]
			if ratio, want := n.Digests/less.Digests, float64(n.Switches)/float64(less.Switches); ratio < want*0.999 || ratio > want*1.001 {
				t.Errorf("%+v beside %+v", n, less)
			}
			if n.Bytes <= less.Bytes || n.Servers < less.Servers || n.Kept <= less.Kept {
				t.Errorf("%+v beside %+v", n, less)
			}
		}
		if i%len(settings) > 0 && (n.Bytes >= all[i-1].Bytes || n.Digests >= all[i-1].Digests) {
			t.Errorf("%+v is no less than %+v", n, all[i-1])
		}
	}
	for _, n := range all {
		if n.Regions == 0 || n.Collectors < n.Regions || n.Collectors > 16*n.Regions || n.Servers != 3*n.Regions || n.Bytes > 250e6*float64(n.Regions)*1.01 {
			t.Errorf("%+v", n)
		}
	}
	// By hand: 20 switches of 1e7 packets in 2^30 ns, five hops.
	if d := all[0].Digests; d < 20*1e7/1.0737418/5*0.9999 || d > 20*1e7/1.0737418/5*1.0001 {
		t.Errorf("%g digests per second", d)
	}
}

// writeTables writes what docs/scale.md shows.
func writeTables(w io.Writer, one *second) error {
	fmt.Fprintf(w, "| of one switch in 2^30 ns | |\n|---|---|\n")
	fmt.Fprintf(w, "| packets, of flows | %s, of %s |\n| bytes of a packet, mean | %.0f |\n", short(float64(one.Packets)), short(float64(one.Flows)), one.PacketBytes)
	for _, k := range []string{"disketch", "oblivious", "lds", "status"} {
		fmt.Fprintf(w, "| a record of %s | %sB |\n", k, short(float64(one.Bytes[k])))
	}
	for _, s := range settings[1:] {
		c := one.Cuts[s.Budget]
		fmt.Fprintf(w, "| a record of disketch, of cells rounded for %s | %sB |\n", s.Name, short(c.SketchBytes))
	}
	fmt.Fprintf(w, "| a digest in a full record | %.1f B |\n| the busiest of 16 partitions, over the mean | %.2f |\n\n", one.DigestBytes, one.PartitionExcess)
	fmt.Fprintf(w, "| switches | setting | digests and flows/s | records/s | bytes/s | disk per day | 100 slices | regions | servers | collectors |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, n := range needs(one) {
		if _, err := fmt.Fprintf(w, "| %d | %s | %s | %s | %sB | %sB | %sB | %d | %d | %d |\n", n.Switches, n.Setting, short(n.Digests), short(n.Records), short(n.Bytes),
			short(n.DiskPerDay), short(n.Kept), n.Regions, n.Servers, n.Collectors); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\n| errors of answers | all records | ")
	for _, s := range settings[1:] {
		fmt.Fprintf(w, "%s | ", s.Name)
	}
	fmt.Fprintf(w, "\n|---|---|---|---|\n")
	for _, q := range qualities {
		fmt.Fprintf(w, "| %s, %s | %.3g |", strings.ReplaceAll(q.metric, "_", " "), q.text, q.of(&one.Whole))
		for _, s := range settings[1:] {
			fmt.Fprintf(w, " %.3g |", q.of(&one.Cuts[s.Budget].Quality))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "\n| records of | error of | bytes of all records | error | bytes within %s | error | bytes times the square of the error, over that of all |\n|---|---|---|---|---|---|---|\n", settings[1].Name)
	for _, k := range kinds {
		c := one.Cuts[settings[1].Budget]
		all, part := k.whole(one), k.cut(c)
		before, after := k.of(&one.Whole), k.of(&c.Quality)
		fmt.Fprintf(w, "| %s | %s | %sB | %.3g | %sB | %.3g | %.3g |\n", k.name, k.text, short(all), before, short(part), after, part*after*after/(all*before*before))
	}
	return nil
}

// TestBudgets: within the default budget 20 switches of 100 Gbit/s need the bytes and the collectors that docs/scale.md promises, and errors
// are at most half as much again as from all records.
func TestBudgets(t *testing.T) {
	one := theSecond(t)
	for _, s := range settings[1:] {
		c := one.Cuts[s.Budget]
		if c.Bytes > s.Budget || c.Bytes < 0.6*s.Budget {
			t.Errorf("%s: %.0f bytes per second", s.Name, c.Bytes)
		}
	}
	n := needOf(20, settings[1], one)
	if n.Bytes > 20e6 || n.Collectors > 2 {
		t.Errorf("%+v", n)
	}
	if n := one.Cuts[1e6].SketchBytes; n > 16e3 {
		t.Errorf("a record of disketch takes %.0f bytes", n)
	}
	if at := one.Cuts[1e6].Rounding; fmt.Sprintf("%d,%d,%d", at.Ratio, at.Least, at.Whole) != usefulSteps {
		t.Errorf("cells are rounded by %+v, and docs/scale.md has the errors of %s", at, usefulSteps)
	}
	a, b := &one.Whole, &one.Cuts[1e6].Quality
	for name, pair := range map[string][2]float64{
		"path": {a.Path, b.Path}, "latency": {a.Latency, b.Latency}, "latency of flows": {a.FlowLatency, b.FlowLatency}, "heavy hitters": {a.Heavy, b.Heavy}, "delay": {a.Delay, b.Delay}, "loss": {a.Loss, b.Loss}, "flows by sketches": {a.Sketched, b.Sketched}, "entropy": {a.Entropy, b.Entropy},
		"heavy hitters by sketches": {a.SketchedHeavy, b.SketchedHeavy},
	} {
		if pair[1] > 1.5*pair[0] && pair[1] > 1e-9 {
			t.Errorf("%s: an error of %.4g by all records is %.4g within the budget", name, pair[0], pair[1])
		}
	}
}

// theSecond is the simulated one, or skips the test.
func theSecond(t *testing.T) *second {
	t.Helper()
	if testing.Short() {
		t.Skip("a second of 13 million packets takes 20 s")
	}
	if _, err := os.Stat(filepath.Join(netsim.DataDir(), "flowsizes")); err != nil {
		t.Skipf("no flow sizes: %v", err)
	}
	one, err := simulateOnce()
	if err != nil {
		t.Fatal(err)
	}
	return one
}

var simulateOnce = sync.OnceValues(func() (*second, error) { return simulate(netsim.DataDir(), rate, ports, 1) })

// short writes a number with three digits and a prefix.
func short(x float64) string {
	for _, unit := range []string{"", "k", "M", "G", "T"} {
		if x < 999.5 {
			return fmt.Sprintf("%.3g %s", x, unit)
		}
		x /= 1000
	}
	return fmt.Sprintf("%.3g P", x)
}
