package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/dataplane/traffic"
	"github.com/weirswitch/weir/internal/progress"
)

// genOptions are the flags of weir gen.
type genOptions struct {
	workloadFlags
	rate     rateFlag
	duration time.Duration
	count    uint64
	first    uint64
	source   string
	speed    float64
	timed    bool // no rate is given: a capture has its own times
	asJSON   bool
}

func newGenCommand() *cobra.Command {
	var o genOptions
	cmd := &cobra.Command{
		Use:   "gen -i INTERFACE",
		Short: "Send packets that a weir sink can account for (root)",
		Long: `Gen sends UDP packets out of an interface at a steady rate. Each bears its
sequence number and send time, so that "weir sink", with the same flags, knows
of each whether it was lost, duplicated, reordered or late.

Sources:
  live    the kernel's live-frame mode: millions per second, also on veth, whose
          far end needs an XDP program or generic receive offload
  xsk     an AF_XDP socket on queue 0, zero-copy where the driver has it
  packet  an AF_PACKET socket: any interface, any size, slower

With --capture FILE it sends the packets of a capture instead, as they are, from an
AF_PACKET socket: at the capture's own times, --speed times as fast, or at
--rate. They bear no numbers, so a sink counts them as foreign. With --size
capture only the sizes are the capture's, and all else is as above.

It ends after --duration or --count, or at SIGINT; a capture without either is sent
once.`,
		Example: `  weir gen -i eth0 --rate 250k --duration 10s --size imix --flows 100000 --order zipf
  weir gen -i eth0 --rate 50% --size 1518 --duration 1m
  weir gen -i eth0 --namespace lab-h1 --rate max --count 1000000 --json
  weir gen -i eth0 --capture trace.pcap.gz --speed 2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.timed = !cmd.Flags().Changed("rate")
			return runGen(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.rate.pps = 10_000
	f := cmd.Flags()
	o.add(cmd)
	f.Var(&o.rate, "rate", "packets per second (250000, 250k, 1.5M), bits per second of frames with FCS (10Gbps), share of the interface's speed (50%), or max")
	f.DurationVar(&o.duration, "duration", 0, "how long to send; 0: no limit")
	f.Uint64Var(&o.count, "count", 0, "how many packets to send; 0: no limit")
	f.Uint64Var(&o.first, "first", 0, "first sequence number, to go on with a run")
	f.StringVar(&o.source, "source", "live", "live, xsk or packet")
	f.Float64Var(&o.speed, "speed", 1, "how many times as fast as it was captured")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	return cmd
}

// runGen is the command, top to bottom.
func runGen(ctx context.Context, o genOptions, stdout, stderr io.Writer) (err error) {
	w, err := o.workload()
	load := traffic.Load{Rate: o.rate.pps, Duration: o.duration, Count: o.count, FirstSeq: o.first}
	if err := errors.Join(err, load.Validate()); err != nil {
		return usageError(err)
	}
	port, err := o.port()
	if err != nil {
		return usageError(err)
	}
	defer port.Namespace.Close()
	mean := meanSize(w.Sizes)
	if o.replays() {
		mean = meanSize(o.packets.Sizes(0))
	}
	load.Rate, err = o.rate.packets(mean, func() (bits uint64, err error) {
		return bits, port.Namespace.Do(func() (err error) { bits, err = nic.Speed(port.Interface); return err })
	})
	if err != nil {
		return usageError(err)
	}
	if o.replays() {
		switch {
		case o.timed:
			load.Rate = 0 // its own times
		case load.Rate == 0:
			o.speed = maxSpeed
		}
	}
	var source traffic.Source
	if o.replays() {
		source, err = traffic.NewCaptureSource(port, o.packets, o.speed)
	} else {
		source, err = traffic.NewSource(o.source, port, w)
	}
	if err != nil {
		return usageError(err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	stop := watchSending(stderr, port)
	sent, err := source.Run(ctx, load)
	stop()
	if err != nil {
		return err
	}
	return printSent(stdout, source.Name(), sent, o.packets, o.asJSON)
}

// maxSpeed of a capture leaves no gaps.
const maxSpeed = 1e6

// replays reports whether the packets are a capture's.
func (o *genOptions) replays() bool { return o.packets != nil && !o.capturedSizes() }

// genReport is the JSON form.
type genReport struct {
	Source        string  `json:"source"`
	Packets       uint64  `json:"packets"`
	Bytes         uint64  `json:"bytes"`   // without frame check sequences
	Refused       uint64  `json:"refused"` // of packets, by the device itself
	NextSeq       uint64  `json:"next_seq"`
	Seconds       float64 `json:"seconds"`
	Offered       float64 `json:"offered_pps"` // the rate asked for; 0: as fast as possible
	Rate          float64 `json:"rate_pps"`
	SourceLimited bool    `json:"source_limited"`
	Restarts      int     `json:"restarts"`
	// Of a capture: packets that it has less of than was on the wire, and records that are left out.
	Cut     int `json:"cut,omitempty"`
	Skipped int `json:"skipped,omitempty"`
}

func printSent(w io.Writer, name string, s traffic.Sent, c *traffic.Capture, asJSON bool) error {
	cut, skipped := 0, 0
	if c != nil {
		cut, skipped = c.Cut(), c.Skipped()
	}
	if asJSON {
		return indentJSON(w, genReport{
			name, s.Packets, s.Bytes, s.Refused, s.NextSeq, s.Elapsed.Seconds(), s.Offered, s.Rate, s.SourceLimited, s.Restarts, cut, skipped,
		})
	}
	_, err := fmt.Fprintf(w, "sent %d packets, %d bytes, in %.3f s with %s: %.0f per second\n", s.Packets, s.Bytes, s.Elapsed.Seconds(), name, s.Rate)
	if err == nil && s.Refused > 0 {
		_, err = fmt.Fprintf(w, "%d of them were refused by the interface itself\n", s.Refused)
	}
	if err == nil && cut+skipped > 0 {
		_, err = fmt.Fprintf(w, "the capture holds %d packets only in part, and %d that are not of Ethernet or too short\n", cut, skipped)
	}
	if err == nil && s.SourceLimited && s.Offered > 0 {
		_, err = fmt.Fprintf(w, "the source could not keep the %.0f per second asked for\n", s.Offered)
	}
	return err
}

// watchSending writes what leaves the interface, each second, after its own counters, if w is a terminal. The
// last line stays.
func watchSending(w io.Writer, port traffic.Port) (stop func()) {
	if !progress.Terminal(w) {
		return func() {}
	}
	type moment struct {
		at             time.Time
		packets, bytes uint64
	}
	now := func() (m moment, ok bool) {
		link, err := port.Namespace.Link(port.Interface)
		if err != nil || link.Attrs().Statistics == nil {
			return m, false
		}
		s := link.Attrs().Statistics
		return moment{time.Now(), s.TxPackets, s.TxBytes}, true
	}
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		first, ok := now()
		before := first
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for ok {
			select {
			case <-done:
				fmt.Fprintln(w)
				return
			case <-tick.C:
			}
			var is moment
			if is, ok = now(); !ok {
				return
			}
			seconds := is.at.Sub(before.at).Seconds()
			fmt.Fprintf(w, "\r\x1b[K%3.0f s: %s packets, %s packets/s, %sbit/s", is.at.Sub(first.at).Seconds(),
				scaled(float64(is.packets-first.packets)), scaled(float64(is.packets-before.packets)/seconds), scaled(8*float64(is.bytes-before.bytes)/seconds))
			before = is
		}
	})
	return func() {
		close(done)
		ended.Wait()
	}
}
