package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/vm"
)

// run runs one test of the bed. The text is figures.
func (r *running) run(ctx context.Context, test vm.Test) (text string, err error) {
	wait := testWait
	if test == vm.Faults {
		wait += time.Duration(r.row.Flaps) * flapWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	a, b := &r.hosts[0], &r.hosts[1]
	from, to := r.ends()
	stack := func(h *host) (plain, six, vlan lab.Stack) {
		return lab.Stack{Namespace: h.Namespace, Address: h.plain}, lab.Stack{Namespace: h.Namespace, Address: h.six},
			lab.Stack{Namespace: h.Namespace, Address: h.vlan}
	}
	_, six1, vlan1 := stack(a)
	_, six2, vlan2 := stack(b)
	switch test {
	case vm.Ping:
		return "", errors.Join(ping(ctx, from, to, pingSizes...), ping(ctx, six1, six2, 1500))
	case vm.VLAN:
		return "", ping(ctx, vlan1, vlan2, pingSizes...)
	case vm.TCP:
		return r.tcp(ctx, from, to, r.row.Bytes)
	case vm.Tunnels:
		return r.tunnels(ctx)
	case vm.Flows:
		return "", r.bothNumbered(ctx)
	case vm.Jumbo:
		if err := ping(ctx, from, to, 1500, 4000, 9000); err != nil {
			return "", err
		}
		return r.tcp(ctx, from, to, r.row.Bytes/16)
	case vm.L2:
		if err := errors.Join(ping(ctx, from, to, pingSizes...), ping(ctx, vlan1, vlan2, pingSizes...)); err != nil {
			return "", err
		}
		return r.tcp(ctx, from, to, r.row.Bytes/16)
	case vm.L3:
		six1.Address, six2.Address = a.far6, b.far6
		if err := errors.Join(ping(ctx, from, to, pingSizes...), ping(ctx, six1, six2, 64, 1500)); err != nil {
			return "", err
		}
		return r.tcp(ctx, from, to, r.row.Bytes/16)
	case vm.Overlay:
		return r.overlays(ctx)
	case vm.IRB:
		return r.bridgedAndRouted(ctx)
	case vm.Bond:
		return r.bonds(ctx)
	case vm.PINT:
		return r.pint(ctx, from, to)
	case vm.LDS:
		return r.conclusiveLDS(ctx)
	case vm.Faults:
		return r.faults(ctx)
	case vm.Restart:
		return "", r.restart(ctx)
	}
	return "", fmt.Errorf("unknown test %s", test)
}

// tcp sends bytes in each direction, and compares their SHA-256.
func (r *running) tcp(ctx context.Context, from, to lab.Stack, bytes int64) (text string, err error) {
	for range 2 {
		result := lab.Carry(ctx, lab.Traffic{Kind: lab.KindTCP, Bytes: bytes, Streams: 4, Window: 128 << 10}, from, to)
		if !result.OK() {
			return "", fmt.Errorf("TCP from %s to %s: %d of %d bytes, %d streams wrong, %d segments retransmitted: %s",
				from.Address, to.Address, result.Received, bytes, result.Wrong, result.Retransmitted, result.Fault)
		}
		text += fmt.Sprintf("%.0f Mbit/s, %d segments retransmitted; ", 1000*result.GbitPerSec, result.Retransmitted)
		from, to = to, from
	}
	return strings.TrimSuffix(text, "; "), nil
}

// bothNumbered sends numbered packets in both directions at the same time.
func (r *running) bothNumbered(ctx context.Context) error {
	a, b := &r.hosts[0], &r.hosts[1]
	r.runs += 2
	there, back := r.runs-1, r.runs
	ended := make(chan error, 1)
	go func() { ended <- r.numbered(ctx, back, b, a) }()
	return errors.Join(r.numbered(ctx, there, a, b), <-ended)
}

// pint looks for the path of both switches in what the sink decoded of packets that the hosts saw without shim.
func (r *running) pint(ctx context.Context, from, to lab.Stack) (text string, err error) {
	if err := ping(ctx, from, to, pingSizes...); err != nil {
		return "", err
	}
	text, err = r.tcp(ctx, from, to, r.row.Bytes/16)
	if err != nil {
		return "", err
	}
	out, err := weir("ctl", "--socket", r.bed.switches[1].socket(), "show", "paths", "--json")
	if err != nil {
		return "", err
	}
	var answer struct {
		Paths struct {
			Flows []struct {
				Certain bool
				Hops    []struct{ Number uint64 }
			}
		}
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return "", fmt.Errorf("the paths: %w", err)
	}
	for _, f := range answer.Paths.Flows {
		if f.Certain && len(f.Hops) == 2 && f.Hops[0].Number == 1 && f.Hops[1].Number == 2 {
			return text, nil
		}
	}
	return "", fmt.Errorf("no flow has the path 1, 2: %s", out)
}

// ldsRuns is how often LDS may measure until a run is conclusive, see lds.
const ldsRuns = 20

// errInterrupted is that of a run in which a switch got no processor for a whole interval. It has no record of that interval, and
// the packets that were on the cable at its edges are counted by one end alone: the sums over the other intervals do not show that none was
// lost. Or the hosts lost packets, see the test flows.
var errInterrupted = errors.New("inconclusive")

// conclusiveLDS measures until both ends have counted all intervals of a run whole, but for those in which nothing passed. Such a run decides.
func (r *running) conclusiveLDS(ctx context.Context) (text string, err error) {
	for run := 1; run <= ldsRuns; run++ {
		if len(r.switches) == 0 {
			if err := r.startSwitches(ctx); err != nil {
				return "", err
			}
		}
		if text, err = r.lds(ctx); !errors.Is(err, errInterrupted) {
			return fmt.Sprintf("run %d: %s", run, text), err
		}
		fmt.Printf("guest: run %d of LDS: %v\n", run, err)
	}
	return "", fmt.Errorf("%d runs, the last one: %w", ldsRuns, err)
}

// lds asks the records of both switches for loss and delay of numbered packets on the cable between them.
func (r *running) lds(ctx context.Context) (text string, err error) {
	defer os.RemoveAll(spool) // of the next row's
	start, err := quiet()     // before, packets were lost while links came up
	if err != nil {
		return "", err
	}
	// Packets that a NIC lost while a processor waited may have been on the cable or not.
	if err := r.bothNumbered(ctx); err != nil {
		return "", errors.Join(errInterrupted, err, r.stop())
	}
	end, err := quiet()
	if err != nil {
		return "", err
	}
	if err := r.stop(); err != nil { // which completes the records
		return "", err
	}
	busy := int((end - start) >> interval) // intervals that may have packets, and those that are asked for
	for _, way := range [][2]string{{"s1", "s2"}, {"s2", "s1"}} {
		out, err := weir("query", "delay", "--records", spool, "--from", way[0], "--to", way[1], "--start", fmt.Sprint(start), "--end", fmt.Sprint(end), "--json")
		if err != nil {
			return "", err
		}
		var answer struct {
			HasDelay bool `json:"has_delay"`
			HasLoss  bool `json:"has_loss"`
			Measured float64
			Lost     float64
			Whole    int `json:"whole_intervals"`
			Idle     int `json:"idle_intervals"`
			Missing  []struct {
				Packets uint64 `json:"missed_packets"`
			}
		}
		if err := json.Unmarshal(out, &answer); err != nil {
			return "", fmt.Errorf("the delay: %w", err)
		}
		if answer.Whole+answer.Idle < busy {
			return "", fmt.Errorf("%w: from %s to %s, %d intervals are whole and %d idle, of %d: %s", errInterrupted, way[0], way[1], answer.Whole, answer.Idle, busy, out)
		}
		for _, m := range answer.Missing {
			if m.Packets != 0 { // the losses of their intervals are not known
				return "", fmt.Errorf("%w: from %s to %s, a switch was held up and did not count %d packets: %s", errInterrupted, way[0], way[1], m.Packets, out)
			}
		}
		if !answer.HasDelay || !answer.HasLoss || answer.Lost != 0 || answer.Measured == 0 {
			return "", fmt.Errorf("from %s to %s: %s", way[0], way[1], out)
		}
		text += fmt.Sprintf("%s to %s: %d whole intervals, %.0f packets measured, %.0f lost; ", way[0], way[1], answer.Whole, answer.Measured, answer.Lost)
	}
	return strings.TrimSuffix(text, "; "), nil
}

// interval is that of the stages lds_ingress and lds_egress by default, in bits of nanoseconds.
const interval = 30

// quiet waits for a whole interval, so that no packet is on the cable at the edge of one that is compared: it would be
// sent in one interval and arrive in the next. It returns the first edge, in nanoseconds of CLOCK_TAI.
func quiet() (edge int64, err error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_TAI, &now); err != nil {
		return 0, err
	}
	first := now.Nano()>>interval + 1
	time.Sleep(time.Duration((first+1)<<interval - now.Nano()))
	return first << interval, nil
}
