package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/weirswitch/weir/dataplane/lab"
)

// pingSizes are bytes with the IP header.
var pingSizes = []int{64, 576, 1000, 1400, 1500}

// pings are how many of each size.
const pings = 10

// ping pings both ways with packets of each size.
func ping(ctx context.Context, from, to lab.Stack, sizes ...int) error {
	for _, size := range sizes {
		load := lab.Traffic{Kind: lab.KindPing, Count: pings, Window: 1, Sizes: []int{size, size}}
		if err := bothWays(ctx, load, from, to); err != nil {
			return fmt.Errorf("%d bytes: %w", size, err)
		}
	}
	return nil
}

// bothWays carries out a load in one direction, then in the other.
func bothWays(ctx context.Context, load lab.Traffic, from, to lab.Stack) error {
	for range 2 {
		r := lab.Carry(ctx, load, from, to)
		if !r.OK() {
			return fmt.Errorf("%s from %s to %s: sent %d, received %d, duplicated %d, reordered %d, wrong %d %s",
				load.Kind, from.Address, to.Address, r.Sent, r.Received, r.Duplicated, r.Reordered, r.Wrong, r.Fault)
		}
		from, to = to, from
	}
	return nil
}

// numbered sends the packets of a run from one host to the other and counts them there: all arrive, in order.
func (r *running) numbered(ctx context.Context, run int, from, to *host) error {
	got, err := r.counted(ctx, run, r.row.Packets, from, to)
	if err != nil {
		return err
	}
	if got.Packets != uint64(r.row.Packets) || got.Lost+got.Duplicates+got.Reordered+got.Stale+got.Overflow != 0 {
		return fmt.Errorf("of %d numbered packets from %s to %s: %+v", r.row.Packets, from.Name(), to.Name(), got)
	}
	return nil
}

// arrived is what a sink reports of numbered packets.
type arrived struct{ Packets, Lost, Duplicates, Reordered, Stale, Overflow uint64 }

// counted sends numbered packets from one host to the other, and returns what arrived.
func (r *running) counted(ctx context.Context, run, packets int, from, to *host) (got arrived, err error) {
	flags := []string{
		"--run", fmt.Sprint(run), "--size", "64,576,1000,1518", "--flows", "64", "--order", "round-robin",
		"--src-mac", from.mac, "--dst-mac", to.mac, "--count", fmt.Sprint(packets), "--json",
	}
	sink := exec.CommandContext(ctx, weirProgram, append([]string{"sink", "--namespace", to.Name(), "-i", to.device, "--sink", "packet", "--idle", "1m"}, flags...)...)
	var out bytes.Buffer
	sink.Stdout = &out
	messages, err := sink.StderrPipe()
	if err != nil {
		return got, err
	}
	if err := sink.Start(); err != nil {
		return got, err
	}
	said := bufio.NewReader(messages)
	if line, err := said.ReadString('\n'); !strings.HasPrefix(line, "receiving") {
		return got, errors.Join(fmt.Errorf("the sink does not receive: %s", line), err, sink.Wait())
	}
	_, sendErr := weir(append([]string{"gen", "--namespace", from.Name(), "-i", from.device, "--source", "packet", "--rate", genRate}, flags...)...)
	rest, _ := io.ReadAll(said)
	if err := errors.Join(sendErr, sink.Wait()); err != nil {
		return got, fmt.Errorf("%w: %s", err, rest)
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		return got, fmt.Errorf("the sink's report: %w", err)
	}
	return got, nil
}

// genRate is in packets per second. The smallest ring of the drivers, of 256 packets, holds almost a second of it: so long an emulated
// processor may have to wait for a real one.
const genRate = "300"
