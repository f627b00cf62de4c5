// Stage is Weir with one stage more, ttlguard, to begin a module with: copy this folder, "go mod init", and give ttlguard the module's
// path. It runs a switch, or a capture through the same
// pipeline:
//
//	guard -c guard.toml                  until SIGINT; "weir ctl" talks to it as to any switch
//	guard -c guard.toml -in some.pcap    without root
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/examples/stage/ttlguard"
	"github.com/weirswitch/weir/node"
	"github.com/weirswitch/weir/node/replay"
	"github.com/weirswitch/weir/stages"
)

func main() {
	// The one line that a stage needs.
	stages.Register("example_ttlguard", "drops packets with a low TTL", ttlguard.DefaultConfig, (*ttlguard.Config).Validate, ttlguard.New)

	file := flag.String("c", "guard.toml", "the switch's configuration")
	capture := flag.String("in", "", "a capture that arrives at the first port; empty: run on the interfaces")
	flag.Parse()
	if err := run(*file, *capture); err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		os.Exit(1)
	}
}

func run(file, capture string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := config.Load(file)
	if err != nil {
		return err
	}
	if capture != "" {
		r, err := replay.New(replay.Config{Switch: c, In: map[string]string{c.Ports[0].Name: capture}})
		if err != nil {
			return err
		}
		report, err := r.Run(ctx)
		return errors.Join(err, report.WriteText(os.Stdout))
	}
	n, err := node.New(c, node.Options{File: file})
	if err != nil {
		return err
	}
	err = n.Run(ctx)
	fmt.Println("forwarded", n.Report().Forwarded, "packets, dropped by reason:", n.Report().Dropped)
	return err
}
