package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/dataplane/traffic"
	"github.com/weirswitch/weir/dataplane/xsk"
)

// WireSizes are the frame sizes of RFC 2544, section 9.1, for Ethernet: bytes with frame check sequence.
var WireSizes = []int{64, 128, 256, 512, 1024, 1280, 1518}

// Wire is a measurement of a device that is the user's own, between two interfaces of this machine, in the manner of
// RFC 2544: throughput (26.1), latency (26.2), frame loss rate (26.3) and back-to-back frames (26.4), with the
// corrections of RFC 9004 and the percentiles of RFC 8219.
type Wire struct {
	// TX and RX are the interfaces, to the device's two ports. Namespaces are "" for this one.
	TX, RX                   string
	TXNamespace, RXNamespace string
	Core                     int // of source and sink; traffic.AnyCore: any
	// Sizes in bytes with frame check sequence; empty: WireSizes.
	Sizes []int
	// Trial is how long a trial lasts: 60 s by RFC 2544. Trials at one rate, at most; odd.
	Trial     time.Duration
	Trials    int
	Precision float64
	Flows     int
	Seed      uint64
	// Rounds over all sizes: with bench.EnoughRuns two reports can be compared with confidence.
	Rounds int
	// DestinationMAC is what the device forwards by, or its own as a router; nil: RX's, as a bridge has it.
	DestinationMAC net.HardwareAddr
	// SourceNet and DestinationNet are the networks of the flows' addresses; invalid: 198.18.0.0/16 and 198.19.0.0/16.
	SourceNet, DestinationNet netip.Prefix
	// Speed is the link's, in bits per second; 0: what TX says.
	Speed uint64
	// Progress is called for each step.
	Progress bench.Progress
	// Device, Weir and Command are for the report: what the device is, which program measures, and by which command line.
	Device, Weir, Command string
}

// DefaultWire takes about ten minutes.
func DefaultWire() Wire {
	return Wire{Core: traffic.AnyCore, Sizes: slices.Clone(WireSizes), Trial: 2 * time.Second, Trials: 3, Precision: 0.01, Flows: 256, Seed: 1, Rounds: 1}
}

// Quick takes about a minute.
func (c *Wire) Quick() {
	c.Sizes, c.Trial, c.Trials, c.Precision = []int{64, 512, 1518}, 200*time.Millisecond, 1, 0.05
}

// Validate reports all faults, joined.
func (c *Wire) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.TX == "" || c.RX == "" {
		fail("--tx and --rx: name the two interfaces that the device is connected to (ip link shows what there is)")
	} else if c.TX == c.RX && c.TXNamespace == c.RXNamespace {
		fail("--rx %s: that is --tx, too: name the interface where packets come back", c.RX)
	}
	for _, size := range c.Sizes {
		if size < 64 || size > 9018 {
			fail("--size %d: choose 64 to 9018 bytes, with frame check sequence", size)
		}
	}
	if c.Trial < 10*time.Millisecond || c.Trial > time.Hour {
		fail("--duration %v: choose 10ms to 1h", c.Trial)
	}
	if c.Trials < 1 || c.Trials > 99 || c.Trials%2 == 0 {
		fail("--trials %d: choose an odd number up to 99", c.Trials)
	}
	if !(c.Precision >= 0.001 && c.Precision <= 0.5) {
		fail("--precision %g: choose 0.001 to 0.5", c.Precision)
	}
	if c.Rounds < 1 || c.Rounds > 1000 {
		fail("--rounds %d: choose 1 to 1000", c.Rounds)
	}
	if c.Flows < 1 || c.Flows > traffic.MaxFlows {
		fail("--flows %d: choose 1 to %d", c.Flows, traffic.MaxFlows)
	}
	return errors.Join(errs...)
}

// sizes are those to measure.
func (c *Wire) sizes() []int {
	if len(c.Sizes) == 0 {
		return WireSizes
	}
	return c.Sizes
}

// What RFC 2544 asks for: the length of a trial (section 24) and of one of latency (26.2), and how many bursts are averaged (26.4).
const (
	rfcTrial        = 60 * time.Second
	rfcLatencyTrial = 120 * time.Second
	rfcBursts       = 50
)

