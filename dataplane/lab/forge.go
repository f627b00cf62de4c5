package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/traffic"
	"github.com/weirswitch/weir/pipeline/header"
	"golang.org/x/sys/unix"
)

// Forged is what became of one kind of forged frames.
type Forged struct {
	Kind    string `json:"kind"`
	Sent    uint64 `json:"sent"`
	Crossed uint64 `json:"crossed"`      // arrived at a host that must not get any, or came back from there
	At      string `json:"at,omitempty"` // the host at which the first one arrived
}

// A forged frame has forgedSize bytes. The last ones are its mark: a secret of the load, its kind and its number. Whatever becomes of its headers, and also if an error
// quotes it, a frame with the secret comes from it.
const (
	forgedSize = 158 // what is behind a neighbour advertisement's first option is a multiple of 8, as an option is
	markSize   = 16
)

// forger builds forged frames from one host against another one.
type forger struct {
	own, next, victim       net.HardwareAddr
	ownIP, victimIP, router netip.Addr
	ownIP6, victimIP6       netip.Addr // the zero Addr: it has none
	vlans                   []int
	vnis                    []int
	underlay, outside       []netip.Addr
	secret                  uint64
}

// forgeries are all kinds, in the order in which they are sent. A kind whose means a load does not have is left out.
var forgeries = []struct {
	name  string
	has   func(*forger) bool
	build func(g *forger, f []byte, n int) // n counts the frames of the kind
}{
	// Frames straight to the victim, which a bridge would deliver or flood.
	{"neighbour", always, func(g *forger, f []byte, n int) {
		ethernet(f, g.either(n), g.own, unix.ETH_P_IP)
		udp4(f[14:], g.ownIP, g.victimIP, 9, 9)
	}},
	// A request to the router that seems to come from the victim: the answer would go there.
	{"source-address", (*forger).routes, func(g *forger, f []byte, _ int) {
		ethernet(f, g.next, g.own, unix.ETH_P_IP)
		echo4(f[14:], g.victimIP, g.router)
	}},
	{"routed", (*forger).routes, func(g *forger, f []byte, n int) {
		if n%2 == 1 && g.both6() {
			ethernet(f, g.next, g.own, unix.ETH_P_IPV6)
			udp6(f[14:], g.ownIP6, g.victimIP6, 9, 9)
			return
		}
		ethernet(f, g.next, g.own, unix.ETH_P_IP)
		udp4(f[14:], g.ownIP, g.victimIP, 9, 9)
	}},
	{"vlan", (*forger).tags, func(g *forger, f []byte, n int) {
		ethernet(f, g.either(n), g.own, unix.ETH_P_8021Q)
		tag(f[14:], pick(g.vlans, n/2), unix.ETH_P_IP)
		udp4(f[18:], g.ownIP, g.victimIP, 9, 9)
	}},
	{"double-tag", (*forger).tags, func(g *forger, f []byte, n int) {
		protocol := []int{unix.ETH_P_8021Q, unix.ETH_P_8021AD}[n/2%2]
		ethernet(f, g.either(n), g.own, protocol)
		tag(f[14:], pick(g.vlans, n/4), unix.ETH_P_8021Q)
		tag(f[18:], pick(g.vlans, n/4/len(g.vlans)), unix.ETH_P_IP)
		udp4(f[22:], g.ownIP, g.victimIP, 9, 9)
	}},
	// Tunnels to the ends of the underlay, from the host or as if from another end.
	{"vxlan", (*forger).tunnels, func(g *forger, f []byte, n int) { g.tunnel(f, n, 4789) }},
	{"geneve", (*forger).tunnels, func(g *forger, f []byte, n int) { g.tunnel(f, n, 6081) }},
	// The victim's address is here.
	{"arp", always, func(g *forger, f []byte, n int) {
		ethernet(f, g.either(n), g.own, unix.ETH_P_ARP)
		copy(f[14:], []byte{0, 1, 8, 0, 6, 4, 0, byte(1 + n/2%2)}) // a request, which announces, or a reply
		copy(f[22:], g.own)
		copy(f[28:], g.victimIP.AsSlice())
		copy(f[32:], g.either(n))
		copy(f[38:], g.victimIP.AsSlice())
	}},
	{"neighbour-discovery", (*forger).both6, func(g *forger, f []byte, n int) {
		ethernet(f, []net.HardwareAddr{g.victim, {0x33, 0x33, 0, 0, 0, 1}}[n%2], g.own, unix.ETH_P_IPV6)
		advertise(f[14:], g.victimIP6, []netip.Addr{g.victimIP6, netip.MustParseAddr("ff02::1")}[n%2], g.own)
	}},
	// To addresses that stand for others: no connection has begun from inside.
	{"outside-address", (*forger).translated, func(g *forger, f []byte, n int) {
		ethernet(f, g.next, g.own, unix.ETH_P_IP)
		udp4(f[14:], g.ownIP, pick(g.outside, n), 53, uint16(1024+n/len(g.outside)*7919%64512))
	}},
	// The victim's MAC address as the source, last: bridges would look for it here then.
	{"source-mac", always, func(g *forger, f []byte, n int) {
		ethernet(f, []net.HardwareAddr{g.next, g.either(1)}[n%2], g.victim, unix.ETH_P_IP)
		udp4(f[14:], g.ownIP, g.victimIP, 9, 9)
	}},
}

