package forward

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/traffic"
	"github.com/weirswitch/weir/pipeline/header"
)

// floodShare and legitimateShare of the device's MRR are offered by the hostile host and by the source while one floods.
const (
	floodShare      = 0.1
	legitimateShare = 0.5
)

// portC is the device's port towards a hostile host, in a run with floods.
const portC = "p2"

// flood is a kind of packets that a hostile host sends.
type flood struct {
	name, about string
	// write makes a frame of floodFrame bytes for the sink's station.
	write func(frame []byte, to net.HardwareAddr, r *rand.Rand)
}

// floodFrame is the length of a frame without the frame check sequence.
const floodFrame = 60

// floods in the order of the table.
var floods = []flood{
	{"none", "nothing: the measure of the others", nil},
	{"mac", "from and to stations that there are not, another pair each", func(f []byte, _ net.HardwareAddr, r *rand.Rand) {
		ipv4(f, station(r), 17, 0, r)
		copy(f, station(r))
	}},
	{"arp", "ARP requests to all, each by another station", func(f []byte, _ net.HardwareAddr, r *rand.Rand) {
		from := station(r)
		copy(f, []byte{255, 255, 255, 255, 255, 255})
		copy(f[6:], from)
		copy(f[12:], []byte{0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1})
		copy(f[22:], from)
		binary.BigEndian.PutUint32(f[28:], 10<<24|r.Uint32()>>8)
		clear(f[32:])
		binary.BigEndian.PutUint32(f[38:], 10<<24|r.Uint32()>>8)
	}},
	{"syn", "the first segments of TCP connections, another one each", func(f []byte, to net.HardwareAddr, r *rand.Rand) {
		ipv4(f, hostile, 6, 0, r)
		copy(f, to)
		f[46], f[47] = 0x50, 0x02
	}},
	{"fragments", "fragments of IPv4 datagrams that are never whole", func(f []byte, to net.HardwareAddr, r *rand.Rand) {
		ipv4(f, hostile, 17, uint16(r.Uint32())|0x2000, r)
		copy(f, to)
	}},
	{"shims", "digests that no switch has written", func(f []byte, to net.HardwareAddr, r *rand.Rand) {
		inner := f[header.EthernetLen+header.ShimLen(2)-2:]
		binary.BigEndian.PutUint64(inner, r.Uint64())
		copy(f, to)
		copy(f[6:], hostile)
		binary.BigEndian.PutUint16(f[12:], header.TypeShim)
		s := header.NewShim(f[14:], 2, uint16(r.Uint32()))
		binary.BigEndian.PutUint32(s[1:], r.Uint32()) // any hop, plan and digest
		binary.BigEndian.PutUint16(s[len(s)-2:], 0x0800)
	}},
	{"flows", "datagrams, each of another flow", func(f []byte, to net.HardwareAddr, r *rand.Rand) {
		ipv4(f, hostile, 17, 0, r)
		copy(f, to)
	}},
}

// hostile is the station of the hostile host where it has one.
var hostile = net.HardwareAddr{2, 0, 0, 0xbe, 0xef, 1}

// station is any unicast address.
func station(r *rand.Rand) net.HardwareAddr {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], r.Uint64())
	b[0] = b[0]&^1 | 2
	return b[:6]
}

// ipv4 writes an IPv4 packet between any two hosts and ports of 10.0.0.0/8.
func ipv4(f []byte, from net.HardwareAddr, protocol byte, fragment uint16, r *rand.Rand) {
	copy(f[6:], from)
	ip := f[header.EthernetLen:]
	copy(f[12:], []byte{0x08, 0, 0x45, 0, 0, floodFrame - header.EthernetLen, 0, 0, 0, 0, 64, protocol, 0, 0})
	binary.BigEndian.PutUint16(ip[4:], uint16(r.Uint32()))
	binary.BigEndian.PutUint16(ip[6:], fragment)
	binary.BigEndian.PutUint32(ip[12:], 10<<24|r.Uint32()>>8)
	binary.BigEndian.PutUint32(ip[16:], 10<<24|r.Uint32()>>8)
	binary.BigEndian.PutUint16(ip[10:], header.Checksum(ip[:20]))
	binary.BigEndian.PutUint64(ip[20:], r.Uint64())
	clear(ip[28:])
	binary.BigEndian.PutUint16(ip[24:], floodFrame-header.EthernetLen-20)
}