// departures are where the trials fall short of RFC 2544.
func (c *Wire) departures() []string {
	var all []string
	if c.Trial < rfcTrial {
		all = append(all, fmt.Sprintf("trials last %v, not %v (section 24)", c.Trial, rfcTrial))
	}
	if missing := slices.DeleteFunc(slices.Clone(WireSizes), func(size int) bool { return slices.Contains(c.sizes(), size) }); len(missing) > 0 {
		all = append(all, fmt.Sprintf("%d of the %d frame sizes are left out (9.1)", len(missing), len(WireSizes)))
	}
	if c.Precision > 0.01 {
		all = append(all, fmt.Sprintf("the search for the throughput ends at %g %%", 100*c.Precision))
	}
	if c.Trial < rfcLatencyTrial || c.Rounds < 20 {
		all = append(all, fmt.Sprintf("latency is of %v in one trial a round, not of %v in each of 20 (26.2)", c.Trial, rfcLatencyTrial))
	}
	return append(all, fmt.Sprintf("the longest burst is the mean of %d, not of %d (26.4)", burstTrials, rfcBursts))
}

// WireInterface is one of the two interfaces.
type WireInterface struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Driver    string `json:"driver"` // empty: unknown
	Version   string `json:"driver_version,omitempty"`
	Firmware  string `json:"firmware,omitempty"`
	Bus       string `json:"bus,omitempty"` // its address there
	MTU       int    `json:"mtu"`
}

// Look reads TX and RX, in this order. A size that they do not carry is an error.
func (c *Wire) Look() ([]WireInterface, error) {
	var all []WireInterface
	var errs []error
	for _, end := range []struct{ namespace, name string }{{c.TXNamespace, c.TX}, {c.RXNamespace, c.RX}} {
		port, err := traffic.OpenPort(end.namespace, end.name, c.Core)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if err = port.Carries(slices.Max(c.sizes()), false); err != nil {
			err = fmt.Errorf("--size: %w", err)
		}
		w := WireInterface{Name: end.name, Namespace: end.namespace}
		errs = append(errs, err, port.Namespace.Do(func() error {
			i, err := nic.Look(end.name)
			if err == nil {
				w.Driver, w.Version, w.Firmware, w.Bus, w.MTU = i.Driver, i.Version, i.Firmware, i.Bus, i.MTU
			}
			return err
		}))
		port.Namespace.Close()
		all = append(all, w)
	}
	return all, errors.Join(errs...)
}

// WireReport is what a device was found to do.
type WireReport struct {
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	TX      string    `json:"tx"`
	RX      string    `json:"rx"`
	// Device is what the user calls it; empty: nothing. Weir is the version that measured, Command its command line.
	Device  string `json:"device,omitempty"`
	Weir    string `json:"weir,omitempty"`
	Command string `json:"command,omitempty"`
	// Interfaces are TX and RX.
	Interfaces []WireInterface `json:"interfaces"`
	Speed      uint64          `json:"speed_bps"` // of the link; 0: unknown
	Trial      float64         `json:"trial_seconds"`
	Trials     int             `json:"trials"`
	Flows      int             `json:"flows"`
	Machine    bench.Machine   `json:"machine"`
	// Activity is what the machine did beside the measurement.
	Activity Activity `json:"activity"`
	// Precision is the ratio at which the search for the throughput ends, minus 1.
	Precision float64 `json:"precision"`
	// Departures are where the trials fall short of RFC 2544; empty: nowhere.
	Departures []string `json:"departures_from_rfc2544,omitempty"`
	// Incomplete says how much is there of a measurement that was interrupted; empty: all.
	Incomplete string `json:"incomplete,omitempty"`
	// Sizes are what was found: of several rounds, for each size the one whose throughput is the median of those that are a result.
	Sizes []WireSize `json:"sizes"`
	// Rounds are all of them, where there are several; empty: Sizes is the one.
	Rounds [][]WireSize `json:"rounds,omitempty"`
}

