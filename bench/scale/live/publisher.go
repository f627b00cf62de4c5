package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/status"
)

// Publisher is some rows of the network.
type Publisher struct {
	Config   Config   `json:"config"`
	First    int      `json:"first"` // row
	Rows     int      `json:"rows"`
	Servers  []string `json:"servers"`
	Password string   `json:"password"` // file
	Spool    string   `json:"spool"`    // folder
	Written  string   `json:"written"`  // file of the marks of all records that went to a spool
	Report   string   `json:"report"`   // file of the counts at the end
}

// kindCount is what a switch, or all of a publisher, counted of a kind.
type kindCount struct {
	Written    uint64            `json:"written"` // to spools
	Bytes      uint64            `json:"bytes"`
	Lost       uint64            `json:"lost"`        // that no spool took
	OverBudget uint64            `json:"over_budget"` // that the exporter dropped
	Sent       uint64            `json:"sent"`        // acknowledged
	Waiting    uint64            `json:"waiting"`     // in spools at the end
	Dropped    map[string]uint64 `json:"dropped"`     // from spools, by reason
}

// counts are those of all switches of a publisher.
type counts struct {
	Packets    uint64                           `json:"packets"`
	Left       uint64                           `json:"packets_not_delivered"`
	Kinds      map[string]*kindCount            `json:"kinds"`
	Switches   map[uint32]map[string]*kindCount `json:"switches"` // the same by switch
	Retried    uint64                           `json:"retried"`
	Duplicates uint64                           `json:"duplicates"` // that the stream knew already
	Connects   uint64                           `json:"connects"`
	Behind     float64                          `json:"behind_s"` // the longest time between a packet's and its carrying
}

// liveSwitch is the record path of one switch.
type livePath struct {
	id       uint32
	spool    *export.Spool
	exporter *export.Exporter
	shipper  *export.Shipper
}

// writtenLog is a sink that notes the hash of each record that the spool takes.
type writtenLog struct {
	spool *export.Spool
	log   *bufio.Writer
}

// Write implements export.Sink.
func (w *writtenLog) Write(h *record.Header, encoded []byte) error {
	if err := w.spool.Write(h, encoded); err != nil {
		return err
	}
	m := markOf(h, encoded)
	_, err := w.log.Write(m[:])
	return err
}

// statuses is a source of what a switch says of itself, once a second.
type statuses struct {
	rows *rowsOfSwitches
	boot int64
	last int64 // slice
	time int64 // of the last one
}

const statusBits = 30

// Collect implements export.Source.
func (s *statuses) Collect(now int64, last bool, emit record.Emit) {
	slice := now >> statusBits
	if slice == s.last && (!last || now == s.time) { // the same again would be no other record: the stream takes it once
		return
	}
	s.last, s.time = slice, now
	at := status.Status{Time: now, Boot: s.boot, Program: "bench"}
	for i, name := range []string{"a", "b"} {
		at.Ports = append(at.Ports, status.Port{Number: uint32(i), Name: name, Interface: name, Mode: "simulated", Up: true, Received: s.rows.sent, Transmitted: s.rows.sent})
	}
	emit(&record.Header{Kind: record.Status, Start: slice << statusBits, Span: 1 << statusBits, Partial: true}, at.AppendBinary)
}

// The pace of a publisher: packets enter and switches look at their clocks each step, and each switch's records are collected once in pollSteps.
const (
	step      = 10 * time.Millisecond
	pollSteps = 10
	maxBurst  = 100 * time.Millisecond // of packets, in a step: others do not enter
	onTheWay  = time.Millisecond       // more than the links and the switches take, so that no clock is ahead of the next step's
	drainWait = 5 * time.Minute
)

func (p *Publisher) run(ctx context.Context, lines <-chan string, end <-chan struct{}) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-end
		cancel()
	}()
	rows, err := p.network()
	if err != nil {
		return err
	}
	file, err := os.Create(p.Written)
	if err != nil {
		return err
	}
	log := bufio.NewWriterSize(file, 1<<20)
	defer func() { err = errors.Join(err, log.Flush(), file.Close()) }()
	paths, err := p.paths(rows, log)
	if err != nil {
		return err
	}
	for _, x := range paths {
		if err := await(ctx, x.connected); err != nil {
			return fmt.Errorf("switch %d connects: %w: %s", x.id, err, x.shipper.Status().LastError)
		}
	}
	if err := ready(); err != nil {
		return err
	}
	select {
	case <-lines:
	case <-ctx.Done():
		return ctx.Err()
	}
	c := counts{Kinds: map[string]*kindCount{}, Switches: map[uint32]map[string]*kindCount{}}
	if err := p.publish(ctx, rows, paths, lines, &c); err != nil {
		return err
	}
	drain, stop := context.WithTimeout(ctx, drainWait)
	defer stop()
	for _, x := range paths { // what waits when the time is over is counted as waiting
		if err := await(drain, x.empty); ctx.Err() != nil {
			return err
		}
		if err := x.shipper.Stop(0); err != nil {
			return err
		}
		c.add(x)
		if err := x.spool.Close(); err != nil {
			return err
		}
	}
	text, err := json.Marshal(&c)
	if err != nil {
		return err
	}
	return os.WriteFile(p.Report, text, 0o600)
}

