package forward

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirswitch/weir/bench"
)

// report turns samples into rows: each device's figures, then the ratios.
func report(c *Config, samples []Sample) *bench.Result {
	r := &bench.Result{Name: Name, Seed: c.Seed, Machine: bench.ThisMachine()}
	for _, size := range c.Sizes {
		group := collect(samples, sizeLabel(size))
		for _, name := range Devices() {
			if s := group[name]; len(s) > 0 {
				addFigures(r, c, s)
			}
		}
		addRatios(r, group)
	}
	return r
}

// collect gives the samples of one size by device.
func collect(samples []Sample, size string) map[string][]Sample {
	group := map[string][]Sample{}
	for _, s := range samples {
		if s.Size == size {
			group[s.Device] = append(group[s.Device], s)
		}
	}
	return group
}

// figures are what a device is measured by. Those that searches alone give are left out without them.
type figure struct {
	name, unit, better string
	searched           bool
	of                 func(*Sample) float64
}

var (
	mrr = figure{"mrr", "pps", bench.Higher, false, func(s *Sample) float64 { return s.MRR }}
	pdr = figure{"pdr", "pps", bench.Higher, true, func(s *Sample) float64 { return s.PDR.Rate }}
	ndr = figure{"ndr", "pps", bench.Higher, true, func(s *Sample) float64 { return s.NDR.Rate }}
)

func latency(share float64, quantile string, of func(*Delay) float64) figure {
	return figure{fmt.Sprintf("latency_%s_at_%.0f", quantile, share*100), "ns", bench.Lower, true, func(s *Sample) float64 {
		for i := range s.Latency {
			if s.Latency[i].Share == share {
				return of(&s.Latency[i])
			}
		}
		return 0
	}}
}

var halfNDR = latency(0.5, "p50", func(d *Delay) float64 { return d.P50 })

// allFigures in the order of the table.
func allFigures() []figure {
	list := []figure{
		mrr,
		{"mrr_offered", "pps", bench.Neither, false, func(s *Sample) float64 { return s.Offered }},
		{"cpu", "ns/packet", bench.Lower, false, func(s *Sample) float64 { return s.CPU.User + s.CPU.System + s.CPU.Softirq }},
		{"cpu_user", "ns/packet", bench.Neither, false, func(s *Sample) float64 { return s.CPU.User }},
		{"cpu_system", "ns/packet", bench.Neither, false, func(s *Sample) float64 { return s.CPU.System }},
		{"cpu_softirq", "ns/packet", bench.Neither, false, func(s *Sample) float64 { return s.CPU.Softirq }},
		{"cpu_with_source", "ns/packet", bench.Lower, false, func(s *Sample) float64 { return s.CPU.Total }},
		{"stolen", "share", bench.Lower, false, func(s *Sample) float64 { return s.CPU.Steal }},
		pdr, ndr,
	}
	for _, share := range shares {
		list = append(list,
			latency(share, "p50", func(d *Delay) float64 { return d.P50 }),
			latency(share, "p99", func(d *Delay) float64 { return d.P99 }),
			latency(share, "p999", func(d *Delay) float64 { return d.P999 }))
	}
	return list
}

// validOf returns the rounds that are results. Where none is, it returns all, and why the first is not.
func validOf(samples []Sample) (_ []Sample, invalid string) {
	if valid := slices.DeleteFunc(slices.Clone(samples), func(s Sample) bool { return s.Invalid() != "" }); len(valid) > 0 {
		return valid, ""
	}
	return samples, samples[0].Invalid()
}

// addFigures adds each figure's median over the rounds, and for rates the spread.
func addFigures(r *bench.Result, c *Config, samples []Sample) {
	base := samples[0].Device + "." + samples[0].Size + "."
	samples, invalid := validOf(samples)
	source := conditions(c, samples[0].Granted)
	addSoak(r, base, samples)
	addFloods(r, base, samples)
	for _, f := range allFigures() {
		if f.searched && !c.Searches {
			continue
		}
		values := valuesOf(f, samples)
		note := source
		if limited(f, samples) {
			note += "; " + bench.SourceLimited
		}
		r.Add(base+f.name, f.unit, median(values), note, f.better)
		r.Rows[len(r.Rows)-1].Invalid = invalid
		if f.unit == "pps" && f.better == bench.Higher && len(values) > 1 {
			r.Add(base+f.name+"_spread", "ratio", spread(values), fmt.Sprintf("(largest - smallest) / median of %d rounds", len(values)), bench.Lower)
		}
	}
}

// limited reports whether in any round the source, not the device, set the figure.
func limited(f figure, samples []Sample) bool {
	return slices.ContainsFunc(samples, func(s Sample) bool {
		switch f.name {
		case mrr.name:
			return s.MRRLimited
		case ndr.name:
			return s.NDR.SourceLimited
		case pdr.name:
			return s.PDR.SourceLimited
		}
		// Latency is at a share of the NDR.
		return strings.HasPrefix(f.name, "latency_") && s.NDR.SourceLimited
	})
}

func valuesOf(f figure, samples []Sample) []float64 {
	values := make([]float64, len(samples))
	for i := range samples {
		values[i] = f.of(&samples[i])
	}
	return values
}

// median of at least one value; of an even number, the middle between the two middle ones.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func spread(values []float64) float64 {
	m := median(values)
	if m == 0 {
		return 0
	}
	return (slices.Max(values) - slices.Min(values)) / m
}