func always(*forger) bool          { return true }
func (g *forger) routes() bool     { return g.router.IsValid() }
func (g *forger) both6() bool      { return g.ownIP6.IsValid() && g.victimIP6.IsValid() }
func (g *forger) tags() bool       { return len(g.vlans) > 0 }
func (g *forger) tunnels() bool    { return len(g.vnis) > 0 && len(g.underlay) > 0 }
func (g *forger) translated() bool { return len(g.outside) > 0 && g.routes() }

func pick[T any](list []T, n int) T { return list[n%len(list)] }

// either is the victim's MAC address or that of all.
func (g *forger) either(n int) net.HardwareAddr {
	if n%2 == 0 {
		return g.victim
	}
	return net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
}

// tunnel writes a frame in VXLAN (RFC 7348), or in Geneve (RFC 8926) without options.
func (g *forger) tunnel(f []byte, n int, port uint16) {
	from, to := g.ownIP, pick(g.underlay, n)
	if n/2%2 == 1 {
		from = pick(g.underlay, n+1)
	}
	ethernet(f, g.next, g.own, unix.ETH_P_IP)
	udp4(f[14:], from, to, 50000, port)
	t := f[14+20+8:]
	if port == 4789 {
		copy(t, []byte{8, 0, 0, 0})
	} else {
		copy(t, []byte{0, 0, 0x65, 0x58})
	}
	binary.BigEndian.PutUint32(t[4:], uint32(pick(g.vnis, n/4))<<8)
	ethernet(t[8:], g.either(n/4/len(g.vnis)), g.own, unix.ETH_P_IP)
	udp4(t[22:], g.ownIP, g.victimIP, 9, 9)
}

// build writes the n-th frame of a kind.
func (g *forger) build(f []byte, kind int, n uint64) {
	clear(f)
	binary.BigEndian.PutUint64(f[len(f)-markSize:], g.secret)
	binary.BigEndian.PutUint64(f[len(f)-markSize+8:], uint64(kind)<<56|n)
	forgeries[kind].build(g, f, int(n))
}

func ethernet(f []byte, to, from net.HardwareAddr, protocol int) {
	copy(f, to)
	copy(f[6:], from)
	binary.BigEndian.PutUint16(f[12:], uint16(protocol))
}

// tag writes the rest of a tag: the VLAN, and the type behind it.
func tag(f []byte, vlan, protocol int) {
	binary.BigEndian.PutUint16(f, uint16(vlan))
	binary.BigEndian.PutUint16(f[2:], uint16(protocol))
}

