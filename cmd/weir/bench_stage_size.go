package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
)

// addStageSize gives weir bench stage the flag --size, which computes the
// dimensions of a stage's data structure instead of measuring it.
func addStageSize(cmd *cobra.Command, output *benchOutput) {
	var size string
	cmd.Flags().StringVar(&size, "size", "", "compute the sketch of lds, or the sample of oblivious, for a target, as in `KEY=VALUE,...`:\nlds: flows, shape and scale (of Pareto sizes), packets, interference, failures, losses, virtual; - for the paper's;\noblivious: epsilon, delta and theta")
	measure := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if size == "" {
			return measure(cmd, args)
		}
		if args[0] == "oblivious" {
			return runSampleSize(size, output, cmd.OutOrStdout())
		}
		if !strings.HasPrefix(args[0], "lds") {
			return usageError(fmt.Errorf("--size: stage %q has no size to compute: choose lds or oblivious", args[0]))
		}
		return runStageSize(size, output, cmd.OutOrStdout())
	}
}

// runStageSize sizes a point of LDS.
func runStageSize(size string, output *benchOutput, stdout io.Writer) error {
	target, err := ldsTarget(size)
	if err != nil {
		return usageError(fmt.Errorf("--size: %w", err))
	}
	s, err := lds.Size(target)
	if err != nil {
		return usageError(fmt.Errorf("--size: %w", err))
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
	return output.print(stdout, r)
}

// ldsTarget reads a target, over the paper's (Section 3.1) as the default.
func ldsTarget(text string) (lds.Target, error) {
	t := lds.Target{Flows: 146_000, Sizes: lds.Pareto{Scale: 0.4057, Shape: 0.65}, Packets: 1000, Interference: 0.05, Failures: 0.015}
	if text == "-" {
		return t, nil
	}
	var virtual float64
	keys := map[string]*float64{
		"flows": &t.Flows, "shape": &t.Sizes.Shape, "scale": &t.Sizes.Scale, "packets": &t.Packets,
		"interference": &t.Interference, "failures": &t.Failures, "losses": &t.Losses, "virtual": &virtual,
	}
	errs := readTarget(text, []string{"flows", "shape", "scale", "packets", "interference", "failures", "losses", "virtual"}, keys)
	if virtual != math.Trunc(virtual) || math.Abs(virtual) > lds.MaxVirtual {
		errs = append(errs, fmt.Errorf("virtual = %g: write a whole number of at most %d", virtual, lds.MaxVirtual))
	}
	t.Virtual = int(virtual)
	return t, errors.Join(errs...)
}

// readTarget reads KEY=VALUE,... into the keys' numbers, and returns all faults.
func readTarget(text string, order []string, keys map[string]*float64) (errs []error) {
	for pair := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(pair, "=")
		to, known := keys[strings.TrimSpace(key)]
		v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		switch {
		case !known:
			errs = append(errs, fmt.Errorf("%q: choose among %s", key, strings.Join(order, ", ")))
		case err != nil:
			errs = append(errs, fmt.Errorf("%s = %q: write a number", key, value))
		default:
			*to = v
		}
	}
	return errs
}

// runSampleSize tells how many entries a network-wide sample needs.
func runSampleSize(text string, output *benchOutput, stdout io.Writer) error {
	epsilon, delta, theta := 0.01, 0.05, 0.0
	errs := readTarget(text, []string{"epsilon", "delta", "theta"}, map[string]*float64{"epsilon": &epsilon, "delta": &delta, "theta": &theta})
	if len(errs) > 0 {
		return usageError(fmt.Errorf("--size: %w", errors.Join(errs...)))
	}
	r := &bench.Result{Name: "stage/oblivious-size", Machine: bench.ThisMachine()}
	// What one question cannot have, another may.
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
		return usageError(fmt.Errorf("--size: %w", errs[len(errs)-1]))
	}
	return output.print(stdout, r)
}