// WireSize is what was found with frames of one size. Rates are in frames per second.
type WireSize struct {
	Size    int     `json:"size"`     // bytes with frame check sequence
	Source  string  `json:"source"`   // what sent: "live-frames", or "af_xdp" with its mode where these do not arrive
	Line    float64 `json:"line_fps"` // what the link carries at most; 0: unknown
	Offered float64 `json:"offered_fps"`
	// MRR is what arrived of Offered, the most that the source can send.
	MRR float64 `json:"mrr_fps"`
	// Throughput is the highest rate without loss (RFC 2544, 26.1); Limited: the source, not the device, sets it.
	Throughput float64 `json:"throughput_fps"`
	Limited    bool    `json:"source_limited"`
	// Loss is the share lost by rate, downwards in steps of a tenth of Offered, and below 1.2 times MRR of MRR, until two in succession lose nothing (26.3).
	Loss []LossPoint `json:"loss"`
	// Latency at shares of Throughput (26.2, and the percentiles of RFC 8219, 7.2 and 7.3).
	Latency []WireLatency `json:"latency"`
	// Burst is the longest burst at the source's full rate of which nothing is lost, the mean of BurstTrials (26.4);
	// BurstLimited: none was too long. BurstRate is the mean rate at which the source sent these bursts. RFC 9004, section 6.4, takes
	// bursts at the line's rate for granted; BufferFrames, how many frames the device holds, and BufferNs, how long a burst of BurstRate
	// takes to fill it, are by the rate that was measured, and less what the device forwards meanwhile.
	Burst        float64 `json:"burst_frames"`
	BurstRate    float64 `json:"burst_fps"`
	BurstTrials  int     `json:"burst_trials"`
	BurstLimited bool    `json:"burst_source_limited"`
	// BurstLeast and BurstMost are the shortest and the longest of the BurstTrials.
	BurstLeast   float64 `json:"burst_least_frames"`
	BurstMost    float64 `json:"burst_most_frames"`
	BufferFrames float64 `json:"buffer_frames"`
	BufferNs     float64 `json:"buffer_ns"`
	// Duplicated and Reordered were seen at Throughput.
	Duplicated uint64 `json:"duplicated"`
	Reordered  uint64 `json:"reordered"`
	// Invalid says why the figures are no result; empty: they are one.
	Invalid string `json:"invalid,omitempty"`
	// Activity is what the machine did beside this measurement. Busy: others took so much that the figures may be too low.
	Activity Activity `json:"activity"`
	Busy     bool     `json:"busy,omitempty"`
	// Rounds is of how many rounds that are a result this one is the median, Low and High the least and highest throughput of
	// these; 0: there was one round.
	Rounds int     `json:"rounds,omitempty"`
	Low    float64 `json:"throughput_low_fps,omitempty"`
	High   float64 `json:"throughput_high_fps,omitempty"`
}

// LossPoint is the share of frames lost at a rate.
type LossPoint struct {
	Rate float64 `json:"fps"`
	Loss float64 `json:"loss"`
}

// WireLatency is the latency in ns at a rate, of all frames. PDV is the packet delay variation, P999 less Least. Times are absent where no
// frame arrived.
type WireLatency struct {
	Share float64 `json:"share"` // of the throughput
	Rate  float64 `json:"fps"`
	Loss  float64 `json:"loss"`
	Least float64 `json:"min_ns,omitempty"`
	P50   float64 `json:"p50_ns,omitempty"`
	P99   float64 `json:"p99_ns,omitempty"`
	P999  float64 `json:"p999_ns,omitempty"`
	Most  float64 `json:"max_ns,omitempty"`
	PDV   float64 `json:"pdv_ns,omitempty"`
}

// measured reports whether any frame arrived.
func (l *WireLatency) measured() bool { return l.P99 > 0 }

const (
	lossSteps   = 10
	burstTrials = 5
	leastBurst  = 32               // frames of the first burst
	mostBurst   = 2_000_000        // frames: two seconds at a million per second
	ifgAndFCS   = 20               // bytes of preamble, start and gap between frames
	linkWait    = 5 * time.Second  // drivers renegotiate their link after an XDP program was attached
	forwardWait = 40 * time.Second // a bridge with the spanning tree protocol forwards after 30
)