// ip4 writes an IPv4 header in front of all that is behind it.
func ip4(f []byte, from, to netip.Addr, protocol byte) {
	f[0] = 0x45
	binary.BigEndian.PutUint16(f[2:], uint16(len(f)))
	f[8], f[9] = 64, protocol
	copy(f[12:], from.AsSlice())
	copy(f[16:], to.AsSlice())
	binary.BigEndian.PutUint16(f[10:], header.Checksum(f[:20]))
}

// udp4 writes headers without a checksum of UDP.
func udp4(f []byte, from, to netip.Addr, fromPort, toPort uint16) {
	ip4(f, from, to, unix.IPPROTO_UDP)
	binary.BigEndian.PutUint16(f[20:], fromPort)
	binary.BigEndian.PutUint16(f[22:], toPort)
	binary.BigEndian.PutUint16(f[24:], uint16(len(f)-20))
}

func echo4(f []byte, from, to netip.Addr) {
	ip4(f, from, to, unix.IPPROTO_ICMP)
	f[20] = echoes[4].request
	binary.BigEndian.PutUint16(f[22:], header.Checksum(f[20:]))
}

func ip6(f []byte, from, to netip.Addr, protocol uint8, hops uint8, length int) {
	f[0], f[6], f[7] = 0x60, protocol, hops
	binary.BigEndian.PutUint16(f[4:], uint16(length))
	copy(f[8:], from.AsSlice())
	copy(f[24:], to.AsSlice())
}

func udp6(f []byte, from, to netip.Addr, fromPort, toPort uint16) {
	ip6(f, from, to, unix.IPPROTO_UDP, 64, len(f)-40)
	binary.BigEndian.PutUint16(f[40:], fromPort)
	binary.BigEndian.PutUint16(f[42:], toPort)
	binary.BigEndian.PutUint16(f[44:], uint16(len(f)-40))
	checksum6(f, 46, unix.IPPROTO_UDP)
}

// advertise writes a neighbour advertisement (RFC 4861, 4.4) with the target's MAC address. The mark is in an option for experiments (RFC 4727, 5), as a bridge
// may cut off padding.
func advertise(f []byte, target, to netip.Addr, mac net.HardwareAddr) {
	ip6(f, target, to, unix.IPPROTO_ICMPV6, 255, len(f)-40)
	copy(f[40:], []byte{136, 0, 0, 0, 0x20})
	copy(f[48:], target.AsSlice())
	copy(f[64:], []byte{2, 1})
	copy(f[66:], mac)
	copy(f[72:], []byte{253, byte((len(f) - 72) / 8)})
	checksum6(f, 42, unix.IPPROTO_ICMPV6)
}

// checksum6 fills in the checksum of what is behind an IPv6 header, with the pseudo-header (RFC 8200, 8.1).
func checksum6(f []byte, at int, protocol uint8) {
	sum := slices.Clone(f[8:40])
	sum = binary.BigEndian.AppendUint32(sum, uint32(len(f)-40))
	sum = append(sum, 0, 0, 0, protocol)
	binary.BigEndian.PutUint16(f[at:], header.Checksum(append(sum, f[40:]...)))
}

// newForger looks up what a load's frames are made of.
func (l *Lab) newForger(t *Traffic) (*forger, error) {
	from, to := l.config.host(t.From), l.config.host(t.To)
	g := &forger{vlans: t.VLANs, vnis: t.VNIs, secret: rand.Uint64()}
	var err, victimErr error
	g.own, err = l.spaces[t.From].MAC(hostInterface)
	g.victim, victimErr = l.spaces[t.To].MAC(hostInterface)
	if err := errors.Join(err, victimErr); err != nil {
		return nil, err
	}
	g.ownIP, _ = from.address(4)
	g.victimIP, _ = to.address(4)
	g.ownIP6, _ = from.address(6)
	g.victimIP6, _ = to.address(6)
	for _, text := range t.Underlay {
		g.underlay = append(g.underlay, netip.MustParseAddr(text)) // it was validated
	}
	for _, text := range t.OutsideAddresses {
		g.outside = append(g.outside, netip.MustParseAddr(text))
	}
	g.next = g.victim
	if router, err := netip.ParseAddr(from.Gateway); err == nil && router.Is4() {
		g.router = router
		if g.next, err = askMAC(l.spaces[t.From], g.own, g.ownIP, router); err != nil {
			return nil, fmt.Errorf("forged: the router of %s: %w", t.From, err)
		}
	}
	return g, nil
}

