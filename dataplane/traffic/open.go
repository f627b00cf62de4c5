package traffic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/nic"
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
	if errors.Is(err, fs.ErrNotExist) {
		return Port{}, fmt.Errorf("there is no network namespace %q: create it (ip netns add %s) or correct the name (ip netns list shows what there is)", namespace, namespace)
	}
	if err != nil {
		return Port{}, err
	}
	if _, err := ns.Link(device); err != nil {
		ns.Close()
		return Port{}, err
	}
	return Port{Namespace: ns, Interface: device, Core: core}, nil
}

// Carries returns an error where a frame of a size, with frame check sequence and perhaps a VLAN tag, is longer than the MTU of the interface
// allows. The kernel drops such frames.
func (p Port) Carries(size int, tagged bool) error {
	link, err := p.Namespace.Link(p.Interface)
	if err != nil {
		return err
	}
	more := ethLen + FCS
	if tagged {
		more += 4 // VLAN_HLEN
	}
	mtu := link.Attrs().MTU
	if size <= mtu+more {
		return nil
	}
	return fmt.Errorf("frames of %d bytes are longer than %s carries, %d with its MTU of %d: choose smaller ones, or raise the MTU of all interfaces on the way (ip link set dev %s mtu %d)",
		size, p, mtu+more, mtu, p.Interface, size-more)
}

// NewSource makes a source by the name of its kind: live, xsk on a queue of the interface, or packet. Under "" it is the first of these that
// the interface takes and that holds the workload.
func NewSource(kind string, port Port, queue int, w Workload) (Source, error) {
	switch kind {
	case "":
		return newAnySource(port, queue, w)
	case "live":
		if takes, err := takesLive(port); err != nil || !takes {
			return nil, cmp.Or(err, fmt.Errorf("%s takes no live frames: its driver has no support, or of a veth the far end has neither an XDP program nor generic receive offload (ethtool -K FAR gro on): use source xsk or packet", port))
		}
		return orNil[Source](NewLiveSource(port, w))
	case "xsk":
		return orNil[Source](NewXSKSource(port, queue, w, xsk.Auto))
	case "packet":
		return orNil[Source](NewPacketSource(port, w))
	}
	return nil, fmt.Errorf("source %q: choose live, xsk or packet", kind)
}

// newAnySource tries the kinds, the fastest one first. AF_PACKET sends whatever a workload may have on any interface, so its error is the reason
// where none can be opened.
func newAnySource(port Port, queue int, w Workload) (source Source, err error) {
	for _, kind := range []string{"live", "xsk", "packet"} {
		if source, err = NewSource(kind, port, queue, w); err == nil {
			return source, nil
		}
	}
	return nil, err
}

// takesLive reports whether the kernel hands live frames to the interface: it drops them, uncounted, where the driver does not say that it
// takes redirected ones. A veth says so as long as its far end has an XDP program or generic receive offload. Before Linux 6.3 drivers say
// nothing: then every one but veth counts as taking them.
func takesLive(port Port) (takes bool, err error) {
	link, err := port.Namespace.Link(port.Interface)
	if err != nil {
		return false, err
	}
	err = port.Namespace.Do(func() error {
		x, err := nic.XDPFeatures(link.Attrs().Index)
		takes = x.Transmit
		if err != nil || !x.Known {
			takes = link.Type() != "veth"
		}
		return nil
	})
	return takes, err
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
	Idle     time.Duration // without a packet of the run, from the start on
	// Seen gets each report, if it is there.
	Seen func(*Report)
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
		if end.Seen != nil {
			end.Seen(r)
		}
		if r.Packets != last {
			last, changed = r.Packets, time.Now()
		}
		switch {
		case done,
			end.Duration > 0 && time.Since(start) >= end.Duration,
			end.Count > 0 && r.Unique() >= end.Count,
			end.Idle > 0 && time.Since(changed) >= end.Idle:
			return r, nil
		}
	}
}
