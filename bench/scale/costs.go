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

// liveRun is what a kept run of weir bench scale --live measured.
type liveRun struct {
	Name              string // of the file
	Machine           string
	Switches          float64
	Made, Unaccounted float64 // records
	Server            taken   // each of them
	Reader            taken   // the collector that was not killed, before questions began
	Path, Heavy       float64 // medians of answers, in ms
	Packets           float64 // per second
}

// taken is what a collector, or a server, took in per second and by how much of a core.
type taken struct{ Records, Bytes, Cores float64 }

// costs are how much of a core a record takes, and a byte.
type costs struct{ Record, Byte float64 }

// of is what so many records and bytes per second take, in cores.
func (c costs) of(records, bytes float64) float64 { return c.Record*records + c.Byte*bytes }

// readLive reads the results of a folder, those of the fewest switches first. Older ones, in which nothing says what a collector takes without questions, are left out.
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
		of := map[string]float64{}
		for _, row := range r.Rows {
			of[row.Metric] = row.Value
		}
		if of["alone.cpu"] == 0 {
			continue
		}
		all = append(all, liveRun{
			Name: filepath.Base(file), Machine: r.Machine.CPU, Switches: of["switches"], Made: of["records.made"], Unaccounted: of["records.not_accounted"],
			Server: taken{of["records_per_second"], of["bytes_per_second"], of["cpu.servers"]},
			Reader: taken{of["alone.records_per_second"], of["alone.bytes_per_second"], of["alone.cpu"]},
			Path:   of["path_ms"], Heavy: of["heavy_hitters_ms"], Packets: of["packets_per_second"],
		})
	}
	if len(all) < 2 {
		return nil, errors.New(folder + " has fewer than two results of weir bench scale --live --json, and two unknowns need as many")
	}
	slices.SortFunc(all, func(a, b liveRun) int {
		return cmp.Or(cmp.Compare(a.Switches, b.Switches), strings.Compare(a.Name, b.Name))
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

// takenBy are what servers and collectors took in all runs.
func takenBy(runs []liveRun) (servers, readers []taken) {
	for i := range runs {
		servers, readers = append(servers, runs[i].Server), append(readers, runs[i].Reader)
	}
	return servers, readers
}

// worst is by how much of what was measured the costs are off at most.
func worst(runs []taken, c costs) (share float64) {
	for i := range runs {
		share = max(share, math.Abs(c.of(runs[i].Records, runs[i].Bytes)/runs[i].Cores-1))
	}
	return share
}

// collectorCores is what each collector of docs/scale.md has.
const collectorCores = 2

// loads are what a network makes servers and collectors do, by what was measured: cores of each of three servers, and of all collectors together, where each
// has the records of its own region.
func loads(n *need, server, reader costs) (servers, readers float64, collectors int) {
	readers = reader.of(n.Records, n.Bytes)
	return server.of(n.Records, n.Bytes), readers, max(1, int(math.Ceil(readers/collectorCores)))
}
