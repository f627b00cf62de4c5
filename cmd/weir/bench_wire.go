package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/bench/forward"
	"github.com/weirswitch/weir/internal/bitrate"
	"github.com/weirswitch/weir/internal/progress"
)

// wireOptions are the flags of weir bench forward for a device of the user's own.
type wireOptions struct {
	forward.Wire
	dstMAC, srcNet, dstNet, speed string
	html, csv                     string
}

func (o *wireOptions) add(cmd *cobra.Command) {
	o.Wire = forward.DefaultWire()
	f := cmd.Flags()
	f.StringVar(&o.TX, "tx", "", "send out of this `INTERFACE`, to a device of your own")
	f.StringVar(&o.RX, "rx", "", "and receive from it on this `INTERFACE`")
	f.StringVar(&o.TXNamespace, "tx-namespace", "", "the network namespace of --tx; default: this one")
	f.StringVar(&o.RXNamespace, "rx-namespace", "", "the network namespace of --rx; default: this one")
	f.StringVar(&o.dstMAC, "dst-mac", "", "destination MAC address; default: that of --rx, as a bridge needs it; of a router its own")
	f.StringVar(&o.srcNet, "src-net", "", "network of the source addresses; default: 198.18.0.0/16")
	f.StringVar(&o.dstNet, "dst-net", "", "network of the destination addresses; default: 198.19.0.0/16")
	f.StringVar(&o.speed, "speed", "", "the link's speed, as in 10Gbps; default: what --tx says")
	f.StringVar(&o.Device, "device", "", "what your device is, as \"ACME 4800, firmware 2.1\", for the report")
	f.StringVar(&o.html, "html", "", "write the report of your device as a page to `FILE`")
	f.StringVar(&o.csv, "csv", "", "write its figures as CSV to `FILE`")
}

// notOfWires are the flags that are for the devices of weir bench forward alone, and ofWires those for a device of the user's.
var (
	notOfWires = []string{"dut", "flood", "ports", "mrr-only", "soak", "before", "placement", "dut-core", "busy-poll", "ring", "poll", "raw", "plot"}
	ofWires    = []string{"tx-namespace", "rx-namespace", "dst-mac", "src-net", "dst-net", "speed", "device", "html", "csv"}
)

func (o *wireOptions) run(cmd *cobra.Command, all *benchForwardOptions) error {
	var errs []error
	note := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	var err error
	c := o.Wire
	c.Seed, c.Core = all.Seed, all.Cores.Source
	c.Weir, c.Command = strings.TrimSpace(versionLine()), commandLine(os.Args)
	f := cmd.Flags()
	for _, name := range notOfWires {
		if f.Changed(name) {
			errs = append(errs, fmt.Errorf("--%s: not for a device of your own (--tx, --rx): leave it out", name))
		}
	}
	if all.quick {
		c.Quick()
	}
	if f.Changed("rounds") {
		c.Rounds = all.Rounds
	}
	if f.Changed("duration") {
		c.Trial = all.Trial
	}
	if f.Changed("trials") {
		c.Trials = all.Trials
	}
	if f.Changed("precision") {
		c.Precision = all.Precision
	}
	if f.Changed("flows") {
		c.Flows = all.Flows
	}
	if all.sizesNamed {
		c.Sizes = nil
		for _, text := range all.Sizes {
			n, err := strconv.Atoi(text)
			if err != nil {
				err = fmt.Errorf("%q is no number of bytes: write 64 to 9018, several with commas", text)
			}
			note("size", err)
			c.Sizes = append(c.Sizes, n)
		}
	}
	if o.dstMAC != "" {
		c.DestinationMAC, err = net.ParseMAC(o.dstMAC)
		note("dst-mac", err)
	}
	if o.srcNet != "" {
		c.SourceNet, err = parseNet(o.srcNet)
		note("src-net", err)
	}
	if o.dstNet != "" {
		c.DestinationNet, err = parseNet(o.dstNet)
		note("dst-net", err)
	}
	if o.speed != "" {
		var speed bitrate.Rate
		speed, err = bitrate.Parse(o.speed)
		note("speed", err)
		c.Speed = uint64(speed)
	}
	note("html", writable(o.html))
	note("csv", writable(o.csv))
	note("source-core", checkCore(c.Core))
	if errs == nil {
		errs = append(errs, c.Validate())
	}
	if errors.Join(errs...) == nil {
		_, err := c.Look()
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return usageError(err)
	}
	var stop func()
	c.Progress, stop = progress.Steps(cmd.ErrOrStderr(), "forward")
	report, err := forward.RunWire(cmd.Context(), c)
	stop()
	err = interrupted(err, report != nil)
	if report == nil {
		return err
	}
	return errors.Join(o.write(cmd.OutOrStdout(), report, all.output.asJSON), err)
}

// write writes the files that were asked for, and prints the report. A report without a result is an error.
func (o *wireOptions) write(stdout io.Writer, report *forward.WireReport, asJSON bool) error {
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{{o.html, report.WriteHTML}, {o.csv, report.WriteCSV}} {
		if file.name == "" {
			continue
		}
		out, err := os.Create(file.name)
		if err == nil {
			err = errors.Join(file.write(out), out.Close())
		}
		if err != nil {
			// What was measured for hours is not to be lost.
			return errors.Join(fmt.Errorf("write the report: %w", err), report.WriteText(stdout))
		}
	}
	writeReport := report.WriteText
	if asJSON {
		writeReport = func(w io.Writer) error { return indentJSON(w, report) }
	}
	return errors.Join(writeReport(stdout), report.NoResult())
}

// writable says what keeps a file from being written at the end, if anything.
func writable(file string) error {
	if file == "" {
		return nil
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder: name a file", file)
	}
	folder := filepath.Dir(file)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return fmt.Errorf("there is no folder %s: make it, or name another file", folder)
	}
	if err := unix.Access(folder, unix.W_OK); err != nil {
		return fmt.Errorf("folder %s: %w: name a file in another one", folder, err)
	}
	return nil
}

// commandLine writes a command line as a shell takes it.
func commandLine(args []string) string {
	words := []string{"weir"}
	for _, word := range args[1:] {
		if word == "" || strings.ContainsFunc(word, func(c rune) bool { return !strings.ContainsRune(plainInShell, c) }) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

const plainInShell = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./,:@%"
