package scale

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/bench/scale/live"
	"github.com/weirswitch/weir/stages/disketch"
	"github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/stages/oblivious"
)

const liveFolder = "../results/scale"

// TestFit: costs that runs were made by are found again, and none is below 0.
func TestFit(t *testing.T) {
	runs := []taken{{Records: 100, Bytes: 1e6}, {Records: 4000, Bytes: 2e6}, {Records: 500, Bytes: 4e5}}
	for _, want := range []costs{{100e-6, 20e-9}, {50e-6, 0}, {0, 30e-9}} {
		for i := range runs {
			runs[i].Cores = want.of(runs[i].Records, runs[i].Bytes)
		}
		got := fit(runs)
		if math.Abs(got.Record-want.Record) > 1e-12 || math.Abs(got.Byte-want.Byte) > 1e-15 {
			t.Errorf("%v, want %v", got, want)
		}
	}
	runs[0].Cores, runs[1].Cores, runs[2].Cores = 0.2, 0.1, 0.1 // more records for less: of bytes alone
	if c := fit(runs); c.Record < 0 || c.Byte < 0 || c.Record+c.Byte == 0 {
		t.Errorf("%v", c)
	}
}

// TestLiveResults: the runs that are kept have every record accounted for, and no wrong answer.
func TestLiveResults(t *testing.T) {
	runs, err := readLive(liveFolder)
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		r := &runs[i]
		if r.Of["records.made"] <= 0 || r.Of["records.not_accounted"] != 0 || r.Of["records.twice"] != 0 || r.Of["records.strange"] != 0 || r.Of["collectors.not_applied"] != 0 {
			t.Errorf("%s: %v", r.Name, r.Of)
		}
		if r.Of["records.dropped"] != 0 || r.Of["records.waiting"] != 0 { // docs/scale.md says so of all
			t.Errorf("%s has dropped %v records, and %v wait", r.Name, r.Of["records.dropped"], r.Of["records.waiting"])
		}
		if s, c := r.server(), r.reader(); !r.older() && min(s.Records, s.Bytes, s.Cores, c.Records, c.Bytes, c.Cores) <= 0 {
			t.Errorf("%s: %+v, %+v", r.Name, s, c)
		}
		for _, kind := range []string{"path", "heavy_hitters"} {
			o, err := r.outcome(kind)
			if err != nil || float64(o.asked()) != r.Of[kind+".asked"] || o.Wrong != 0 {
				t.Errorf("%s, %s: %+v of %v: %v", r.Name, kind, o, r.Of[kind+".asked"], err)
			}
		}
	}
}

// TestDocumentLive: docs/scale.md has of live runs what their results have, of all that are kept.
func TestDocumentLive(t *testing.T) {
	runs, err := readLive(liveFolder)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := writeLive(&b, runs); err != nil {
		t.Fatal(err)
	}
	inDocument(t, "live", b.String())
}