// RunWire measures. When ctx ends it returns its error with the report of what was complete by then, nil if nothing was. It needs root. The device must forward what arrives from TX to RX and back.
func RunWire(ctx context.Context, c Wire) (*WireReport, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Sizes = c.sizes()
	ends, err := c.Look()
	if err != nil {
		return nil, err
	}
	r := &WireReport{Device: c.Device, Weir: c.Weir, Command: c.Command, Interfaces: ends, Began: time.Now().UTC(), TX: c.TX, RX: c.RX, Trial: c.Trial.Seconds(), Trials: c.Trials, Precision: c.Precision, Departures: c.departures(), Flows: c.Flows, Machine: bench.ThisMachine(), Speed: c.Speed}
	whole, err := watchMachine()
	if err != nil {
		return nil, err
	}
	conclude := func() (err error) {
		r.conclude()
		r.Seconds = time.Since(r.Began).Seconds()
		r.Activity, err = whole.end()
		return err
	}
	steps := c.Rounds * len(c.Sizes)
	for round := range c.Rounds {
		var sizes []WireSize
		for i, size := range c.Sizes {
			n := round*len(c.Sizes) + i
			step := func(what string) {
				if c.Rounds > 1 {
					what = fmt.Sprintf("round %d of %d: %s", round+1, c.Rounds, what)
				}
				c.Progress.Report(n, steps, fmt.Sprintf("%d B: %s", size, what))
			}
			s, err := c.measureSize(ctx, size, uint16(n+1), r, step)
			if err != nil {
				err = fmt.Errorf("frames of %d bytes: %w", size, err)
				if ctx.Err() == nil || n == 0 {
					return nil, err
				}
				if len(sizes) > 0 {
					r.Rounds = append(r.Rounds, sizes)
				}
				r.Incomplete = fmt.Sprintf("interrupted after %d of %d measurements of a frame size", n, steps)
				return r, errors.Join(err, conclude())
			}
			sizes = append(sizes, *s)
		}
		r.Rounds = append(r.Rounds, sizes)
	}
	err = conclude()
	c.Progress.Report(steps, steps, "")
	return r, err
}

// conclude chooses for each size the round that is reported.
func (r *WireReport) conclude() {
	if len(r.Rounds) == 1 {
		r.Sizes, r.Rounds = r.Rounds[0], nil
		return
	}
	for i := range r.Rounds[0] {
		var good []WireSize
		for _, round := range r.Rounds {
			if i < len(round) && round[i].Invalid == "" { // an interrupted round has fewer
				good = append(good, round[i])
			}
		}
		if len(good) == 0 {
			r.Sizes = append(r.Sizes, r.Rounds[0][i])
			continue
		}
		slices.SortStableFunc(good, func(a, b WireSize) int { return cmp.Compare(a.Throughput, b.Throughput) })
		s := good[(len(good)-1)/2]
		s.Rounds, s.Low, s.High = len(good), good[0].Throughput, good[len(good)-1].Throughput
		r.Sizes = append(r.Sizes, s)
	}
}

// NoResult is an error where no frame size has a figure that is a result.
func (r *WireReport) NoResult() error {
	for i := range r.Sizes {
		if r.Sizes[i].Invalid == "" {
			return nil
		}
	}
	return errors.New("no frame size has a result, all are INVALID: see the remarks; measure again on a quiet machine, with longer trials (--duration) or the median of several --rounds")
}

