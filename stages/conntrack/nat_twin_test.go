package conntrack

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline/packet"
)

// natTwin is the translation again, slow and plain, around the twin, which follows connections by the addresses that their first packet has.
// Which outside port and which backend a connection gets is the stage's choice; the twin holds it to what is promised about it.
type natTwin struct {
	*twin
	now     uint32
	aliases map[string]flowEnds // by the connection's name: as its packets leave
	names   []string            // of aliases, some of which are gone
}

// flowEnds are both ends of a direction; of a query of ICMP the source port is the identifier.
type flowEnds struct{ src, dst netip.AddrPort }

func (f flowEnds) reversed() flowEnds { return flowEnds{f.dst, f.src} }

func (q *probe) ends() flowEnds {
	f := flowEnds{netip.AddrPortFrom(q.src, q.srcPort), netip.AddrPortFrom(q.dst, q.dstPort)}
	if q.proto == 1 {
		f.src, f.dst = netip.AddrPortFrom(q.src, 0), netip.AddrPortFrom(q.dst, 0)
		if q.icmpType == 8 {
			f.src = netip.AddrPortFrom(q.src, q.icmpID)
		} else {
			f.dst = netip.AddrPortFrom(q.dst, q.icmpID)
		}
	}
	return f
}

// with is the probe between other ends.
func (q probe) with(f flowEnds) probe {
	q.src, q.dst = f.src.Addr(), f.dst.Addr()
	if q.proto == 1 {
		q.icmpID = max(f.src.Port(), f.dst.Port()) // one of them is 0
		return q
	}
	q.srcPort, q.dstPort = f.src.Port(), f.dst.Port()
	return q
}

var (
	twinOutside = netip.MustParseAddr(outsideAddr)
	twinInside  = netip.MustParsePrefix("10.0.0.0/8")
	twinBackend = netip.MustParseAddrPort("10.0.0.100:3")
)

// translates reports what rules say of a first packet.
func (w *natTwin) translates(q *probe) (source, destination bool) {
	inside := q.port != 1 && twinInside.Contains(q.src)
	destination = q.dst == twinOutside && q.dstPort == 2 && (q.proto == 6 || q.proto == 17)
	source = inside && !twinInside.Contains(q.dst) && (q.dst != twinOutside || destination)
	return source, destination
}

// refuses is what the translation says of a first packet that the rules permit.
func (w *natTwin) refuses(q *probe) packet.Reason {
	source, destination := w.translates(q)
	switch {
	case !destination && q.dst == twinOutside && (q.proto == 6 || q.proto == 17) && q.dstPort >= 1024:
		return reasonUnmapped
	case source && q.proto != 6 && q.proto != 17 && q.proto != 1:
		return reasonUnsupported
	case destination && !source:
		// There is no other backend, so that the client cannot have two connections that leave alike. What is found to have expired goes.
		ends := q.ends()
		ends.dst = twinBackend
		leaves := q.with(ends)
		if c, _, _ := w.match(&leaves, w.now); c != nil {
			return reasonExhausted
		}
	}
	return 0
}

// match finds the living connection that has a packet, by the ends that it has on either side.
func (w *natTwin) match(q *probe, now uint32) (c *twinConn, dir uint8, alias bool) {
	if c, dir := w.find(q, q.port, now); c != nil {
		return c, dir, false
	}
	for name, a := range w.aliases {
		c := w.conns[name]
		if c == nil {
			delete(w.aliases, name) // it ended
			continue
		}
		if c.first.proto != q.proto {
			continue
		}
		for d, f := range []flowEnds{a, a.reversed()} {
			if f != q.ends() || q.proto == 1 && (q.icmpType == 8) != (d == 0) {
				continue
			}
			if int32(c.deadline-now) <= 0 {
				w.remove(c)
				return nil, 0, false
			}
			return c, uint8(d), true
		}
	}
	return nil, 0, false
}

