package forward

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/dataplane/traffic"
)

// Name of the result.
const Name = "forward"

// pdrLoss is the loss that counts as partial, as a share.
const pdrLoss = 0.005

// shares of the NDR at which latency is measured.
var shares = []float64{0.1, 0.5, 0.9}

// Run measures. It needs root, and ends with the context's error when the context ends, with
// everything undone. The result is then of the visits that were complete, and named so; nil if none was.
func Run(ctx context.Context, c Config) (*bench.Result, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := sweep(); err != nil {
		return nil, err
	}
	if c.Ports != PortsVeth {
		return runShared(ctx, &c)
	}
	chosen, err := choose(c.Devices, len(c.Floods) > 0)
	if err != nil {
		return nil, err
	}
	var samples []Sample
	err = onCore(c.Cores.Source, func() error {
		samples, err = visitAll(ctx, &c, chosen)
		return err
	})
	if err != nil && (ctx.Err() == nil || len(samples) == 0) {
		return nil, err
	}
	result := report(&c, samples)
	if err != nil {
		result.Name += fmt.Sprintf(", INCOMPLETE: interrupted after %d of %d visits of a device", len(samples), c.Rounds*len(c.Sizes)*len(chosen))
	}
	return result, err
}

// visitAll goes round: whatever the machine's other users do, they do it to each device.
func visitAll(ctx context.Context, c *Config, chosen []device) (samples []Sample, err error) {
	total := c.Rounds * len(c.Sizes) * len(chosen)
	for round := range c.Rounds {
		for _, size := range c.Sizes {
			for i := range chosen {
				// Each round begins with another device, so that none always follows the same one.
				d := &chosen[(i+round)%len(chosen)]
				label := sizeLabel(size)
				c.Progress.Report(len(samples), total, fmt.Sprintf("round %d: %s, %s", round+1, d.name, label))
				w, err := newWorkload(c, size, uint16(len(samples)+1))
				if err != nil {
					return nil, err
				}
				s := Sample{Round: round + 1, Device: d.name, Size: label, visit: len(samples), visits: total}
				if err := visit(ctx, c, d, w, &s); err != nil {
					return samples, fmt.Errorf("measure %s with %s: %w", d.name, label, err)
				}
				samples = append(samples, s)
				if c.Raw != nil {
					c.Raw(s)
				}
			}
		}
	}
	c.Progress.Report(total, total, "")
	return samples, nil
}

// visit builds a rig, starts the device, measures, and takes all down.
func visit(ctx context.Context, c *Config, d *device, w traffic.Workload, s *Sample) (err error) {
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r, err := newRig(c.Cores, c.Placement, w, dir, len(c.Floods) > 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	weir := c.Weir
	if d.before {
		weir = c.Before
	}
	running, err := d.start(r, deviceOptions{weir: weir, poll: c.Poll, busy: c.BusyPoll, ring: c.Ring, collections: c.Soak > 0})
	if err != nil {
		return err
	}
	defer func() {
		granted, stopErr := running.stop()
		s.Granted, err = granted, errors.Join(err, stopErr)
	}()
	if err := r.start(ctx); err != nil {
		return err
	}
	if err := r.measure(ctx, c, s); err != nil || c.Soak == 0 || s.NDR.Rate == 0 {
		return err
	}
	s.Soak, err = r.soak(ctx, c.Soak, soakShare*s.NDR.Rate, running, func(at time.Duration) {
		c.Progress.Report(s.visit, s.visits, fmt.Sprintf("round %d: %s, %s, soak %v of %v", s.Round, s.Device, s.Size, at, c.Soak))
	})
	return err
}

// measure fills the sample in, from the coarsest figure to the finest.
func (r *rig) measure(ctx context.Context, c *Config, s *Sample) error {
	flood, err := r.offer(ctx, 0, c.Trial)
	if err != nil {
		return err
	}
	s.MRR, s.Offered = flood.got.Rate(), flood.sent.Rate
	s.MRRLimited = flood.loss() < 0.001
	s.CPU = cpuOf(flood, r.cores)
	if len(c.Floods) > 0 {
		return r.floodAll(ctx, c, s)
	}
	if !c.Searches {
		return nil
	}
	find := search{
		trials: c.Trials, precision: c.Precision, floor: 1000,
		trial: func(rate float64) (loss, reached float64, err error) {
			t, err := r.offer(ctx, rate, c.Trial)
			if err != nil {
				return 0, 0, err
			}
			return t.loss(), t.sent.Rate, nil
		},
	}
	if s.PDR, err = find.highest(pdrLoss, max(s.MRR, 2*find.floor)); err != nil {
		return err
	}
	if s.NDR, err = find.highest(0, max(s.PDR.Rate, 2*find.floor)); err != nil {
		return err
	}
	if s.NDR.Rate == 0 {
		return nil
	}
	for _, share := range shares {
		t, err := r.offer(ctx, share*s.NDR.Rate, c.Trial)
		if err != nil {
			return err
		}
		s.Latency = append(s.Latency, delayOf(share, t))
	}
	return nil
}

// conditions says under which a figure was measured.
func conditions(c *Config, granted string) string {
	return strings.TrimSuffix(granted+"; receive work on "+string(c.Placement)+"'s core", "; ")
}