// Floods names all kinds of floods.
func Floods() []string {
	names := make([]string, len(floods))
	for i, f := range floods {
		names[i] = f.name
	}
	return names
}

// AboutFlood says in a clause what a flood is.
func AboutFlood(name string) string {
	for _, f := range floods {
		if f.name == name {
			return f.about
		}
	}
	return ""
}

// Flooded is what became of the source's packets while a hostile host flooded.
type Flooded struct {
	Flood string  `json:"flood"`
	Rate  float64 `json:"rate"` // of the flood, packets per second that were sent
	// Legitimate packets: their rate, the share that was lost, and the share that the hostile host got as well.
	Legitimate float64 `json:"legitimate"`
	Loss       float64 `json:"loss"`
	Leaked     float64 `json:"leaked"`
	P50        float64 `json:"p50"` // ns
	P99        float64 `json:"p99"`
}

// attacker is the hostile host: it sends, and counts which of the source's packets it gets.
type attacker struct {
	ns    *netns.Namespace
	fd    int
	sink  *traffic.XDPSink
	cores unix.CPUSet
}

// newAttacker opens the hostile host's side of its cable.
func (r *rig) newAttacker() (*attacker, error) {
	a := &attacker{ns: r.hostile, fd: -1, cores: onCores(r.cores.Source)}
	port := traffic.Port{Namespace: a.ns, Interface: outside, Core: r.cores.Source}
	link, err := a.ns.Link(outside)
	if err != nil {
		return nil, err
	}
	if a.sink, err = traffic.NewXDPSink(port, r.workload, traffic.SinkOptions{Duplicates: true}, false); err != nil {
		return nil, err
	}
	err = a.ns.Do(func() (err error) {
		a.fd, err = traffic.PacketSocket(link.Attrs().Index, 0, traffic.SocketOption{Level: unix.SOL_PACKET, Name: unix.PACKET_QDISC_BYPASS, Value: 1})
		return err
	})
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

func (a *attacker) close() error {
	err := a.sink.Close()
	if a.fd >= 0 {
		err = errors.Join(err, unix.Close(a.fd))
	}
	return err
}

// floodBatch frames go with one system call, after a sleep of floodPause: beside the source, on its core, the hostile host must not take turns
// of milliseconds.
const (
	floodBatch = 64
	floodPause = 200 * time.Microsecond
)

// send floods until the context ends, and returns how many packets were sent. What a full ring refuses is not sent again.
func (a *attacker) send(ctx context.Context, f *flood, rate float64, to net.HardwareAddr, random *rand.Rand) (sent uint64, err error) {
	if f.write == nil {
		return 0, nil
	}
	frames := traffic.NewFrames(floodBatch, floodFrame)
	pacer := traffic.NewPacer(traffic.Load{Rate: rate, CatchUp: floodBatch})
	start := time.Now()
	for ctx.Err() == nil {
		n, wait := pacer.Due(uint64(time.Since(start)), floodBatch)
		if n == 0 {
			pause := unix.NsecToTimespec(int64(max(time.Duration(wait), floodPause)))
			_ = unix.Nanosleep(&pause, nil) // a signal only makes the loop look again
			continue
		}
		for i := range n {
			f.write(frames.Buffer(i)[:floodFrame], to, random)
		}
		for done := 0; done < n; {
			went, errno := frames.Send(a.fd, done, n)
			switch errno {
			case 0:
				done += went
				sent += uint64(went)
			case unix.EINTR, unix.EAGAIN:
			case unix.ENOBUFS:
				done++
			default:
				return sent, fmt.Errorf("flood: sendmmsg: %w", errno)
			}
		}
	}
	return sent, nil
}

// floodAll measures the source's packets under each flood, unless none has passed the device without.
func (r *rig) floodAll(ctx context.Context, c *Config, s *Sample) error {
	if s.MRR == 0 {
		return nil // no share of it is a load
	}
	a, err := r.newAttacker()
	if err != nil {
		return err
	}
	defer a.close()
	for i := range floods {
		f := &floods[i]
		if !slices.Contains(c.Floods, f.name) {
			continue
		}
		result, err := r.underFlood(ctx, c, a, f, s.MRR)
		if err != nil {
			return err
		}
		s.Floods = append(s.Floods, *result)
	}
	return nil
}

// underFlood offers the source's load while the hostile host sends.
func (r *rig) underFlood(ctx context.Context, c *Config, a *attacker, f *flood, capacity float64) (*Flooded, error) {
	if err := a.sink.Reset(); err != nil {
		return nil, err
	}
	flooding, stop := context.WithCancel(ctx)
	defer stop()
	var sent uint64
	var sendErr error
	var sending sync.WaitGroup
	began := time.Now()
	sending.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		sendErr = a.ns.Do(func() error {
			return bind(a.cores, func() (err error) {
				sent, err = a.send(flooding, f, floodShare*capacity, r.workload.Destination.MAC, rand.New(rand.NewPCG(c.Seed, 26)))
				return err
			})
		})
	})
	if f.write != nil {
		time.Sleep(c.Trial / 4) // the flood is there first, and has filled what it fills
	}
	t, err := r.offer(ctx, legitimateShare*capacity, c.Trial)
	stop()
	sending.Wait()
	took := time.Since(began)
	if err = errors.Join(err, sendErr); err != nil {
		return nil, err
	}
	leaked, err := a.sink.Report()
	if err != nil {
		return nil, err
	}
	d := delayOf(0, t)
	return &Flooded{
		Flood: f.name, Rate: float64(sent) / took.Seconds(), Legitimate: t.sent.Rate, Loss: t.loss(),
		Leaked: float64(leaked.Unique()) / max(float64(t.sent.Packets), 1), P50: d.P50, P99: d.P99,
	}, nil
}

