package scale

import (
	"fmt"
	"io"
	"math"
	"testing"
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

// TestLiveResults: the runs that are kept have every record accounted for, and what is computed by them has records of several sizes.
func TestLiveResults(t *testing.T) {
	runs, err := readLive(liveFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if r.Unaccounted > 0 || r.Made <= 0 || min(r.Server.Records, r.Server.Bytes, r.Server.Cores, r.Reader.Records, r.Reader.Bytes, r.Reader.Cores) <= 0 {
			t.Errorf("%+v", r)
		}
	}
}

// writeLive writes what the kept runs measured, and what networks need by that.
func writeLive(w io.Writer, runs []liveRun, one *second) error {
	servers, readers := takenBy(runs)
	server, reader := fit(servers), fit(readers)
	fmt.Fprintf(w, "\n| live, in bench/results/scale | machine | switches | packets/s | records/s | bytes/s | cores of a server | alone: records/s | bytes/s | cores of a collector | not accounted for | path, ms | heavy hitters, ms |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range runs {
		fmt.Fprintf(w, "| %s | %s | %.0f | %s | %s | %sB | %.3f | %s | %sB | %.3f | %.0f of %s | %.3g | %.3g |\n", r.Name, r.Machine, r.Switches, short(r.Packets), short(r.Server.Records), short(r.Server.Bytes), r.Server.Cores,
			short(r.Reader.Records), short(r.Reader.Bytes), r.Reader.Cores, r.Unaccounted, short(r.Made), r.Path, r.Heavy)
	}
	fmt.Fprintf(w, "\nBy these a record takes %.3g us of a server's core, and a byte %.3g ns: of what each run measured that is off by %.0f %% at most. A collector takes %.3g us and %.3g ns, off by %.0f %% at most. So networks need\n\n",
		1e6*server.Record, 1e9*server.Byte, 100*worst(servers, server), 1e6*reader.Record, 1e9*reader.Byte, 100*worst(readers, reader))
	fmt.Fprintf(w, "| switches | setting | bytes of a record | cores of each of three servers | cores of collectors | collectors of %d cores |\n|---|---|---|---|---|---|\n", collectorCores)
	for _, n := range needs(one) {
		if n.Setting == settings[0].Name {
			continue
		}
		servers, readers, collectors := loads(&n, server, reader)
		if _, err := fmt.Fprintf(w, "| %d | %s | %sB | %.3g | %.3g | %d |\n", n.Switches, n.Setting, short(n.Bytes/n.Records), servers, readers, collectors); err != nil {
			return err
		}
	}
	return nil
}