// paths opens spools and connections of all switches.
func (p *Publisher) paths(rows *rowsOfSwitches, log *bufio.Writer) (all []*livePath, err error) {
	boot := clock.Kernel.TAI()
	for i := range p.Rows * rowSwitches {
		x := &livePath{id: uint32(p.First*rowSwitches + i + 1)}
		name := switchName(int(x.id))
		c := export.DefaultConfig()
		c.Collector, c.User, c.PasswordFile, c.Spool, c.Budget = p.Servers, name, p.Password, filepath.Join(p.Spool, name), p.Config.Budget
		if x.spool, err = export.OpenSpool(c, name); err != nil {
			return nil, err
		}
		sources := []export.Source{&statuses{rows: rows, boot: boot}}
		for _, m := range rows.network.Chain(i) {
			if s, ok := m.Module.(export.Source); ok {
				sources = append(sources, s)
			}
		}
		x.exporter = export.New(x.id, name, hash.XX, sources, &writtenLog{x.spool, log}, nil)
		x.exporter.SetBudget(c.Budget)
		o := c.Options(name)
		o.Inbox = jetstream.Acks(x.id)
		if x.shipper, err = export.Ship(x.spool, o, func(export.Status) {}); err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

func (x *livePath) connected() bool { return x.shipper.Status().State == export.Connected }

// empty reports whether all records are sent or dropped.
func (x *livePath) empty() bool {
	for _, k := range x.spool.Counts() {
		if k.Waiting.Records != 0 {
			return false
		}
	}
	return true
}

// publish runs the network by the clock until a line comes, and then gives what is left to the spools.
func (p *Publisher) publish(ctx context.Context, rows *rowsOfSwitches, paths []*livePath, lines <-chan string, c *counts) error {
	rate := float64(p.Config.Packets) * float64(rows.rows) / float64(rows.all)
	tick := time.NewTicker(step)
	defer tick.Stop()
	begin := clock.Kernel.TAI()
	at, entered := begin, 0
	for steps := 0; ; steps++ {
		select {
		case <-lines:
			rows.network.Finish(at)
			for _, x := range paths {
				x.exporter.Finish(at)
			}
			c.Packets, c.Left = rows.sent, rows.lost
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		now := clock.Kernel.TAI()
		room := now - at - int64(onTheWay)
		if room <= 0 {
			continue // the step before was late
		}
		c.Behind = max(c.Behind, float64(now-at)/1e9)
		due := int(rate * float64(now-begin) / 1e9)
		if most := max(int(rate*maxBurst.Seconds()), 1); due-entered > most { // a machine that is behind stays so by no more
			entered = due - most
		}
		for n := due - entered; entered < due; entered++ {
			gap := room / int64(n+1)
			at, room = at+gap, room-gap
			rows.send(at)
		}
		at = now
		rows.network.Tick(now)
		for i := steps % pollSteps; i < len(paths); i += pollSteps {
			paths[i].exporter.Poll(now)
		}
	}
}

// await waits until something holds.
func await(ctx context.Context, holds func() bool) error {
	tick := time.NewTicker(step)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// add adds a switch's counts.
func (c *counts) add(x *livePath) {
	s := x.shipper.Status()
	c.Retried, c.Duplicates, c.Connects = c.Retried+s.Retried, c.Duplicates+s.Duplicates, c.Connects+s.Connects
	own := map[string]*kindCount{}
	c.Switches[x.id] = own
	of := func(k record.Kind) *kindCount {
		n := own[k.String()]
		if n == nil {
			n = &kindCount{Dropped: map[string]uint64{}}
			own[k.String()] = n
		}
		return n
	}
	for _, k := range collect.Kinds {
		made, n := x.exporter.Counters(k), of(k)
		n.Lost, n.OverBudget = made.Lost, made.OverBudget
	}
	for _, k := range x.spool.Counts() {
		n := of(k.Kind)
		n.Written, n.Bytes, n.Sent, n.Waiting = k.Spooled.Records, k.Spooled.Bytes, k.Sent.Records, k.Waiting.Records
		for _, d := range k.Dropped {
			n.Dropped[d.Reason] += d.Records
		}
	}
	for kind, n := range own {
		if c.Kinds[kind] == nil {
			c.Kinds[kind] = &kindCount{Dropped: map[string]uint64{}}
		}
		c.Kinds[kind].add(n)
	}
}

// add adds what another switch counted.
func (n *kindCount) add(o *kindCount) {
	n.Written, n.Bytes, n.Lost, n.OverBudget = n.Written+o.Written, n.Bytes+o.Bytes, n.Lost+o.Lost, n.OverBudget+o.OverBudget
	n.Sent, n.Waiting = n.Sent+o.Sent, n.Waiting+o.Waiting
	for reason, k := range o.Dropped {
		n.Dropped[reason] += k
	}
}