// addFloods adds the figures of a device under each flood, medians over the rounds.
func addFloods(r *bench.Result, base string, samples []Sample) {
	for _, f := range floods {
		var of []Flooded
		for i := range samples {
			for _, x := range samples[i].Floods {
				if x.Flood == f.name {
					of = append(of, x)
				}
			}
		}
		if len(of) == 0 {
			continue
		}
		middle := func(get func(*Flooded) float64) float64 {
			values := make([]float64, len(of))
			for i := range of {
				values[i] = get(&of[i])
			}
			return median(values)
		}
		rate := middle(func(f *Flooded) float64 { return f.Rate })
		about := fmt.Sprintf("%.0f pps of the source, %.0f pps of the flood: %s", middle(func(f *Flooded) float64 { return f.Legitimate }), rate, f.about)
		name := base + "flood_" + f.name + "."
		r.Add(name+"loss", "share", middle(func(f *Flooded) float64 { return f.Loss }), about, bench.Lower)
		r.Add(name+"leaked", "share", middle(func(f *Flooded) float64 { return f.Leaked }), "of the source's packets, to the hostile host", bench.Lower)
		r.Add(name+"latency_p50", "ns", middle(func(f *Flooded) float64 { return f.P50 }), about, bench.Lower)
		r.Add(name+"latency_p99", "ns", middle(func(f *Flooded) float64 { return f.P99 }), about, bench.Lower)
		r.Add(name+"rate", "pps", rate, "of the flood", bench.Neither)
	}
}

// checkFloods reports what is wrong with a run with floods.
func (c *Config) checkFloods(fault func(format string, args ...any)) {
	if len(c.Floods) == 0 {
		return
	}
	for _, name := range c.Floods {
		if !slices.Contains(Floods(), name) {
			fault("flood: there is no flood %q: choose among %s", name, strings.Join(Floods(), ", "))
		}
	}
	if c.Ports != PortsVeth {
		fault("flood: it needs ports = %q", PortsVeth)
	}
	if c.Soak > 0 || c.Searches {
		fault("flood: it measures neither ndr nor a soak: leave searches off")
	}
	for _, name := range c.Devices {
		if slices.Contains(Devices(), name) && !slices.Contains(floodDevices(), name) {
			fault("flood: %s has no third port: choose among %s", name, strings.Join(floodDevices(), ", "))
		}
	}
}

// floodDevices names the devices that have a third port.
func floodDevices() (names []string) {
	for _, d := range devices {
		if d.third {
			names = append(names, d.name)
		}
	}
	return names
}