// Runs are the figures of each round, to compare with those of another report. Values of rounds that are no result are left out, and such rounds counted.
func (r *WireReport) Runs() (all []bench.Runs, invalid int) {
	rounds := r.Rounds
	if len(rounds) == 0 {
		rounds = [][]WireSize{r.Sizes}
	}
	index := map[string]int{}
	for _, sizes := range rounds {
		for i := range sizes {
			s := &sizes[i]
			add := func(name, unit, better string, value float64, limited bool) {
				metric := fmt.Sprintf("%dB.%s", s.Size, name)
				i, ok := index[metric]
				if !ok {
					i = len(all)
					index[metric] = i
					all = append(all, bench.Runs{Metric: metric, Unit: unit, Better: better})
				}
				all[i].Add(value, limited, s.Invalid != "")
			}
			if s.Invalid != "" {
				invalid++
			}
			add("throughput", "fps", bench.Higher, s.Throughput, s.Limited)
			add("mrr", "fps", bench.Higher, s.MRR, s.mrrLimited())
			add("burst", "frames", bench.Higher, s.Burst, s.BurstLimited)
			for j := range s.Latency {
				l := &s.Latency[j]
				if !l.measured() {
					continue
				}
				at, limited := fmt.Sprintf("_at_%.0f", 100*l.Share), s.latencyLimited(l)
				add("latency_p50"+at, "ns", bench.Lower, l.P50, limited)
				add("latency_p99"+at, "ns", bench.Lower, l.P99, limited)
				add("latency_p999"+at, "ns", bench.Lower, l.P999, limited)
			}
		}
	}
	return all, invalid
}

// mrrLimited reports that nearly all of what the source sent at its most arrived, and that the line would carry more.
func (s *WireSize) mrrLimited() bool {
	return s.MRR >= limitedBelow*s.Offered && (s.Line == 0 || s.Offered < limitedBelow*s.Line)
}

// latencyLimited reports that the source set the rate at which a latency was measured: it is a share of a throughput that the source limits, or
// the source did not reach it.
func (s *WireSize) latencyLimited(l *WireLatency) bool {
	return s.Limited || l.Rate < leastReached*l.Share*s.Throughput
}

// workload is what is sent: as the user's device expects it.
func (c *Wire) workload(size int, run uint16, rx net.HardwareAddr) (traffic.Workload, error) {
	w := traffic.DefaultWorkload()
	w.Sizes, w.Flows, w.Seed, w.Run = []int{size}, c.Flows, c.Seed, run
	w.Destination.MAC = rx
	if c.DestinationMAC != nil {
		w.Destination.MAC = c.DestinationMAC
	}
	if c.SourceNet.IsValid() {
		w.Source.Net = c.SourceNet
	}
	if c.DestinationNet.IsValid() {
		w.Destination.Net = c.DestinationNet
	}
	return w, w.Validate()
}

// openRig opens source and sink on the user's interfaces, and sees whether the device forwards.
func (c *Wire) openRig(ctx context.Context, size int, run uint16, speed *uint64) (_ *rig, err error) {
	tx, err := traffic.OpenPort(c.TXNamespace, c.TX, c.Core)
	if err != nil {
		return nil, err
	}
	r := &rig{left: tx.Namespace, tx: &tx}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	rx, err := traffic.OpenPort(c.RXNamespace, c.RX, c.Core)
	if err != nil {
		return nil, err
	}
	r.right, r.rx = rx.Namespace, &rx
	if *speed == 0 {
		_ = tx.Namespace.Do(func() (err error) { *speed, err = nic.Speed(c.TX); return err }) // unknown: no line rate is shown
	}
	own, err := tx.Namespace.MAC(c.TX)
	if err != nil {
		return nil, err
	}
	far, err := rx.Namespace.MAC(c.RX)
	if err != nil {
		return nil, err
	}
	if r.workload, err = c.workload(size, run, far); err != nil {
		return nil, err
	}
	r.workload.Source.MAC = own
	if r.sink, err = traffic.NewXDPSink(rx, r.workload, traffic.SinkOptions{Duplicates: true}, false); err != nil {
		return nil, err
	}
	// Live frames also where nothing takes them yet: the device may be about to begin. What they cannot hold is sent in another way.
	live, err := traffic.NewLiveSource(tx, r.workload)
	if r.source = live; err != nil {
		if r.source, err = traffic.NewSource("", tx, 0, r.workload); err != nil {
			return nil, err
		}
	}
	return r, r.forwards(ctx)
}

