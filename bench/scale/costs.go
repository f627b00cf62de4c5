package scale

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirswitch/weir/bench"
)

// liveRun is a kept result of weir bench scale --live.
type liveRun struct {
	Name    string // of the file, without .json
	Machine string
	Of      map[string]float64 // by metric
	Sources map[string]string  // what the rows say of themselves
}

// server is what each server took in, and reader what the collector that was not killed took in before questions began.
func (r *liveRun) server() taken {
	return taken{r.Of["records_per_second"], r.Of["bytes_per_second"], r.Of["cpu.servers"]}
}

func (r *liveRun) reader() taken {
	return taken{r.Of["alone.records_per_second"], r.Of["alone.bytes_per_second"], r.Of["alone.cpu"]}
}

// older reports whether the result is of a version that did not measure what a collector takes without questions. Costs are not fitted to it.
func (r *liveRun) older() bool { return r.Of["alone.cpu"] == 0 }

// outcome is what became of the questions of a kind, in all phases.
type outcome struct{ Right, Incomplete, Wrong, Refused int }

func (o outcome) asked() int { return o.Right + o.Incomplete + o.Wrong + o.Refused }

// outcome adds up what the rows of the phases say.
func (r *liveRun) outcome(kind string) (all outcome, err error) {
	for _, phase := range []string{"all_there", "server_killed", "collector_killed", "again"} {
		var n int
		var o outcome
		text := r.Sources[kind+"_ms."+phase]
		if _, err := fmt.Sscanf(text, "median of %d; %d right, %d incomplete, %d wrong, %d refused", &n, &o.Right, &o.Incomplete, &o.Wrong, &o.Refused); err != nil {
			return all, fmt.Errorf("%s: %s says %q: %w", r.Name, kind, text, err)
		}
		all = outcome{all.Right + o.Right, all.Incomplete + o.Incomplete, all.Wrong + o.Wrong, all.Refused + o.Refused}
	}
	return all, nil
}

// taken is what a collector, or a server, took in per second and by how much of a core.
type taken struct{ Records, Bytes, Cores float64 }

// costs are how much of a core a record takes, and a byte.
type costs struct{ Record, Byte float64 }

// of is what so many records and bytes per second take, in cores.
func (c costs) of(records, bytes float64) float64 { return c.Record*records + c.Byte*bytes }

// readLive reads the results of a folder, those of the fewest switches first.
func readLive(folder string) (all []liveRun, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var r bench.Result
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		run := liveRun{Name: strings.TrimSuffix(filepath.Base(file), ".json"), Machine: r.Machine.CPU, Of: map[string]float64{}, Sources: map[string]string{}}
		for _, row := range r.Rows {
			run.Of[row.Metric], run.Sources[row.Metric] = row.Value, row.Source
		}
		all = append(all, run)
	}
	slices.SortFunc(all, func(a, b liveRun) int {
		return cmp.Or(cmp.Compare(a.Of["switches"], b.Of["switches"]), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// fit finds the costs by which the relative errors of all runs are least, neither below 0.
func fit(runs []taken) (c costs) {
	var xx, xy, yy, x, y float64
	for i := range runs {
		r, n := &runs[i], runs[i].Cores
		a, b := r.Records/n, r.Bytes/n // a Record + b Byte = 1
		xx, xy, yy, x, y = xx+a*a, xy+a*b, yy+b*b, x+a, y+b
	}
	if d := xx*yy - xy*xy; d > 1e-9*xx*yy {
		c = costs{(yy*x - xy*y) / d, (xx*y - xy*x) / d}
	}
	alone := []costs{{Record: x / xx}, {Byte: y / yy}}
	if c.Record <= 0 || c.Byte <= 0 || math.IsNaN(c.Record+c.Byte) { // the best of what is allowed has one of them alone
		c = slices.MinFunc(alone, func(a, b costs) int { return cmp.Compare(off(runs, a), off(runs, b)) })
	}
	return c
}

// off is the sum of the squared relative errors.
func off(runs []taken, c costs) (sum float64) {
	for i := range runs {
		e := c.of(runs[i].Records, runs[i].Bytes)/runs[i].Cores - 1
		sum += e * e
	}
	return sum
}

// takenBy are what servers and collectors took in the runs that costs are fitted to: two unknowns need two.
func takenBy(runs []liveRun) (servers, readers []taken, err error) {
	for i := range runs {
		if r := &runs[i]; !r.older() {
			servers, readers = append(servers, r.server()), append(readers, r.reader())
		}
	}
	if len(servers) < 2 {
		return nil, nil, errors.New("fewer than two results of weir bench scale --live --json")
	}
	return servers, readers, nil
}

// worst is by how much of what was measured the costs are off at most.
func worst(runs []taken, c costs) (share float64) {
	for i := range runs {
		share = max(share, math.Abs(c.of(runs[i].Records, runs[i].Bytes)/runs[i].Cores-1))
	}
	return share
}
