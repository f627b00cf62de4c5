package paper

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/disketch"
)

// The setup of Section 6.3: one path of five switches, 5,120 counters and 259,000
// packets of background traffic on it in all, and some 300 flows with 1 % of the
// traffic all along it.
const (
	fig14Hops     = 5
	fig14Cells    = 5120
	fig14Packets  = 261_600
	fig14Flows    = 26_160
	fig14Measured = 300
)

// fig14Coarse are the coefficients of variation of traces that the paper does not have.
var fig14Coarse = []float64{0, 0.9, 1.8}

// disketchFig14 measures figure 14: the normalised error along one path, by the
// coefficients of variation of the switches' memories and of their background traffic. On the paper's trace all combinations are measured, on bursty
// traffic and a capture some.
func disketchFig14(ctx context.Context, o Options) ([]Row, error) {
	grid, repeats := []float64{0, 0.3, 0.6, 0.9, 1.2, 1.5, 1.8}, 10
	if o.Quick {
		grid, repeats = []float64{0, 0.6, 1.2, 1.8}, 3
	}
	trace, err := workload.Synthetic{Packets: fig14Packets, Flows: fig14Flows, Seconds: 5, Seed: o.Seed}.Trace()
	if err != nil {
		return nil, err
	}
	var t table
	if err := t.fig14(ctx, o, "", trace, grid, repeats); err != nil {
		return nil, err
	}
	err = t.fig14Traces(ctx, o, repeats)
	return t, err
}

// fig14Traces adds the rows of bursty traffic and of a capture.
func (t *table) fig14Traces(ctx context.Context, o Options, repeats int) error {
	bursty, err := dsBursty(o, fig14Packets)
	if err != nil {
		return err
	}
	realmix, err := dsRealmix(o)
	if err != nil {
		return err
	}
	for _, s := range []struct {
		prefix string
		trace  *workload.Trace
	}{{"bursty.", bursty}, {"realmix.", realmix}} {
		if s.trace == nil {
			o.progress(0, 1, s.prefix+" is not there: see --data")
			continue
		}
		if err := t.fig14(ctx, o, s.prefix, s.trace, fig14Coarse, repeats); err != nil {
			return err
		}
	}
	return nil
}

// fig14 adds the rows of a trace.
func (t *table) fig14(ctx context.Context, o Options, prefix string, trace *workload.Trace, grid []float64, repeats int) error {
	t.add(prefix+"packets", "packets", float64(trace.Len()), trace.Name, "neither")
	won, wonRows, cells := 0, 0, 0
	overN1, coordinated := sample{}, sample{}
	for i, width := range grid {
		for j, load := range grid {
			o.progress(i*len(grid)+j, len(grid)*len(grid), fmt.Sprintf("%sCoV of memory %g, of load %g", prefix, width, load))
			e, err := fig14Cell(ctx, o, trace, width, load, repeats)
			if err != nil {
				return err
			}
			name := strings.ReplaceAll(fmt.Sprintf("width_%.1f.load_%.1f", width, load), "_0.", "_0p")
			name = prefix + strings.ReplaceAll(name, "_1.", "_1p")
			t.add(name+".log10_nrmse.disco", "log10", e.disco, "Fig. 14 shows a heat map", "neither")
			t.add(name+".log10_nrmse.disketch", "log10", e.disketch, "Fig. 14 shows a heat map", "lower")
			low, high := e.all.ratioInterval("disco.rows", "autonomous.checked")
			t.within(name+".improvement", "log10", e.disco-e.disketch, math.Log10(high/low)/2, "Fig. 14 shows a heat map", "higher")
			for _, system := range dsSystems() {
				low, high := e.all.interval(system.name)
				t.within(name+".rmse."+system.name, "packets", e.all.rmse(system.name), (high-low)/2, fmt.Sprintf("%s; 95 %% of %d draws: %.4g to %.4g", system.source, repeats, low, high), "lower")
			}
			t.addRatio(name+".autonomous_over_n1", e.all, "autonomous.checked", "n1.checked", "of the default decoder", "lower")
			t.addRatio(name+".coordinated_over_n1", e.all, "coordinated.checked", "n1.checked", "of the default decoder", "lower")
			overN1, coordinated = append(overN1, e.all.over("autonomous.checked", "n1.checked")), append(coordinated, e.all.over("coordinated.checked", "n1.checked"))
			cells++
			if e.disketch < e.disco {
				won++
			}
			if e.composed < e.disco {
				wonRows++
			}
		}
	}
	for _, r := range []struct {
		name string
		of   sample
	}{{"autonomous_over_n1", overN1}, {"coordinated_over_n1", coordinated}} {
		logs := sample{}
		for _, x := range r.of {
			logs = append(logs, math.Log(x))
		}
		t.add(prefix+r.name, "ratio", slices.Max(r.of), "the worst cell: the largest of many ratios, each of a few draws", "lower")
		t.add(prefix+r.name+"_mean", "ratio", math.Exp(logs.mean()), "geometric mean of the cells", "lower")
	}
	for _, c := range []struct {
		metric, source string
		won            int
	}{{"cells_won", "DiSketch Fig. 14", won}, {"cells_won_rows", "the same by the paper's composition", wonRows}} {
		share := float64(c.won) / float64(cells)
		t.against(prefix+c.metric, "ratio", share, 1, c.source, "higher")
		t.add(prefix+c.metric+".ci95", "ratio", shareHalf(share, float64(cells)), fmt.Sprintf("half the 95 %% confidence interval (Wilson) of %d cells, as if they were independent", cells), "neither")
	}
	return nil
}