// forge sends forged frames, and looks at all hosts but the sender's peers for what came of them.
func (l *Lab) forge(ctx context.Context, t *Traffic, progress Progress, r *Result) error {
	g, err := l.newForger(t)
	if err != nil {
		return err
	}
	var kinds []int
	for i := range forgeries {
		if forgeries[i].has(g) {
			kinds = append(kinds, i)
			r.Forged = append(r.Forged, Forged{Kind: forgeries[i].name})
		}
	}
	w := &forgeryWatch{secret: binary.BigEndian.AppendUint64(nil, g.secret), crossed: make([]uint64, len(forgeries)), at: make([]string, len(forgeries))}
	for i := range l.config.Hosts {
		if name := l.config.Hosts[i].Name; name != t.From && !slices.Contains(t.Peers, name) {
			if err := w.watch(name, l.spaces[name]); err != nil {
				w.end()
				return err
			}
		}
	}
	meter := progress.Begin(fmt.Sprintf("forged %s -> %s, %d kinds", t.From, t.To, len(kinds)), int64(t.Count))
	defer meter.Done()
	sent, err := l.sendForged(ctx, t, g, kinds, meter)
	w.end()
	r.Sent, r.Flows = sent, len(kinds)
	for i := range r.Forged {
		f := &r.Forged[i]
		if at, n := share(uint64(t.Count), uint64(len(kinds)), sent); at == i {
			f.Sent = n
		} else if at > i {
			f.Sent = (uint64(t.Count) + uint64(len(kinds)-1-i)) / uint64(len(kinds))
		}
		f.Crossed, f.At = w.crossed[kinds[i]], w.at[kinds[i]]
		r.Crossed += f.Crossed
	}
	return err
}

// share says of which kind the number-th of count frames is, and the how-manieth of it: one kind follows the other, each with the same number of frames, but the
// first ones with one more if there is a rest.
func share(count, kinds, number uint64) (kind int, n uint64) {
	each, rest := count/kinds, count%kinds
	if long := rest * (each + 1); number >= long {
		if each == 0 {
			return int(kinds), 0
		}
		return int(rest + (number-long)/each), (number - long) % each
	}
	return int(number / (each + 1)), number % (each + 1)
}

const (
	// forgedWindow frames are sent before an answer of the router has to follow them, so that no queue overflows where a switch waits for a processor: what is lost
	// there would prove nothing.
	forgedWindow = 256
	// forgedQuiet is how long frames that must not arrive are waited for behind the last answer.
	forgedQuiet = 300 * time.Millisecond
)