// linked reports an interface that is still without link after the time for which drivers may drop it when an XDP program is attached.
func (r *rig) linked(after time.Duration) error {
	if after < linkWait {
		return nil
	}
	for _, p := range []*traffic.Port{r.tx, r.rx} {
		err := p.Namespace.Do(func() error {
			i, err := nic.Look(p.Interface)
			if err == nil && !i.Up {
				err = fmt.Errorf("%s: %s", p.Interface, i.NoLink())
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// forwards sends a few packets until some arrive: the device may have to learn addresses first. It sends them by turns as live frames and
// through an AF_XDP socket, since a veth whose far end has neither an XDP program nor generic receive offload takes no live frames. The source
// of which packets arrive stays.
func (r *rig) forwards(ctx context.Context) (err error) {
	sources := []traffic.Source{r.source}
	defer func() {
		for _, s := range sources {
			if s != r.source {
				err = errors.Join(err, s.Close())
			}
		}
	}()
	began := time.Now()
	for {
		if err := r.linked(time.Since(began)); err != nil {
			return err
		}
		for _, s := range sources {
			r.source = s
			t, err := r.offer(ctx, 2000, 50*time.Millisecond)
			if err != nil {
				return err
			}
			if t.got.Unique() > 0 {
				return nil
			}
		}
		if len(sources) == 1 {
			if s, err := traffic.NewXSKSource(*r.tx, 0, r.workload, xsk.Auto); err == nil {
				sources = append(sources, s)
				continue
			}
		}
		if time.Since(began) > forwardWait {
			return fmt.Errorf("nothing that %s sends arrives at %s: see that the device forwards (a bridge with spanning tree begins after 30 s), that both links are up, and that --dst-mac and --dst-net are what it forwards", r.tx.Interface, r.rx.Interface)
		}
	}
}

func (c *Wire) measureSize(ctx context.Context, size int, run uint16, report *WireReport, step func(string)) (_ *WireSize, err error) {
	step("the device is looked for")
	r, err := c.openRig(ctx, size, run, &report.Speed)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	began, err := watchMachine()
	if err != nil {
		return nil, err
	}
	s := &WireSize{Size: size, Source: r.source.Name()}
	if report.Speed != 0 {
		s.Line = float64(report.Speed) / (8 * float64(size+ifgAndFCS))
	}
	most := s.Line // a source that is faster than the line would measure the line
	step("the most that arrives")
	flood, err := r.offer(ctx, most, c.Trial)
	if err != nil {
		return nil, err
	}
	s.MRR, s.Offered = flood.arrived(), flood.sent.Rate
	step("throughput")
	find := search{trials: c.Trials, precision: c.Precision, floor: 100, fastest: s.Offered, trial: func(rate float64) (loss, reached float64, err error) {
		t, err := r.offer(ctx, rate, c.Trial)
		if err != nil {
			return 0, 0, err
		}
		s.Duplicated, s.Reordered = t.got.Duplicates, t.got.Reordered
		return t.loss(), t.sent.Rate, nil
	}}
	ndr, err := find.highest(0, max(min(s.MRR, s.Offered), 2*find.floor))
	if err != nil {
		return nil, err
	}
	s.Throughput, s.Limited = ndr.Rate, ndr.SourceLimited
	if s.Line > 0 && s.Throughput > s.Line {
		s.Throughput = s.Line
	}
	step("loss by rate")
	lossless := 0
	for _, rate := range s.lossRates(find.floor) {
		t, err := r.offer(ctx, rate, c.Trial)
		if err != nil {
			return nil, err
		}
		s.Loss = append(s.Loss, LossPoint{t.sent.Rate, t.loss()})
		if lossless++; t.loss() > 0 {
			lossless = 0
		}
		if lossless == 2 {
			break
		}
	}
	s.sortLoss()
	s.reached(flood.sent.Rate, flood.loss())
	if s.Throughput > 0 {
		step("latency")
		for _, share := range []float64{0.1, 0.5, 0.9, 1} {
			l, err := leastLoss(func() (WireLatency, error) {
				t, err := r.offer(ctx, share*s.Throughput, c.Trial)
				if err != nil {
					return WireLatency{}, err
				}
				return wireLatency(share, t), nil
			})
			if err != nil {
				return nil, err
			}
			s.Latency = append(s.Latency, l)
		}
	}
	step("back-to-back frames")
	if err := c.bursts(ctx, r, s); err != nil {
		return nil, err
	}
	s.judge()
	s.Activity, err = began.end()
	s.Busy = s.Activity.Busy()
	return s, err
}

// lossRates are the rates at which loss is measured, downwards: steps of a tenth of what the source can send to little above what arrives of
// it, and of a tenth of what arrives from there on. With steps of the source's rate alone the curve of a device that is ten times slower would not
// come near 0. least is the lowest rate that is tried.
func (s *WireSize) lossRates(least float64) []float64 {
	const above = 1.2 // of what arrives, down to which a step is of the source's rate
	var all []float64
	for i := lossSteps; i > 0; i-- {
		if rate := s.Offered * float64(i) / lossSteps; i == lossSteps || rate > above*s.MRR {
			all = append(all, rate)
		}
	}
	last := all[len(all)-1]
	for i := lossSteps + 2; i > 0; i-- {
		if rate := s.MRR * float64(i) / lossSteps; rate <= 0.95*last && rate >= least {
			all = append(all, rate)
			last = rate
		}
	}
	return all
}

// sortLoss orders the points from the highest rate that was sent: a source that was held up sent less than at the step after.
func (s *WireSize) sortLoss() {
	slices.SortStableFunc(s.Loss, func(a, b LossPoint) int { return cmp.Compare(b.Rate, a.Rate) })
}

// reached takes the highest rate of any trial without loss as the throughput, where the source is the limit: a machine that holds the source
// up lets some trials reach less than others. rate and loss are those of the full load.
func (s *WireSize) reached(rate, loss float64) {
	if !s.Limited {
		return
	}
	for _, p := range append(s.Loss, LossPoint{rate, loss}) {
		if p.Loss == 0 {
			s.Throughput = max(s.Throughput, p.Rate)
		}
	}
	if s.Line > 0 {
		s.Throughput = min(s.Throughput, s.Line)
	}
}

// arrived is the rate at which frames arrived, in frames per second. The time is that of sending where arrivals end before it: a device that
// forwards a few frames of a full load, and then none, does not forward at the rate of these.
func (t *trial) arrived() float64 {
	rate := t.got.Rate()
	if sending := t.sent.Elapsed.Seconds(); sending > 0 {
		rate = min(rate, float64(t.got.Unique())/sending)
	}
	return rate
}

// leastLoss makes a trial of latency, and again where it lost more than [pdrLoss], as often as a trial of the throughput is: the machine may have
// been held up. The trial that lost least is the result.
func leastLoss(trial func() (WireLatency, error)) (best WireLatency, err error) {
	for again := 0; ; again++ {
		l, err := trial()
		if err != nil {
			return l, err
		}
		if again == 0 || l.Loss < best.Loss {
			best = l
		}
		if best.Loss <= pdrLoss || again == heldUp {
			return best, nil
		}
	}
}

func wireLatency(share float64, t *trial) WireLatency {
	h := t.got.Latency
	l := WireLatency{Share: share, Rate: t.sent.Rate, Loss: t.loss()}
	if h.TotalCount() == 0 {
		return l
	}
	quantile := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) }
	l = WireLatency{Share: l.Share, Rate: l.Rate, Loss: l.Loss, Least: float64(h.Min()), P50: quantile(50), P99: quantile(99), P999: quantile(99.9), Most: float64(h.Max())}
	l.PDV = l.P999 - l.Least
	return l
}

// bursts finds the longest burst without loss, by bisection, several times.
func (c *Wire) bursts(ctx context.Context, r *rig, s *WireSize) error {
	longest := uint64(mostBurst)
	if n := uint64(s.Offered * c.Trial.Seconds()); n < longest {
		longest = max(n, 2)
	}
	rate := 0.0 // of the last burst without loss
	whole := func(n uint64) (bool, error) {
		for range 2 { // The machine may have been held up once.
			t, err := r.burst(ctx, n)
			if err != nil {
				return false, err
			}
			select {
			case <-ctx.Done():
				return false, ctx.Err()
			case <-time.After(recovery(n, s.Throughput)):
			}
			if t.loss() == 0 {
				rate = t.sent.Rate
				return true, nil
			}
		}
		return false, nil
	}
	frames, rates := 0.0, 0.0
	first, growth := min(leastBurst, longest), uint64(16) // the other searches begin near what the one before found
	for range burstTrials {
		// Bursts that become longer, not shorter: few are much longer than what passes, of which the device would have to recover.
		low, high := uint64(1), longest+1
		for n := first; high > longest; n = min(n*growth/4+1, longest) {
			ok, err := whole(n)
			if err != nil {
				return err
			}
			if !ok {
				high = n
			} else if low = n; n == longest {
				break
			}
		}
		for high > low+1 && float64(high-low) > 0.02*float64(low) {
			middle := (low + high) / 2
			ok, err := whole(middle)
			if err != nil {
				return err
			}
			if ok {
				low = middle
			} else {
				high = middle
			}
		}
		first, growth = max(low*9/10, 1), 5
		s.BurstLimited = s.BurstLimited || low == longest
		frames, rates = frames+float64(low), rates+rate
		if s.BurstTrials == 0 {
			s.BurstLeast = float64(low)
		}
		s.BurstLeast, s.BurstMost = min(s.BurstLeast, float64(low)), max(s.BurstMost, float64(low))
		s.BurstTrials++
	}
	s.Burst, s.BurstRate = frames/float64(s.BurstTrials), rates/float64(s.BurstTrials)
	s.buffer()
	return nil
}

// recovery is how long the device rests after a burst, beside the time in which nothing more arrives: as long as the burst takes at its throughput, in which its queues are empty and
// what limits its rate, such as a bucket of tokens, is full again. Of a long burst it holds only a part.
func recovery(n uint64, throughput float64) time.Duration {
	if throughput <= 0 {
		return mostRecovery
	}
	return min(max(time.Duration(float64(n)/throughput*1e9), leastRecovery), mostRecovery)
}

const leastRecovery, mostRecovery = 20 * time.Millisecond, time.Second

// burstSpread is the share of the longest burst below which the shortest is remarked; searches end within 2 %.
const burstSpread = 0.9

// buffer is that of the device, by the longest burst. It is not known where no burst was too long, or the source sent bursts no faster than the
// device forwards.
func (s *WireSize) buffer() {
	if s.Line > 0 {
		s.BurstRate = min(s.BurstRate, s.Line)
	}
	if s.BurstLimited || s.Throughput >= s.BurstRate {
		return
	}
	s.BufferFrames = s.Burst * (1 - s.Throughput/s.BurstRate)
	s.BufferNs = s.BufferFrames / s.BurstRate * 1e9
}

// burst sends n packets as fast as the source can.
func (r *rig) burst(ctx context.Context, n uint64) (*trial, error) {
	if err := r.sink.Reset(); err != nil {
		return nil, err
	}
	sent, err := r.source.Run(ctx, traffic.Load{Count: n, FirstSeq: r.next})
	if err != nil {
		return nil, err
	}
	r.next = sent.NextSeq
	got, err := r.settle(sent.Packets)
	return &trial{sent: sent, got: got}, errors.Join(err, ctx.Err())
}

// judge calls figures that contradict each other what they are.
func (s *WireSize) judge() {
	if s.Throughput == 0 {
		s.Invalid = "the device loses frames at any rate that was tried"
		return
	}
	const why = "the machine changed during the measurement, or the device collapses under load; measure again on a quiet machine"
	if s.Throughput > aboveMRR*s.MRR {
		if s.Offered == 0 || s.MRR < limitedBelow*s.Offered {
			s.Invalid = fmt.Sprintf("throughput %.0f is above what arrived of a full load, %.0f: %s", s.Throughput, s.MRR, why)
			return
		}
		// The full load lost nothing: the source alone was slower then.
		s.Limited = true
	}
	for _, l := range s.Latency {
		if l.Loss > pdrLoss {
			s.Invalid = fmt.Sprintf("at %.0f %% of the throughput, at which nothing is to be lost, %s of the frames were lost: %s", 100*l.Share, percent(l.Loss), why)
			return
		}
	}
}