// fig14Errors are logarithms of normalised errors.
type fig14Errors struct {
	disco, disketch, composed float64
	all                       dsErrors
}

// fig14Cell is the mean over draws of memories, loads and flows.
func fig14Cell(ctx context.Context, o Options, trace *workload.Trace, width, load float64, repeats int) (fig14Errors, error) {
	all := dsErrors{}
	for i := range uint64(repeats) {
		d := fig14Drawn(o.Seed, i, trace, width, load)
		p, err := d.traffic.placed(ctx, disketch.CountSketch, d.memory, i, o.runs(4000)/2, fig14Wanted, false)
		if err != nil {
			return fig14Errors{}, err
		}
		for name, estimate := range p.estimate {
			all[name] = append(all[name], d.traffic.squares(estimate, fig14Hops))
		}
	}
	normalised := func(squares float64) float64 {
		return math.Log10(math.Sqrt(squares) / float64(trace.Len()))
	}
	return fig14Errors{normalised(all["disco.rows"].mean()), normalised(all["autonomous.checked"].mean()), normalised(all["autonomous.rows"].mean()), all}, nil
}

// fig14Draw is a draw of memories, loads and flows.
type fig14Draw struct {
	memory  []int
	traffic *dsTraffic
}

func fig14Drawn(seed, draw uint64, trace *workload.Trace, width, load float64) fig14Draw {
	r := rand.New(rand.NewPCG(seed, draw))
	memory := make([]int, fig14Hops)
	for h, share := range varied(r, fig14Hops, width) {
		memory[h] = max(int(share*fig14Cells)*4, 4)
	}
	return fig14Draw{memory, fig14Traffic(r, trace, varied(r, fig14Hops, load))}
}

// fig14Wanted says of the measured flows that they are asked about.
func fig14Wanted(f *dsFlow) bool { return len(f.path) == fig14Hops }

// fig14Traffic sends the measured flows all along the path, and each other flow
// through one switch, so that the switches' packets are as the shares say.
func fig14Traffic(r *rand.Rand, trace *workload.Trace, shares []float64) *dsTraffic {
	t := &dsTraffic{trace: trace.Name, flows: make([]dsFlow, len(trace.Flows)), packets: trace.Len(), hops: fig14Hops}
	all := make([]uint64, fig14Hops)
	for h := range all {
		all[h] = uint64(h)
	}
	var load [fig14Hops]float64
	for k, i := range r.Perm(len(t.flows)) {
		f := &t.flows[i]
		f.hash, f.packets = trace.Flows[i].Hash, float64(trace.Flows[i].Packets)
		if k < fig14Measured {
			f.path = all
			continue
		}
		// The switch that lacks most of its share.
		least, at := math.Inf(1), 0
		for h, share := range shares {
			if filled := (load[h] + f.packets) / max(share, 1e-9); filled < least {
				least, at = filled, h
			}
		}
		load[at] += f.packets
		f.path = all[at : at+1]
	}
	for e := range t.at {
		t.at[e] = make([][]dsPacket, fig14Hops)
	}
	for i := range trace.Len() {
		p := trace.At(i)
		at := min(int64(float64(p.TimeNs)/float64(trace.DurationNs)*(dsWindow<<16)), dsWindow<<16-1)
		for _, h := range t.flows[p.Flow].path {
			s := &t.at[at>>16][h]
			*s = append(*s, dsPacket{p.Flow, uint32(at & 0xffff)})
		}
	}
	return t
}

// varied draws n shares that add up to 1, with the coefficient of variation.
func varied(r *rand.Rand, n int, cov float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = r.Float64()
	}
	// With the largest at 1, no power makes all of them vanish.
	largest := slices.Max(x)
	for i := range x {
		x[i] /= largest
	}
	low, high := 0.0, 1e6
	for range 60 {
		p := (low + high) / 2
		if variation(powers(x, p)) < cov {
			low = p
		} else {
			high = p
		}
	}
	x = powers(x, low)
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	for i := range x {
		x[i] /= sum
	}
	// Powers keep the order; shares are dealt at random.
	r.Shuffle(n, func(i, j int) { x[i], x[j] = x[j], x[i] })
	return x
}

// variation is the standard deviation over the mean.
func variation(x []float64) float64 {
	mean := sample(x).mean()
	sum := 0.0
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum/float64(len(x))) / mean
}