// handle says what becomes of a packet, and how it leaves. begins: it may have begun a connection.
func (w *natTwin) handle(q *probe, now uint32) (r packet.Reason, leaves probe, begins bool) {
	w.now = now
	if q.about != nil {
		if q.dst != q.about.src {
			return reasonInvalid, *q, false
		}
		c, dir, alias := w.match(q.about, now)
		if c == nil {
			return reasonInvalid, *q, false
		}
		a, translated := w.aliases[c.name]
		if !translated {
			return 0, *q, false
		}
		if alias == (dir != 0) {
			return reasonInvalid, *q, false
		}
		sent := c.first.ends()
		if dir != 0 {
			sent = a.reversed()
		}
		inner := q.about.with(sent)
		out := *q
		out.about, out.dst = &inner, inner.src
		if inner.dst != q.about.dst {
			out.src = inner.dst
		}
		return 0, out, false
	}
	if q.src == q.dst && (q.proto == 1 || q.proto == 47 || q.srcPort == q.dstPort) {
		return reasonInvalid, *q, false
	}
	if q.proto == 6 {
		if s := q.segment(); validFlags>>(s.flags&0x37)&1 == 0 {
			return reasonInvalid, *q, false
		}
	}
	c, dir, alias := w.match(q, now)
	if c == nil {
		return w.process(q, now), *q, true
	}
	a, translated := w.aliases[c.name]
	if !translated {
		return w.process(q, now), *q, w.conns[c.name] == nil
	}
	switch {
	case !alias && dir == 0:
		r := w.process(q, now)
		return r, q.with(a), w.conns[c.name] != c
	case alias && dir != 0:
		back := q.with(c.first.ends().reversed())
		return w.process(&back, now), back, false
	}
	return reasonInvalid, *q, false
}

// learn notes how a connection that began is translated, which the stage chose, and holds it to what it must be.
func (w *natTwin) learn(t *testing.T, q *probe, frame []byte) {
	t.Helper()
	name, _ := w.name(q, q.port)
	if w.conns[name] == nil {
		return
	}
	delete(w.aliases, name)
	source, destination := w.translates(q)
	want := q.ends()
	ip := frame[14:]
	if destination {
		want.dst = twinBackend
	}
	if source {
		port := binary.BigEndian.Uint16(ip[20:])
		if q.proto == 1 {
			port = binary.BigEndian.Uint16(ip[24:])
		}
		want.src = netip.AddrPortFrom(twinOutside, port)
		if port < 1024 {
			t.Fatalf("outside port %d is below the range", port)
		}
		for other, a := range w.aliases {
			c := w.conns[other]
			if c == nil || c.first.proto != q.proto || a.src.Addr() != twinOutside {
				continue
			}
			if testWorkers > 1 && q.ends().src == twinBackend {
				continue // what a service begins from its own port has the home of the station that it speaks to
			}
			if same := c.first.ends().src == q.ends().src; same != (a.src == want.src) {
				t.Fatalf("%v became %v, and %v is %v", q.ends().src, want.src, c.first.ends().src, a.src)
			}
			if sameHost, sameBlock := c.first.src == q.src, (a.src.Port()-1024)/512 == (port-1024)/512; sameBlock && !sameHost {
				t.Fatalf("%v and %v share a block", q.src, c.first.src)
			}
		}
	}
	if want != q.ends() {
		w.aliases[name] = want
		w.names = append(w.names, name)
	}
}

func randomNATProbe(r *rand.Rand, w *natTwin) probe {
	q := randomProbe(r)
	for q.src.Is6() || q.fragment() {
		q = randomProbe(r)
	}
	place := func(a netip.Addr) netip.Addr {
		n := a.As4()[3]
		switch {
		case r.IntN(4) == 0:
			return twinOutside
		case r.IntN(3) != 0:
			return netip.AddrFrom4([4]byte{198, 51, 100, n})
		}
		return a
	}
	q.dst = place(q.dst)
	if q.port == 1 && r.IntN(8) != 0 {
		q.src = netip.AddrFrom4([4]byte{198, 51, 100, q.src.As4()[3]})
	}
	if q.dst == twinOutside && r.IntN(3) == 0 {
		q.dstPort = uint16(1024 + r.IntN(3000))
		if q.proto != 6 && q.proto != 17 {
			q.dstPort = 0
		}
	}
	if q.about != nil { // what randomProbe says about it is of other addresses
		q.dst = q.about.src
	}
	for len(w.names) != 0 && r.IntN(2) == 0 { // of a connection that is there, from one of its sides, or about it
		i := r.IntN(len(w.names))
		name := w.names[i]
		a, ok := w.aliases[name]
		c := w.conns[name]
		if !ok || c == nil {
			delete(w.aliases, name)
			w.names[i] = w.names[len(w.names)-1]
			w.names = w.names[:len(w.names)-1]
			continue
		}
		from := c.first
		q = answerTo(r, from.with(a))
		if r.IntN(4) == 0 {
			q = from
			q.port = r.IntN(3)
		}
		if r.IntN(4) == 0 {
			about := from.with(pick(r, a, a, c.first.ends()))
			if r.IntN(2) == 0 {
				about = answerTo(r, from)
			}
			q = errorProbe(r.IntN(3), fmt.Sprintf("198.51.100.%d", r.IntN(6)), about)
		}
		return q
	}
	return q
}