func (l *Lab) sendForged(ctx context.Context, t *Traffic, g *forger, kinds []int, meter Meter) (sent uint64, err error) {
	fd, err := flowSocket(&load{source: l.spaces[t.From]}, true)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	barrier, err := l.newBarrier(t, g)
	if err != nil {
		return 0, err
	}
	defer barrier.close()
	v := traffic.NewFrames(flowBatch, forgedSize)
	pace := newWindow(1<<30, t.Rate, flowBurst, func() uint64 { return sent })
	for count := uint64(t.Count); sent < count; {
		n, err := pace.next(ctx, sent, int(min(flowBatch, count-sent)))
		if err != nil {
			return sent, err
		}
		for i := range n {
			at, n := share(uint64(t.Count), uint64(len(kinds)), sent+uint64(i))
			g.build(v.Buffer(i)[:forgedSize], kinds[at], n)
		}
		before := sent
		for taken := 0; taken < n; {
			took, errno := v.Send(fd, taken, n)
			switch errno {
			case 0:
				taken += took
				sent += uint64(took)
			case unix.ENOBUFS, unix.EAGAIN, unix.EINTR:
				if err := ctx.Err(); err != nil {
					return sent, err
				}
				doze()
			default:
				return sent, fmt.Errorf("forged: send: %w", errno)
			}
		}
		meter.Add(int64(sent - before))
		if sent/forgedWindow != before/forgedWindow || sent == count {
			if err := barrier.wait(ctx); err != nil {
				return sent, err
			}
		}
	}
	return sent, nil
}

// barrier asks the sender's router, or without one a peer, for an echo: once it has answered, it has passed all frames that were sent before.
type barrier struct {
	conn   net.PacketConn // nil: there is neither
	to     netip.Addr
	number uint16
}

func (l *Lab) newBarrier(t *Traffic, g *forger) (*barrier, error) {
	b := &barrier{to: g.router}
	for _, name := range t.Peers {
		if a, ok := l.config.host(name).address(4); ok && !b.to.IsValid() {
			b.to = a
		}
	}
	if !b.to.IsValid() {
		return b, nil
	}
	var err error
	b.conn, err = l.spaces[t.From].ListenPacket(echoes[4].network, g.ownIP.String())
	return b, err
}

func (b *barrier) close() {
	if b.conn != nil {
		_ = b.conn.Close()
	}
}

// barrierPatience is how often an answer is waited for a second: a switch may get no processor for seconds.
const barrierPatience = 20