// writeLive writes what the kept runs measured.
func writeLive(w io.Writer, runs []liveRun) error {
	fmt.Fprintf(w, "| of a switch | by default | in live runs |\n|---|---|---|\n")
	fmt.Fprintf(w, "| entries of a sample | %d | %d |\n", oblivious.DefaultConfig().Size, live.SampleSize)
	fmt.Fprintf(w, "| a Count Sketch | %d KiB | %d KiB |\n", disketch.DefaultConfig().Fragments[0].Memory>>10, live.SketchBytes>>10)
	fmt.Fprintf(w, "| columns of a point of LDS | %d | %d |\n| points of LDS | %d | %d |\n", lds.DefaultConfig().Columns, live.LDSColumns, points, live.LDSPoints)
	fmt.Fprintf(w, "\n| run | machine | switches | budget of each | sent by each | packets/s | late by, at most | records/s | bytes/s | bytes of a record | records | not accounted for | twice |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for i := range runs {
		of := runs[i].Of
		fmt.Fprintf(w, "| %s | %s | %.0f | %sB/s | %sB/s | %s | %.1f s | %s | %sB | %.0f | %.0f | %.0f | %.0f |\n", runs[i].Name, runs[i].Machine, of["switches"], short(of["budget"]), short(of["bytes_per_switch"]), short(of["packets_per_second"]), of["publishers_behind"],
			short(of["records_per_second"]), short(of["bytes_per_second"]), of["bytes_per_second"]/of["records_per_second"], of["records.made"], of["records.not_accounted"], of["records.twice"])
	}
	fmt.Fprintf(w, "\n| run | cores of a server | us of a record | the collector before questions: records/s | bytes/s | cores | us of a record | with half of the questions | most memory of a server | of a collector |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for i := range runs {
		r, of := &runs[i], runs[i].Of
		alone := "| | | "
		if !r.older() {
			c := r.reader()
			alone = fmt.Sprintf("%s | %sB | %.3f | %.0f", short(c.Records), short(c.Bytes), c.Cores, of["us_per_record.alone"])
		}
		fmt.Fprintf(w, "| %s | %.3f | %.0f | %s | %.0f | %sB | %sB |\n", r.Name, of["cpu.servers"], of["us_per_record.server"], alone, of["us_per_record.collector"], short(of["memory.server"]), short(of["memory.collector"]))
	}
	fmt.Fprintf(w, "\n| run | paths: right | incomplete | wrong | refused | median, ms | 90 %% | heavy hitters: right | incomplete | wrong | refused | median, ms | 90 %% |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for i := range runs {
		fmt.Fprintf(w, "| %s |", runs[i].Name)
		for _, kind := range []string{"path", "heavy_hitters"} {
			o, err := runs[i].outcome(kind)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, " %d | %d | %d | %d | %s | %s |", o.Right, o.Incomplete, o.Wrong, o.Refused, inMs(runs[i].Of[kind+"_ms"]), inMs(runs[i].Of[kind+"_ms.p90"]))
		}
		fmt.Fprintln(w)
	}
	servers, readers, err := takenBy(runs)
	if err != nil {
		return err
	}
	server, reader := fit(servers), fit(readers)
	var names []string
	for i := range runs {
		if runs[i].older() {
			names = append(names, runs[i].Name)
		}
	}
	_, err = fmt.Fprintf(w, "\nBy least squares of the relative errors of %d runs a record takes %.3g us of a server's core, and a byte %.3g ns: of what each run measured that is off by %.0f %% at most. A collector takes %.3g us and %.3g ns, off by %.0f %% at most. "+
		"The others, %s, are of a version that did not measure what a collector takes without questions.\n",
		len(servers), 1e6*server.Record, 1e9*server.Byte, 100*worst(servers, server), 1e6*reader.Record, 1e9*reader.Byte, 100*worst(readers, reader), strings.Join(names, " and "))
	return err
}

// writeCarried writes what costs of live runs would make of the smallest network of the tables, and how far that is from what was measured.
func writeCarried(w io.Writer, runs []liveRun, one *second) error {
	servers, readers, err := takenBy(runs)
	if err != nil {
		return err
	}
	n, most := needOf(sizes[0], settings[1], one), 0.
	for _, r := range append(slices.Clone(servers), readers...) {
		most = max(most, r.Bytes)
	}
	server, reader := fit(servers), fit(readers)
	_, err = fmt.Fprintf(w, "\nLive runs ([below](#live)) had up to %sB/s. Carried on by their costs to the %sB/s of %d switches with a budget of %s, %.0f times that, each of three servers would take %.2g of a core, and a collector %.2g: this is an extrapolation, and not measured.\n",
		short(most), short(n.Bytes), n.Switches, n.Setting, n.Bytes/most, server.of(n.Records, n.Bytes), reader.of(n.Records, n.Bytes))
	return err
}

// TestDocumentPage: docs/scale.md has the times of the page's questions that its benchmark printed.
func TestDocumentPage(t *testing.T) {
	text, err := os.ReadFile("../results/page-thousand.txt")
	if err != nil {
		t.Fatal(err)
	}
	times, bytes := map[string][]float64{}, map[string]float64{}
	var order []string
	for line := range strings.Lines(string(text)) {
		name, values, ok := strings.Cut(strings.TrimPrefix(line, "BenchmarkThousand/"), "-2 ")
		var n int
		var ns, size float64
		if !ok || !strings.HasPrefix(line, "BenchmarkThousand/") {
			continue
		}
		if _, err := fmt.Sscanf(values, "%d %f ns/op %f bytes/answer", &n, &ns, &size); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if times[name] == nil {
			order = append(order, name)
		}
		times[name], bytes[name] = append(times[name], ns/1e6), size
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| question | ms: median | least | most | bytes of the answer |\n|---|---|---|---|---|\n")
	for _, name := range order {
		all := slices.Sorted(slices.Values(times[name]))
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %.0f |\n", name, inMs(all[len(all)/2]), inMs(all[0]), inMs(all[len(all)-1]), bytes[name])
	}
	inDocument(t, "page", b.String())
}

// inMs writes a time with three digits.
func inMs(ms float64) string {
	if ms >= 100 {
		return fmt.Sprintf("%.0f", ms)
	}
	return fmt.Sprintf("%.3g", ms)
}
