package worker_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/patch"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	m.Run()
}

const prefix = "ww"

// open is a parse stage that fills in nothing; patch needs nothing.
type open struct{}

func (open) Role() pipeline.Role      { return pipeline.RoleParse }
func (open) Needs() packet.Needs      { return 0 }
func (open) Stage(int) pipeline.Stage { return open{} }
func (open) Process(*packet.Batch)    {}

// live is a switch of two ports between two hosts, all in namespaces.
type live struct {
	sw     *worker.Switch
	a, b   *netnstest.Host
	middle *netns.Namespace
	stop   func() worker.Report

	// To be changed before the start.
	parse      pipeline.Module
	timestamps string
	pairs      int // of hosts; those of a and b come first
	onEvent    func(worker.PortEvent)
	configure  func(*port.Config) // each port

	hosts []*netnstest.Host // by port: p0, p1...
}

type liveConfig struct {
	driver  string
	workers int
	queues  int
	mtu     int
	poll    string
	ring    int // the size of all rings, with no more frames than these hold; 0: the defaults
}

func startLive(t *testing.T, c liveConfig, change ...func(*live)) *live {
	t.Helper()
	netnstest.Require(t)
	l := &live{middle: netnstest.New(t, prefix), parse: open{}, timestamps: port.TimestampsBatch, pairs: 1}
	for _, f := range change {
		f(l)
	}
	for i := range 2 * l.pairs {
		l.hosts = append(l.hosts, netnstest.NewHost(t, prefix,
			netnstest.Port{Namespace: l.middle, Name: fmt.Sprintf("p%d", i), Queues: c.queues, MTU: c.mtu}, fmt.Sprintf("10.0.0.%d/24", i+1)))
	}
	l.a, l.b = l.hosts[0], l.hosts[1]
	netnstest.Introduce(t, l.hosts...)

	d := port.DefaultDataplaneConfig()
	d.Audit, d.Timestamps = true, l.timestamps
	if c.ring != 0 {
		d.RXRing, d.TXRing, d.FillRing, d.CompletionRing = c.ring, c.ring, c.ring, c.ring
		d.Frames = 2 * l.pairs * c.queues * c.ring
	}
	pool, err := packet.NewPool(packet.PoolConfig{
		Frames: d.FramesFor(2*l.pairs*c.queues, 0, c.workers), FrameSize: d.FrameSizeFor(nil), Audit: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	if err := l.middle.Do(func() error { return l.build(c, d, pool) }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- l.sw.Run(ctx, func() { close(ready) }) }()
	<-ready
	stopped := false
	l.stop = func() worker.Report {
		cancel()
		if !stopped {
			stopped = true
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		return l.sw.Report()
	}
	t.Cleanup(func() { l.stop() })
	return l
}

func (l *live) build(c liveConfig, d port.DataplaneConfig, pool *packet.Pool) error {
	memory, err := port.NewUMEM(pool, d)
	if err != nil {
		return err
	}
	var ports []port.Port
	for i := range l.hosts {
		name := fmt.Sprintf("p%d", i)
		pc := port.DefaultConfig()
		pc.Name, pc.Interface, pc.Driver, pc.Jumbo = name, name, c.driver, c.mtu > 1500
		if l.configure != nil {
			l.configure(&pc)
		}
		var p port.Port
		if c.driver == port.DriverAsavie {
			p, err = port.NewAsavie(pc, d)
		} else {
			p, err = port.NewXSK(pc, memory)
		}
		if err != nil {
			return err
		}
		ports = append(ports, p)
	}
	env := pipeline.Env{Name: "live", Workers: c.workers}
	for _, p := range ports {
		env.Ports = append(env.Ports, pipeline.Port{Name: p.Info().Name, MaxFrame: p.Info().MaxFrame})
	}
	var pairs [][2]string
	for i := range l.pairs {
		pairs = append(pairs, [2]string{fmt.Sprintf("p%d", 2*i), fmt.Sprintf("p%d", 2*i+1)})
	}
	m, err := patch.New(patch.Config{Pairs: pairs}, env)
	if err != nil {
		return err
	}
	wc := worker.DefaultConfig()
	wc.Count, wc.Poll = c.workers, c.poll
	l.sw, err = worker.New(wc, worker.Parts{Name: "live", Pool: pool, Ports: ports, OnEvent: l.onEvent, Chain: []pipeline.Named{
		{Name: "open", Module: l.parse}, {Name: "patch", Module: m},
	}})
	return err
}

// transfer sends n bytes by TCP from a to b and compares their digests.
func (l *live) transfer(n int64) error {
	ln, err := l.b.NS.Listen("tcp", "10.0.0.2:5000")
	if err != nil {
		return err
	}
	defer ln.Close()
	type result struct {
		sum string
		err error
	}
	got := make(chan result, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			got <- result{err: err}
			return
		}
		defer conn.Close()
		h := sha256.New()
		_, err = io.Copy(h, conn)
		got <- result{hex.EncodeToString(h.Sum(nil)), err}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := l.a.NS.Dial(ctx, "tcp", "10.0.0.2:5000")
	if err != nil {
		return err
	}
	h := sha256.New()
	random := rand.NewChaCha8([32]byte{1})
	if _, err := io.CopyN(io.MultiWriter(conn, h), random, n); err != nil {
		return err
	}
	conn.Close()
	r := <-got
	if r.err != nil {
		return r.err
	}
	if want := hex.EncodeToString(h.Sum(nil)); r.sum != want {
		return fmt.Errorf("received digest %s, sent %s", r.sum, want)
	}
	return nil
}

// TestLive carries TCP between two kernel hosts through a switch, with every
// frame's owner audited, and then closes the switch.
func TestLive(t *testing.T) {
	for _, c := range []liveConfig{
		{port.DriverXSK, 1, 1, 1500, worker.PollAdaptive, 0},
		{port.DriverXSK, 1, 1, 1500, worker.PollInterrupt, 0},
		{port.DriverXSK, 2, 4, 1500, worker.PollAdaptive, 0},
		{port.DriverXSK, 2, 1, 1500, worker.PollAdaptive, 0}, // every packet is handed over
		{port.DriverXSK, 1, 1, 9000, worker.PollAdaptive, 0},
		{port.DriverAsavie, 1, 1, 1500, worker.PollAdaptive, 0},
	} {
		t.Run(fmt.Sprintf("%s %d workers %d queues mtu %d %s", c.driver, c.workers, c.queues, c.mtu, c.poll), func(t *testing.T) {
			l := startLive(t, c)
			start := time.Now()
			bytes := int64(64 << 20)
			if testing.Short() {
				bytes = 16 << 20
			}
			if err := l.transfer(bytes); err != nil {
				t.Error(err)
			}
			t.Logf("%d bytes in %v", bytes, time.Since(start))
			r := l.stop()
			t.Log(r.Modes, r.Fate, fmt.Sprintf("%+v", r.Frames))
			if !r.Balanced || r.DroppedTotal() != 0 || r.Received < 1000 {
				t.Errorf("counters: balanced %v, %+v", r.Balanced, r.Fate)
			}
			if r.Frames.Lost != 0 || r.Frames.Faults != 0 {
				t.Errorf("frames: %+v", r.Frames)
			}
		})
	}
}

// TestSmallPool carries many more packets one way than there are frames, all of
// which are handed over: frames must come back from the worker that transmits to
// the one that receives, also while neither has anything else to do.
func TestSmallPool(t *testing.T) {
	for _, poll := range []string{worker.PollAdaptive, worker.PollInterrupt} {
		t.Run(poll, func(t *testing.T) {
			l := startLive(t, liveConfig{port.DriverXSK, 2, 1, 1500, poll, 64})
			from, to := l.a.Packet(t), l.b.Packet(t)
			frame := make([]byte, 60)
			copy(frame, l.b.MAC)
			copy(frame[6:], l.a.MAC)
			frame[12], frame[13] = 0x88, 0xb6 // local experimental: nobody answers
			if err := to.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 2048)
			for n := range 2000 {
				frame[14], frame[15] = byte(n>>8), byte(n)
				if err := from.Send(frame); err != nil {
					t.Fatal(err)
				}
				for got := -1; got != n; {
					if _, err := to.Receive(buf); err != nil {
						t.Fatalf("packet %d: %v; %+v", n, err, l.stop().Ports)
					}
					if buf[12] == 0x88 && buf[13] == 0xb6 {
						got = int(buf[14])<<8 | int(buf[15])
					}
				}
			}
			if r := l.stop(); r.Frames.Lost != 0 || r.Frames.Faults != 0 || r.DroppedTotal() != 0 {
				t.Errorf("%+v %+v", r.Frames, r.Fate)
			}
		})
	}
}
