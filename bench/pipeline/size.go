package pipeline

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
)

// SizeHelp describes the targets that Size takes.
const SizeHelp = `compute the sketch of lds, or the sample of oblivious, for a target, as in ` + "`KEY=VALUE,...`" + `:
lds: flows, shape and scale (of Pareto sizes), packets, interference, failures, losses, virtual; - for the paper's;
oblivious: epsilon, delta and theta`

// Size computes the dimensions of a stage's data structure for a target, instead of a measurement.
func Size(stage, target string) (*bench.Result, error) {
	if stage == "oblivious" {
		return sampleSize(target)
	}
	if !strings.HasPrefix(stage, "lds") {
		return nil, fmt.Errorf("stage %q has no size to compute: choose lds or oblivious", stage)
	}
	t, err := ldsTarget(target)
	if err != nil {
		return nil, err
	}
	s, err := lds.Size(t)
	if err != nil {
		return nil, err
	}
	r := &bench.Result{Name: "stage/lds-size", Machine: bench.ThisMachine()}
	const source = "LDS Section 3"
	r.Add("lds.rows", "rows", float64(s.Config.Rows), source, bench.Neither)
	r.Add("lds.columns", "cells", float64(s.Config.Columns), source, bench.Neither)
	r.Add("lds.virtual", "cells", float64(s.Config.Virtual), source, bench.Neither)
	for i, rate := range s.Config.Rates {
		r.Add(fmt.Sprintf("lds.banks.%d", i), "ratio", rate, source, bench.Neither)
	}
	r.Add("lds.bytes", "bytes", float64(s.Bytes), "cells of one point at one worker", bench.Lower)
	r.Add("lds.small_collisions", "ratio", s.SmallCollisions, "share of the flows that meet the target", bench.Higher)
	return r, nil
}

// ldsTarget reads a target, over the paper's (Section 3.1) as the default.
func ldsTarget(text string) (lds.Target, error) {
	t := lds.Target{Flows: 146_000, Sizes: lds.Pareto{Scale: 0.4057, Shape: 0.65}, Packets: 1000, Interference: 0.05, Failures: 0.015}
	if text == "-" {
		return t, nil
	}
	var virtual float64
	errs := readTarget(text, []string{"flows", "shape", "scale", "packets", "interference", "failures", "losses", "virtual"},
		&t.Flows, &t.Sizes.Shape, &t.Sizes.Scale, &t.Packets, &t.Interference, &t.Failures, &t.Losses, &virtual)
	if virtual != math.Trunc(virtual) || math.Abs(virtual) > lds.MaxVirtual {
		errs = append(errs, fmt.Errorf("virtual = %g: write a whole number of at most %d", virtual, lds.MaxVirtual))
	}
	t.Virtual = int(virtual)
	return t, errors.Join(errs...)
}

// readTarget reads KEY=VALUE,... into the numbers of the keys, and returns all faults.
func readTarget(text string, keys []string, numbers ...*float64) (errs []error) {
	for pair := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(pair, "=")
		var to *float64
		for i, name := range keys {
			if name == strings.TrimSpace(key) {
				to = numbers[i]
			}
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		switch {
		case to == nil:
			errs = append(errs, fmt.Errorf("%q: choose among %s", key, strings.Join(keys, ", ")))
		case err != nil:
			errs = append(errs, fmt.Errorf("%s = %q: write a number", key, value))
		default:
			*to = v
		}
	}
	return errs
}

// sampleSize computes how many entries a network-wide sample needs for each question that has an answer.
func sampleSize(target string) (*bench.Result, error) {
	epsilon, delta, theta := 0.01, 0.05, 0.0
	errs := readTarget(target, []string{"epsilon", "delta", "theta"}, &epsilon, &delta, &theta)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	r := &bench.Result{Name: "stage/oblivious-size", Machine: bench.ThisMachine()}
	add := func(metric, source string, entries int, err error) {
		if err != nil {
			errs = append(errs, err)
			return
		}
		r.Add("oblivious."+metric, "entries", float64(entries), source, bench.Neither)
	}
	volume, err := oblivious.VolumeSize(epsilon, delta)
	add("volume", "the volume within epsilon of itself", volume, err)
	frequency, err := oblivious.FrequencySize(epsilon, delta)
	add("frequency", "a flow within epsilon of the volume: Section III-D4", frequency, err)
	if theta != 0 {
		heavy, err := oblivious.HeavyHitterSize(theta, epsilon, delta)
		add("heavy_hitters", "all flows of theta, and none below theta - epsilon", heavy, err)
	}
	if len(r.Rows) == 0 {
		return nil, errs[len(errs)-1]
	}
	return r, nil
}
