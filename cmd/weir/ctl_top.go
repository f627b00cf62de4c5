package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/internal/progress"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// ratesOptions say how rates are shown.
type ratesOptions struct {
	once, watch bool
	interval    time.Duration
	count       int // 0: until the context ends
	json        bool
}

// ratesPrinter prints one part of the rates.
type ratesPrinter func(io.Writer, *control.Rates) error

// ratesShown are the views that can show rates.
var ratesShown = map[string][]ratesPrinter{
	"ports":   {printPortRates, printDropRates},
	"stages":  {printStageRates},
	"workers": {printWorkerRates},
}

func newTopCommand(o *ctlOptions) *cobra.Command {
	ro := ratesOptions{watch: true}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show rates, drops by reason and the workers' load, live",
		Long: `Top shows what a switch does at the moment: packets and bits per second of each port, what is
dropped and why, what each stage and worker carries, and the share of a core that each worker
uses. On a terminal it shows it anew each --interval until Ctrl-C, elsewhere once, or --count times.

A worker with poll = "busy" uses all of its core at any load; how full it is says its PACKETS/BATCH,
64 at most. Bits are of packets without FCS.`,
		Example: `  weir ctl top
  weir ctl top --count 1 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// In a script, which cannot press Ctrl-C, once is what is meant.
			if !cmd.Flags().Changed("count") && !cmd.Flags().Changed("interval") && !progress.Terminal(cmd.OutOrStdout()) {
				ro.count = 1
			}
			return o.rates(cmd.Context(), ro, []ratesPrinter{printPortRates, printDropRates, printStageRates, printWorkerRates}, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.DurationVar(&ro.interval, "interval", time.Second, "between two looks at the switch, 100ms or more")
	f.IntVar(&ro.count, "count", 0, "show them so many times; 0: until Ctrl-C; without it and --interval, once where the output is no terminal")
	f.BoolVar(&ro.json, "json", false, "print each as one JSON object on a line")
	return cmd
}

// rates shows rates: over one interval, or again and again.
func (o *ctlOptions) rates(ctx context.Context, ro ratesOptions, parts []ratesPrinter, stdout io.Writer) error {
	if ro.interval < 100*time.Millisecond {
		return usageError(fmt.Errorf("--interval %v: choose 100ms or more", ro.interval))
	}
	if ro.count < 0 {
		return usageError(fmt.Errorf("--count %d: choose 1 or more, or 0 to go on until Ctrl-C", ro.count))
	}
	if ro.once && !ro.watch {
		ro.count = 1
	}
	var screen *text.Screen
	before, then, err := o.report(ctx)
	if err != nil {
		return err
	}
	tick := time.NewTicker(ro.interval)
	defer tick.Stop()
	for n := 0; ro.count == 0 || n < ro.count; n++ {
		select {
		case <-ctx.Done():
			return nil // asked for
		case <-tick.C:
		}
		after, now, err := o.report(ctx)
		if err == nil {
			after.Ports, err = portsOf(after.Ports, o.ports)
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		rates := control.RatesOf(before, after, now.Sub(then))
		before, then = after, now
		if ro.json || o.json {
			line, err := json.Marshal(rates)
			if err == nil {
				_, err = fmt.Fprintf(stdout, "%s\n", line)
			}
			if err != nil {
				return err
			}
			continue
		}
		if screen == nil && progress.Terminal(stdout) && ro.count == 0 {
			if screen, err = text.NewScreen(stdout); err != nil {
				return err
			}
		}
		b := &painted{coloured: text.Coloured(stdout)}
		for i, part := range parts {
			if i > 0 {
				b.WriteByte('\n')
			}
			if err := part(b, &rates); err != nil {
				return err
			}
		}
		if screen != nil {
			err = screen.Show(b.Bytes(), now)
		} else {
			_, err = fmt.Fprintf(stdout, "%s, over %v\n\n%s", now.Format(time.TimeOnly), ro.interval, b.Bytes())
			if n+1 != ro.count && err == nil {
				_, err = fmt.Fprintln(stdout)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// painted is a buffer of what goes to a terminal, or not.
type painted struct {
	bytes.Buffer
	coloured bool
}

// Coloured implements text.Painter.
func (p *painted) Coloured() bool { return p.coloured }

// report asks for all counters, and notes when they came.
func (o *ctlOptions) report(ctx context.Context) (r *api.ReportResponse, at time.Time, err error) {
	err = o.call(ctx, o.timeout, func(ctx context.Context, c *control.Client) (err error) {
		r, err = c.Report(ctx, &api.ReportRequest{})
		return err
	})
	return r, time.Now(), err
}

func printPortRates(w io.Writer, r *control.Rates) error {
	t := text.NewTable("PORT", "~LINK", ">RECEIVED/s", ">RECEIVED bit/s", ">TRANSMITTED/s", ">TRANSMITTED bit/s", "!>DROPPED/s", "!>LOST/s")
	for _, p := range r.Ports {
		t.Row(p.Port, p.State, scaled(p.Received), scaled(p.ReceivedBits), scaled(p.Transmitted), scaled(p.TransmittedBits), scaled(p.Dropped), scaled(p.Lost))
	}
	return t.Write(w)
}

// printDropRates shows each reason for which packets are dropped, or were before.
func printDropRates(w io.Writer, r *control.Rates) error {
	t := text.NewTable("PORT", "WHAT", "REASON", "!>PACKETS/s", ">SINCE THE START")
	for _, d := range r.Drops {
		what := "dropped"
		if d.Lost {
			what = "lost"
		}
		t.Row(d.Port, what, d.Reason, scaled(d.Rate), d.Total)
	}
	if t.Empty() {
		_, err := fmt.Fprintln(w, "nothing was dropped or lost since the switch began")
		return err
	}
	return t.Write(w)
}

func printStageRates(w io.Writer, r *control.Rates) error {
	t := text.NewTable("STAGE", ">PACKETS/s", "!>DROPPED/s", ">NS/PACKET")
	for _, s := range r.Stages {
		cost := "-"
		if s.NsPerPacket > 0 {
			cost = fmt.Sprintf("%.1f", s.NsPerPacket)
		}
		t.Row(s.Stage, scaled(s.Packets), scaled(s.Dropped), cost)
	}
	return t.Write(w)
}

func printWorkerRates(w io.Writer, r *control.Rates) error {
	t := text.NewTable(">WORKER", ">CORE", ">CPU", ">PACKETS/s", ">PACKETS/BATCH", ">SLEEPS/s")
	for _, x := range r.Workers {
		core, fill := fmt.Sprint(x.Core), "-"
		if x.Core < 0 {
			core = "any"
		}
		if x.PacketsPerBatch > 0 {
			fill = fmt.Sprintf("%.1f", x.PacketsPerBatch)
		}
		t.Row(x.Worker, core, fmt.Sprintf("%.0f %%", 100*x.CPU), scaled(x.Packets), fill, scaled(x.Sleeps))
	}
	return t.Write(w)
}

// scaled writes a rate with a prefix of the SI: "1.49 M".
func scaled(v float64) string {
	for _, unit := range []struct {
		from float64
		name string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if v >= unit.from*0.9995 {
			return fmt.Sprintf("%.2f%s", v/unit.from, unit.name)
		}
	}
	return fmt.Sprintf("%.0f", v)
}
