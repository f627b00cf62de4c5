package collect

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/collect/embed"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// storeBytes is memory for all records of a run.
const storeBytes = 8 << 30

// applier is a store as a collector fills it.
type applier struct {
	live    *store.Live
	applied atomic.Int64 // records
	refused atomic.Int64 // that were not new
}

func newApplier() (*applier, error) {
	live, err := store.NewLive(store.LiveConfig{Bytes: storeBytes})
	return &applier{live: live}, err
}

// Apply implements collect.Applier.
func (a *applier) Apply(h record.Header, body []byte, _ time.Time) collect.Outcome {
	if a.live.Add(h, body) != store.Taken {
		a.refused.Add(1)
		return collect.Duplicate
	}
	a.applied.Add(1)
	return collect.Applied
}

// transport is an embedded server with its files in its own folder.
type transport struct {
	server *embed.Server
	folder string
}

func newTransport(folder string) (*transport, error) {
	folder, err := os.MkdirTemp(folder, "weir-bench-collect-")
	if err != nil {
		return nil, err
	}
	c := embed.Config{Name: "bench", Data: folder, NATS: collect.DefaultNATS(), Retention: collect.DefaultRetention(), Log: zap.NewNop()}
	c.NATS.Listen = "127.0.0.1:0"
	server, err := embed.Start(c)
	if err != nil {
		_ = os.RemoveAll(folder)
		return nil, err
	}
	return &transport{server, folder}, nil
}

func (t *transport) close() {
	_ = t.server.Close()
	_ = os.RemoveAll(t.folder)
}

// stream is what the collectors of a run ask for.
func stream() jetstream.StreamConfig {
	r := collect.DefaultRetention()
	return jetstream.StreamConfig{Age: r.Age, Bytes: r.Bytes, Replicas: 1}
}

// start runs a collector of some partitions until stop is called.
func (t *transport) start(ctx context.Context, p collect.Partitions, a *applier) (c *collect.Collector, stop func()) {
	c = collect.New(collect.Config{Connect: t.server.Connect, Stream: stream(), Partitions: p, Log: zap.NewNop()}, a)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	return c, func() { cancel(); running.Wait() }
}

// inFlight is how many bytes, about, wait for acknowledgement at a time.
const inFlight = 16 << 20

const ackWait = 30 * time.Second

// publish sends records as a switch does, each with an acknowledgement, and returns when all are acknowledged.
func (t *transport) publish(ctx context.Context, messages []message) error {
	o := jetstream.Options{Name: "bench", Servers: []string{t.server.URL()}} // over TCP, as switches do
	nc, err := o.Dial()
	if err != nil {
		return err
	}
	defer nc.Close()
	for began := time.Now(); !nc.IsConnected(); time.Sleep(time.Millisecond) {
		if time.Since(began) > ackWait {
			return fmt.Errorf("connect to the server: %w", nc.LastError())
		}
	}
	acks := make(chan jetstream.Ack, 1<<16)
	p, err := jetstream.NewPublisher(nc, jetstream.Secret{}, func(a jetstream.Ack) { acks <- a })
	if err != nil {
		return err
	}
	defer p.Close()
	waiting, open := 0, 0
	take := func() error {
		select {
		case a := <-acks:
			if a.Err != nil {
				return a.Err
			}
			waiting -= len(messages[a.Number].encoded)
			open--
			return nil
		case <-time.After(ackWait):
			return fmt.Errorf("no acknowledgement in %v: %w", ackWait, nc.LastError())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for i := range messages {
		m := &messages[i]
		for waiting > 0 && waiting+len(m.encoded) > inFlight {
			if err := take(); err != nil {
				return err
			}
		}
		if err := p.Publish(uint64(i), &m.header, m.encoded); err != nil {
			return err
		}
		waiting += len(m.encoded)
		open++
	}
	for open > 0 {
		if err := take(); err != nil {
			return err
		}
	}
	return nil
}

// arrived waits until so many records are applied.
func (a *applier) arrived(ctx context.Context, n int) error {
	for tick := time.NewTicker(time.Millisecond); a.applied.Load() < int64(n); {
		if a.refused.Load() != 0 {
			return fmt.Errorf("%d records were not taken", a.refused.Load())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// took is how long something took.
type took struct{ wall, cpu time.Duration }

// timed runs a function.
func timed(f func() error) (took, error) {
	cpu, began := processTime(), time.Now()
	err := f()
	return took{time.Since(began), processTime() - cpu}, err
}

// processTime is what the process used of processors, in its own code and in the kernel's.
func processTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for wrong arguments only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// endToEnd is from the first publication to the last record in the store.
func endToEnd(ctx context.Context, folder string, messages []message) (took, error) {
	t, err := newTransport(folder)
	if err != nil {
		return took{}, err
	}
	defer t.close()
	a, err := newApplier()
	if err != nil {
		return took{}, err
	}
	c, stop := t.start(ctx, collect.DefaultPartitions(), a)
	defer stop()
	select { // the stream is there
	case <-c.Ready():
	case <-ctx.Done():
		return took{}, ctx.Err()
	}
	return timed(func() error {
		if err := t.publish(ctx, messages); err != nil {
			return err
		}
		return a.arrived(ctx, len(messages))
	})
}

// storeAlone is the same records into the store, without a server between.
func storeAlone(messages []message) (took, error) {
	a, err := newApplier()
	if err != nil {
		return took{}, err
	}
	return timed(func() error { return a.fill(messages) })
}

// fill applies records as they are.
func (a *applier) fill(messages []message) error {
	for i := range messages {
		h, body, _, err := record.Decode(messages[i].encoded)
		if err != nil {
			return err
		}
		if a.Apply(h, body, time.Time{}) != collect.Applied {
			return fmt.Errorf("a %s record of switch %d was not taken", h.Kind, h.Switch)
		}
	}
	return nil
}