// TestNATTwin: a million random packets leave as the twin says, and are dropped for its reasons.
func TestNATTwin(t *testing.T) {
	packets := 1_000_000
	if testing.Short() {
		packets = 100_000
	}
	againstNATTwin(t, packets, 3*40, 8)
}

// againstNATTwin sends random packets to a table of so many connections, of which the first port has a share.
func againstNATTwin(t *testing.T, packets, connections, share int) {
	c := DefaultConfig()
	c.Connections = connections
	c.Timeouts.UDP, c.Timeouts.ICMP = 3*time.Second, 2*time.Second
	if testWorkers > 1 { // nothing is evicted, so connections end sooner: the twin looks at all of them for each packet
		for _, t := range []*time.Duration{&c.Timeouts.TCPSynSent, &c.Timeouts.TCPSynReceived, &c.Timeouts.TCPEstablished, &c.Timeouts.TCPFinWait, &c.Timeouts.TCPCloseWait, &c.Timeouts.TCPTimeWait} {
			*t = 4 * time.Second
		}
	}
	c.Groups = []Group{
		{Name: "in", Ports: []string{"p0"}, Default: Permit, Share: share},
		{Name: "out", Ports: []string{"p1"}, Default: Deny, Rules: []Rule{{Action: Permit, Protocol: "udp"}, {Action: Permit, Protocol: "icmp"}}},
	}
	c.SNAT = []SNAT{{Exempt: true, Dst: "10.0.0.0/8"}, {Ports: []string{"p0", "p2"}, Src: "10.0.0.0/8", Addresses: []string{outsideAddr}}}
	c.DNAT = []DNAT{
		{Dst: outsideAddr, Protocol: "tcp", DstPort: "2", Backends: []Backend{{Address: "10.0.0.100", Port: 3}}},
		{Dst: outsideAddr, Protocol: "udp", DstPort: "2", Backends: []Backend{{Address: "10.0.0.100", Port: 3}}},
	}
	r := rand.New(rand.NewPCG(19, 7))
	g := newRig(t, c)
	w := &natTwin{twin: newTwin(c), aliases: map[string]flowEnds{}}
	w.twin.refuses = w.refuses
	seen := map[packet.Reason]int{}
	translated := 0
	for sent := range packets {
		q := randomNATProbe(r, w)
		g.now += int64(r.IntN(4)) * int64(20*time.Millisecond)
		now := uint32(g.now >> tickShift)
		frame, got := g.forward(q.port, q.frame())
		want, leaves, begins := w.handle(&q, now)
		if got != want {
			t.Fatalf("packet %d: %q, the twin says %q: %+v", sent, got, want, q)
		}
		seen[got]++
		if g.used() != len(w.conns) {
			t.Fatalf("after %d packets: %d connections, the twin has %d; the last was %q: %+v about %+v", sent, g.used(), len(w.conns), got, q, q.about)
		}
		if got != 0 {
			continue
		}
		if begins {
			w.learn(t, &q, frame)
			if a, ok := w.aliases[firstOf(w.name(&q, q.port))]; ok {
				leaves = q.with(a)
			}
		}
		text := packetText(t, frame)
		if text != packetText(t, leaves.frame()) {
			t.Fatalf("packet %d left as %s, the twin says %s: %+v", sent, text, packetText(t, leaves.frame()), q)
		}
		if text != packetText(t, (&q).frame()) {
			translated++
		}
		if sent%50_000 == 0 {
			checkNAT(t, g)
		}
	}
	checkNAT(t, g)
	for _, reason := range []packet.Reason{0, reasonInvalid, reasonDenied, reasonUnmapped, reasonUnsupported} {
		if seen[reason] < packets/10_000 {
			t.Errorf("only %d packets %q", seen[reason], reason)
		}
	}
	if translated < packets/20 {
		t.Errorf("only %d of %d packets were translated", translated, packets)
	}
	t.Log(seen, translated, g.hops, "handed over")
}

func firstOf(a, _ string) string { return a }
