package traffic

import (
	"context"
	"fmt"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/xsk"
)

// OpenPort opens an interface of a network namespace, under "" of the calling thread's. The port's Namespace must be
// closed at the end.
func OpenPort(namespace, device string, core int) (Port, error) {
	open := netns.Current
	if namespace != "" {
		open = func() (*netns.Namespace, error) { return netns.Open(namespace) }
	}
	ns, err := open()
	if err != nil {
		return Port{}, err
	}
	if _, err := ns.Link(device); err != nil {
		ns.Close()
		return Port{}, err
	}
	return Port{Namespace: ns, Interface: device, Core: core}, nil
}

// NewSource makes a source by the name of its kind: live, xsk on a queue of the interface, or packet.
func NewSource(kind string, port Port, queue int, w Workload) (Source, error) {
	switch kind {
	case "live":
		return orNil[Source](NewLiveSource(port, w))
	case "xsk":
		return orNil[Source](NewXSKSource(port, queue, w, xsk.Auto))
	case "packet":
		return orNil[Source](NewPacketSource(port, w))
	}
	return nil, fmt.Errorf("source %q: choose live, xsk or packet", kind)
}

// NewSink makes a sink by the name of its kind: xdp, tc or packet. generic is the kernel's generic XDP, of kind xdp.
func NewSink(kind string, port Port, w Workload, generic bool) (Sink, error) {
	options := DefaultSinkOptions()
	switch kind {
	case "xdp":
		return orNil[Sink](NewXDPSink(port, w, options, generic))
	case "tc":
		return orNil[Sink](NewTCSink(port, w, options))
	case "packet":
		return orNil[Sink](NewPacketSink(port, w, options))
	}
	return nil, fmt.Errorf("sink %q: choose xdp, tc or packet", kind)
}

// orNil returns a nil interface with an error: a nil pointer in an interface is not nil.
func orNil[I, T any](made T, err error) (I, error) {
	var none I
	if err != nil {
		return none, err
	}
	return any(made).(I), nil
}

// End says when receiving ends. What is 0 ends nothing.
type End struct {
	Duration time.Duration
	Count    uint64        // of packets, without duplicates
	Idle     time.Duration // without a packet behind the first one
}

// Receive takes a sink's report ten times a second until an end has come, or ctx ends, and returns the last one.
func Receive(ctx context.Context, sink Sink, end End) (*Report, error) {
	start, changed, last := time.Now(), time.Now(), uint64(0)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		done := false
		select {
		case <-ctx.Done():
			done = true
		case <-tick.C:
		}
		r, err := sink.Report()
		if err != nil {
			return nil, err
		}
		if r.Packets != last {
			last, changed = r.Packets, time.Now()
		}
		switch {
		case done,
			end.Duration > 0 && time.Since(start) >= end.Duration,
			end.Count > 0 && r.Unique() >= end.Count,
			end.Idle > 0 && last > 0 && time.Since(changed) >= end.Idle:
			return r, nil
		}
	}
}
