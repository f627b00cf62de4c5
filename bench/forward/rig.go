package forward

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/traffic"
)

// The interfaces of a rig.
const (
	outside = "eth0" // at the source and at the sink
	portA   = "p0"   // of the device, towards the source
	portB   = "p1"   // of the device, towards the sink
)

// rig is a device under test between a source and a sink, each in its own namespace.
//
//	source eth0 ---- p0 device p1 ---- eth0 sink
//	                    p2 ---- eth0 hostile host, in a run with floods
type rig struct {
	cores            Cores
	placement        Placement
	left, mid, right *netns.Namespace
	hostile          *netns.Namespace // of a hostile host at a third port; nil: there is none
	dir              string           // for the device's files

	workload traffic.Workload
	source   traffic.Source
	sink     *traffic.XDPSink
	next     uint64 // sequence number

	// tx and rx are the user's interfaces, to a device that is none of ours; nil: the rig made its own.
	tx, rx *traffic.Port
}

// newRig makes namespaces and cables, with a third one for floods. The device comes next, and then start.
func newRig(cores Cores, placement Placement, w traffic.Workload, dir string, floods bool) (_ *rig, err error) {
	r := &rig{cores: cores, placement: placement, workload: w, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	type role struct {
		ns   **netns.Namespace
		role string
	}
	roles := []role{{&r.left, "source"}, {&r.mid, "dut"}, {&r.right, "sink"}}
	if floods {
		roles = append(roles, role{&r.hostile, "hostile"})
	}
	for _, n := range roles {
		if *n.ns, err = netns.Create(namespaceName(n.role)); err != nil {
			return nil, err
		}
		if err := (*n.ns).DisableIPv6(); err != nil {
			return nil, err
		}
	}
	if err := cable(r.left, w.Source.MAC, r.mid, portA); err != nil {
		return nil, err
	}
	if err := cable(r.right, w.Destination.MAC, r.mid, portB); err != nil || !floods {
		return r, err
	}
	return r, cable(r.hostile, hostile, r.mid, portC)
}

// ports are the device's.
func (r *rig) ports() []string {
	if r.hostile != nil {
		return []string{portA, portB, portC}
	}
	return []string{portA, portB}
}

// cable joins a host with an address to a port of the device. Offloads are those that each
// device needs: whole frames, and NAPI at both ends, so that XDP may redirect.
func cable(host *netns.Namespace, mac net.HardwareAddr, device *netns.Namespace, port string) error {
	err := netns.AddVeth(netns.End{Namespace: host, Name: outside, MAC: mac}, netns.End{Namespace: device, Name: port}, netns.Veth{})
	return errors.Join(err,
		host.SetHostOffloads(outside), device.SetSwitchOffloads(port),
		host.SetARP(outside, false), device.SetARP(port, false),
		host.SetUp(outside), device.SetUp(port))
}

// start opens sink and source, and lets the device learn the addresses of both sides, as
// RFC 2544 has it (section 23, learning frames). A device that does not forward is noticed here.
func (r *rig) start(ctx context.Context) error {
	if r.placement == OnDevice {
		if err := r.moveReceiveWork(); err != nil {
			return err
		}
	}
	options := traffic.SinkOptions{Duplicates: true}
	var err error
	if r.sink, err = traffic.NewXDPSink(r.port(r.right), r.workload, options, false); err != nil {
		return err
	}
	source, err := traffic.NewLiveSource(r.port(r.left), r.workload)
	if err != nil {
		return err
	}
	r.source = source
	return r.learn(ctx)
}

// moveReceiveWork has threads on the device's core receive for its ports.
func (r *rig) moveReceiveWork() error {
	for _, name := range r.ports() {
		port := traffic.Port{Namespace: r.mid, Interface: name, Core: r.cores.Device}
		if err := traffic.SetThreaded(port, true); err != nil {
			return err
		}
		threads, err := traffic.ReceiveThreads(port)
		if err != nil {
			return err
		}
		for _, id := range threads {
			if err := favour(id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *rig) port(ns *netns.Namespace) traffic.Port {
	switch {
	case r.tx != nil && ns == r.left:
		return *r.tx
	case r.rx != nil && ns == r.right:
		return *r.rx
	}
	return traffic.Port{Namespace: ns, Interface: outside, Core: r.cores.Source}
}

// learn sends each direction until packets arrive.
func (r *rig) learn(ctx context.Context) error {
	back := r.workload
	back.Reversed = true
	sink, err := traffic.NewPacketSink(r.port(r.left), back, traffic.SinkOptions{})
	if err != nil {
		return err
	}
	defer sink.Close()
	source, err := traffic.NewPacketSource(r.port(r.right), back)
	if err != nil {
		return err
	}
	defer source.Close()
	addresses := max(r.workload.Source.MACs, r.workload.Destination.MACs)
	load := traffic.Load{Rate: 20_000, Count: uint64(max(100, 4*addresses))}
	deadline := time.Now().Add(startWait)
	for try := 0; try < 2 || time.Now().Before(deadline); try++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		sent, err := source.Run(ctx, load)
		if err != nil {
			return err
		}
		load.FirstSeq = sent.NextSeq
		if _, err := r.offer(ctx, 20_000, time.Duration(load.Count)*50*time.Microsecond); err != nil {
			return err
		}
		there, err := r.sink.Report()
		if err != nil {
			return err
		}
		here, err := sink.Report()
		if err != nil {
			return err
		}
		if there.Packets > 0 && here.Packets > 0 && try > 0 {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("the device under test does not forward in both directions")
}

// trial is what one run of the source brought.
type trial struct {
	sent traffic.Sent
	got  *traffic.Report
	cpu  traffic.CPUUsage // while the source sent
}

// loss is the share of the packets handed to the first cable that did not reach the sink. What the
// cable itself refused counts: a device that does not empty its ring in time loses packets.
func (t *trial) loss() float64 {
	if t.sent.Packets == 0 {
		return 0
	}
	return float64(t.got.Lost(t.sent.Packets)) / float64(t.sent.Packets)
}

// settled is for how long nothing must have arrived before a trial is over.
const settled = 30 * time.Millisecond

// offer sends at a rate in packets per second, 0 as fast as possible, and waits for the last packet.
func (r *rig) offer(ctx context.Context, rate float64, duration time.Duration) (*trial, error) {
	if err := r.sink.Reset(); err != nil {
		return nil, err
	}
	before, err := traffic.ReadCPU()
	if err != nil {
		return nil, err
	}
	sent, err := r.source.Run(ctx, traffic.Load{Rate: rate, Duration: duration, FirstSeq: r.next})
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	after, err := traffic.ReadCPU()
	if err != nil {
		return nil, err
	}
	r.next = sent.NextSeq
	got, err := r.settle(sent.Packets)
	return &trial{sent, got, after.Since(before)}, err
}

// settle waits until all packets have arrived or no more come.
func (r *rig) settle(sent uint64) (*traffic.Report, error) {
	var got *traffic.Report
	for last, quiet := uint64(0), time.Duration(0); quiet < settled; {
		var err error
		if got, err = r.sink.Report(); err != nil {
			return nil, err
		}
		if got.Unique() >= sent {
			break
		}
		const step = 5 * time.Millisecond
		if quiet += step; got.Packets != last {
			last, quiet = got.Packets, 0
		}
		time.Sleep(step)
	}
	return got, nil
}

// close undoes everything, also a half-made rig. The device must have been stopped.
func (r *rig) close() error {
	var errs []error
	if r.source != nil {
		errs = append(errs, r.source.Close())
	}
	if r.sink != nil {
		errs = append(errs, r.sink.Close())
	}
	for _, ns := range []*netns.Namespace{r.left, r.mid, r.right, r.hostile} {
		switch {
		case ns == nil:
		case r.tx != nil:
			ns.Close() // the user's
		default:
			errs = append(errs, ns.Delete())
		}
	}
	return errors.Join(errs...)
}