// wait returns once the answer came.
func (b *barrier) wait(ctx context.Context) error {
	if b.conn == nil {
		return nil
	}
	buf := make([]byte, 2048)
	for range barrierPatience {
		b.number++
		m := make([]byte, echoHeader)
		m[0] = echoes[4].request
		binary.BigEndian.PutUint16(m[4:], uint16(os.Getpid()))
		binary.BigEndian.PutUint16(m[6:], b.number)
		binary.BigEndian.PutUint16(m[2:], header.Checksum(m))
		if _, err := b.conn.WriteTo(m, &net.IPAddr{IP: b.to.AsSlice()}); err != nil {
			return fmt.Errorf("forged: ask %v: %w", b.to, err)
		}
		_ = b.conn.SetReadDeadline(time.Now().Add(time.Second))
		for {
			n, _, err := b.conn.ReadFrom(buf)
			if isTimeout(err) {
				break
			}
			if err != nil {
				return fmt.Errorf("forged: wait for %v: %w", b.to, err)
			}
			if n >= echoHeader && buf[0] == echoes[4].reply && bytes.Equal(buf[4:8], m[4:8]) {
				return nil
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return fmt.Errorf("forged: %v answered no more, in %d s: what became of the frames is not known", b.to, barrierPatience)
}

// forgeryWatch looks for marks at hosts.
type forgeryWatch struct {
	secret []byte
	all    sync.WaitGroup
	stop   atomic.Bool

	mu      sync.Mutex
	crossed []uint64
	at      []string
}

// watch looks at all that a host's interface receives, until end.
func (w *forgeryWatch) watch(host string, ns *netns.Namespace) error {
	socket, err := ns.PacketSocket(hostInterface)
	if err != nil {
		return err
	}
	w.all.Go(func() {
		defer socket.Close()
		buf := make([]byte, 1<<16)
		var quiet time.Time // since the end
		for {
			_ = socket.SetDeadline(time.Now().Add(50 * time.Millisecond))
			n, err := socket.Receive(buf)
			if err == nil {
				w.look(host, buf[:n])
				continue
			}
			if !w.stop.Load() {
				continue
			}
			if quiet.IsZero() {
				quiet = time.Now()
			}
			if time.Since(quiet) > forgedQuiet {
				return
			}
		}
	})
	return nil
}

func (w *forgeryWatch) look(host string, frame []byte) {
	i := bytes.Index(frame, w.secret)
	if i < 0 {
		return
	}
	kind := 0 // also where an error quotes less than the whole mark
	if len(frame) >= i+markSize {
		kind = int(frame[i+8]) % len(w.crossed)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.crossed[kind]++; w.at[kind] == "" {
		w.at[kind] = host
	}
}

func (w *forgeryWatch) end() {
	w.stop.Store(true)
	w.all.Wait()
}

// carryForged carries the load out, into a result.
func (l *Lab) carryForged(ctx context.Context, t *Traffic, progress Progress) Result {
	r := Result{Kind: t.Kind, From: t.From, To: t.To, Began: time.Now()}
	err := l.forge(ctx, t, progress, &r)
	r.Ended = time.Now()
	r.Seconds = r.Ended.Sub(r.Began).Seconds()
	r.PacketsPerSec = float64(r.Sent) / r.Seconds
	if err != nil {
		r.ended(ctx, err)
	}
	return r
}

// forgedSentence is the outcome in one line.
func (r *Result) forgedSentence() string {
	var kinds, crossed []string
	for _, f := range r.Forged {
		kinds = append(kinds, fmt.Sprintf("%s %d", f.Kind, f.Sent))
		if f.Crossed > 0 {
			crossed = append(crossed, fmt.Sprintf("%d of %s, first at %s", f.Crossed, f.Kind, f.At))
		}
	}
	s := fmt.Sprintf("forged %s -> %s  %d frames, %d crossed (%s)", r.From, r.To, r.Sent, r.Crossed, strings.Join(kinds, ", "))
	if len(crossed) > 0 {
		s += "; crossed: " + strings.Join(crossed, "; ")
	}
	return s
}

// validateForged checks a load of kind forged, whose hosts exist.
func (c *Config) validateForged(f *faults, key string, t *Traffic) {
	for _, h := range []*Host{c.host(t.From), c.host(t.To)} {
		if _, ok := h.firstIPv4(); h != nil && !ok {
			f.add("%s.from: %s has no IPv4 address: give it one", key, h.Name)
		}
	}
	for i, name := range t.Peers {
		at := fmt.Sprintf("%s.peers[%d]", key, i)
		switch {
		case c.host(name) == nil:
			f.add("%s: %q is no host: %s", at, name, c.suggestHost(name))
		case name == t.To:
			f.add("%s: %q is the victim: leave it out", at, name)
		}
	}
	for i, vlan := range t.VLANs {
		if vlan < 1 || vlan > 4094 {
			f.add("%s.vlans[%d]: %d: choose 1 to 4094", key, i, vlan)
		}
	}
	for i, vni := range t.VNIs {
		if vni < 0 || vni > 1<<24-1 {
			f.add("%s.vnis[%d]: %d: choose 0 to %d", key, i, vni, 1<<24-1)
		}
	}
	if (len(t.VNIs) == 0) != (len(t.Underlay) == 0) {
		f.add("%s.vnis: forged tunnels need both vnis and underlay: give both, or neither", key)
	}
	if len(t.Underlay) > 0 || len(t.OutsideAddresses) > 0 {
		if h := c.host(t.From); h != nil && h.Gateway == "" {
			f.add("%s.from: %s has no gateway, by which it would reach underlay and outside_addresses: give it one", key, t.From)
		}
	}
	for name, list := range map[string][]string{"underlay": t.Underlay, "outside_addresses": t.OutsideAddresses} {
		for i, text := range list {
			a, err := netip.ParseAddr(text)
			if err != nil || !a.Is4() {
				f.add("%s.%s[%d]: %q: write an IPv4 address", key, name, i, text)
			}
		}
	}
}
