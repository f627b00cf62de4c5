package conntrack

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline/packet"
)

// twin is the stage again, slow and plain: it handles probes, not bytes, with maps, lists and text as keys. What TCP's windows say, it
// asks entry.follow, which Linux is the judge of (TestLinuxAgrees).
type twin struct {
	config    Config
	settings  *settings // for the numbers of timeouts
	rules     int       // times that the rules changed
	conns     map[string]*twinConn
	lists     [][]*twinConn // by port: all that count for it, the oldest first
	fragments map[string]twinFragment
	refuses   func(q *probe) packet.Reason // what a translation says of first packets that the rules permit; nil: nothing
}

type twinConn struct {
	name      string
	first     probe // the packet that began it
	deadline  uint32
	since     uint32
	payer, in int
	reply     int // the port that answered first; -1: none has by a packet that passed its checks
	replied   bool
	rules     int
	entry     entry // of TCP
	confirmed bool
}

type twinFragment struct {
	deadline uint32
	least    int
}

func newTwin(c Config) *twin {
	v, _ := c.compile([]string{"p0", "p1", "p2"})
	return &twin{config: c, settings: v, conns: map[string]*twinConn{}, lists: make([][]*twinConn, 3), fragments: map[string]twinFragment{}}
}

func (w *twin) group(port int) *Group {
	for i := range w.config.Groups {
		if slices.Contains(w.config.Groups[i].Ports, fmt.Sprintf("p%d", port)) {
			return &w.config.Groups[i]
		}
	}
	return &Group{Default: Permit}
}

func (w *twin) permits(q *probe, port int) bool {
	g := w.group(port)
	for _, r := range g.Rules {
		in := func(prefix string, a netip.Addr) bool {
			return prefix == "" || netip.MustParsePrefix(prefix).Contains(a)
		}
		ports := q.proto == 6 || q.proto == 17
		if (r.Protocol == "" || r.Protocol == map[uint8]string{6: "tcp", 17: "udp", 1: "icmp", 58: "icmpv6"}[q.proto]) && in(r.Src, q.src) && in(r.Dst, q.dst) &&
			(r.DstPort == "" || ports && r.DstPort == fmt.Sprint(q.dstPort)) {
			return r.Action == Permit
		}
	}
	return g.Default == Permit
}

// name is that of a direction, from the sender's side.
func (w *twin) name(q *probe, port int) (name, reverse string) {
	zone := w.group(port).Zone
	text := func(src, dst netip.Addr, sp, dp uint16, kind string) string {
		return fmt.Sprint(zone, " ", q.proto, " ", src, " ", sp, " ", dst, " ", dp, kind)
	}
	switch {
	case q.proto == 1 || q.proto == 58:
		ask, answer := text(q.src, q.dst, q.icmpID, 0, " ask"), text(q.dst, q.src, q.icmpID, 0, " ask")
		if q.icmpType == 0 || q.icmpType == 129 {
			return answer + " answer", answer
		}
		return ask, ask + " answer"
	case q.proto == 6 || q.proto == 17:
		return text(q.src, q.dst, q.srcPort, q.dstPort, ""), text(q.dst, q.src, q.dstPort, q.srcPort, "")
	}
	return text(q.src, q.dst, 0, 0, ""), text(q.dst, q.src, 0, 0, "")
}

// find returns the living connection of a packet, and its direction.
func (w *twin) find(q *probe, port int, now uint32) (*twinConn, uint8) {
	name, reverse := w.name(q, port)
	for dir, n := range []string{name, reverse} {
		if c := w.conns[n]; c != nil {
			if int32(c.deadline-now) <= 0 {
				w.remove(c)
				continue
			}
			return c, uint8(dir)
		}
	}
	return nil, 0
}

func (w *twin) remove(c *twinConn) {
	delete(w.conns, c.name)
	w.lists[c.payer] = slices.DeleteFunc(w.lists[c.payer], func(o *twinConn) bool { return o == c })
}

func (w *twin) process(q *probe, now uint32) packet.Reason {
	r := w.decide(q, now)
	if r != 0 && q.more && q.offset == 0 {
		delete(w.fragments, w.datagram(q))
	}
	if r == 0 && q.more && q.offset == 0 {
		w.fragments[w.datagram(q)] = twinFragment{now + fragmentTime, map[uint8]int{6: 20 + len(q.options), 17: 8, 1: 8, 58: 8}[q.proto]}
	}
	return r
}

func (w *twin) datagram(q *probe) string {
	proto := q.proto
	if q.src.Is6() {
		proto = 0
	}
	return fmt.Sprint(q.port, proto, q.src, q.dst, q.id)
}

func (w *twin) decide(q *probe, now uint32) packet.Reason {
	if q.offset != 0 {
		if f, ok := w.fragments[w.datagram(q)]; ok && int32(f.deadline-now) > 0 && q.offset >= f.least {
			return 0
		}
		return reasonFragment
	}
	if q.about != nil {
		if q.dst != q.about.src {
			return reasonInvalid
		}
		c, _ := w.find(q.about, q.port, now)
		switch {
		case c == nil:
			return reasonInvalid
		case !w.still(c):
			return reasonDenied
		}
		return 0
	}
	if q.src == q.dst && (q.proto != 6 && q.proto != 17 || q.srcPort == q.dstPort) {
		return reasonInvalid
	}
	var s segment
	if q.proto == 6 {
		s = q.segment()
		if validFlags>>(s.flags&0x37)&1 == 0 {
			return reasonInvalid
		}
	}
	c, dir := w.find(q, q.port, now)
	if c == nil {
		return w.begin(q, &s, now)
	}
	if !w.still(c) {
		return reasonDenied
	}
	if from := []int{c.in, c.reply}[dir]; from != q.port && from != -1 && !w.permits(q, q.port) {
		return reasonDenied
	}
	if q.proto == 6 {
		old := c.entry.state
		c.entry.flags = 0
		if c.replied {
			c.entry.flags |= flagReplied
		}
		if c.confirmed {
			c.entry.flags |= flagConfirmed
		}
		switch c.entry.follow(&s, dir, w.config.TCPLiberal) {
		case segmentInvalid:
			return reasonInvalid
		case segmentReopens:
			w.remove(c)
			return w.begin(q, &s, now)
		case segmentEnds:
			w.remove(c)
			return 0
		case segmentPasses:
			if c.replied && c.entry.state == stateEstablished && (old == stateSynReceived || old == stateEstablished) {
				c.confirmed = true
			}
			if ticks, renewed := c.entry.lifetime(&s, old, w.settings); renewed {
				c.deadline = now + ticks
			}
		case segmentIgnored:
			c.replied = c.replied || dir != 0
			return 0
		}
	} else {
		w.prolong(c, now)
	}
	switch {
	case dir == 0:
		c.in = q.port
	case c.reply == -1:
		c.reply = q.port
	}
	c.replied = c.replied || dir != 0
	return 0
}

func (w *twin) prolong(c *twinConn, now uint32) {
	t := w.config.Timeouts
	lives := t.Other
	switch c.first.proto {
	case 17:
		lives = t.UDP
		if c.replied && now-c.since > uint32(2*time.Second>>tickShift) {
			c.confirmed, lives = true, t.UDPStream
		}
	case 1, 58:
		lives = t.ICMP
	default:
		c.confirmed = c.confirmed || c.replied
	}
	c.deadline = now + uint32(lives>>tickShift)
}

// still reports whether the rules in force permit a connection; one that they do not goes.
func (w *twin) still(c *twinConn) bool {
	if c.rules != w.rules {
		if !w.permits(&c.first, c.in) {
			w.remove(c)
			return false
		}
		c.rules = w.rules
	}
	return true
}

func (w *twin) begin(q *probe, s *segment, now uint32) packet.Reason {
	state := stateNone
	switch {
	case q.proto == 6 && s.kind == segmentSyn:
		state = stateSynSent
	case q.proto == 6 && s.kind == segmentAck && w.config.TCPLoose:
		state = stateEstablished
	case q.proto == 6, q.proto == 1 && q.icmpType == 0, q.proto == 58 && q.icmpType == 129:
		return reasonInvalid
	}
	if !w.permits(q, q.port) {
		return reasonDenied
	}
	if w.refuses != nil {
		if r := w.refuses(q); r != 0 {
			return r
		}
	}
	if list := w.lists[q.port]; len(list) >= int(w.settings.limits[q.port]) {
		i := slices.IndexFunc(list, func(c *twinConn) bool { return !c.confirmed })
		if i < 0 {
			return reasonFull
		}
		w.remove(list[i])
	}
	c := &twinConn{first: *q, since: now, payer: q.port, in: q.port, reply: -1, rules: w.rules}
	c.name, _ = w.name(q, q.port)
	w.conns[c.name] = c
	w.lists[q.port] = append(w.lists[q.port], c)
	if q.proto != 6 {
		w.prolong(c, now)
		return 0
	}
	c.entry.tcp.begin(s)
	c.entry.tcp.inWindow(stateNone, s, 0, true)
	c.entry.accept(s, 0, stateNone, state)
	lives := w.config.Timeouts.TCPSynSent
	if state == stateEstablished {
		lives = min(w.config.Timeouts.TCPEstablished, w.config.Timeouts.TCPUnanswered)
	}
	c.deadline = now + uint32(lives>>tickShift)
	return 0
}

// segment is a probe's, without its bytes.
func (q *probe) segment() segment {
	s := segment{options: q.options, seq: q.seq, ack: q.ack, end: q.seq + uint32(len(q.data)), win: uint32(q.win), flags: q.flags, fragment: q.fragment()}
	if q.flags&flagSYN != 0 {
		s.end++
	}
	if q.flags&flagFIN != 0 {
		s.end++
	}
	s.kind = segmentNone
	for _, k := range []struct{ set, kind uint8 }{{flagRST, segmentReset}, {flagSYN | flagACK, segmentSynAck}, {flagSYN, segmentSyn}, {flagFIN, segmentFin}, {flagACK, segmentAck}} {
		if q.flags&k.set == k.set {
			s.kind = k.kind
			break
		}
	}
	return s
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// randomProbe is of a small world, so that packets meet, and so that most segments are in a window.
func randomProbe(r *rand.Rand) probe {
	q := probe{port: r.IntN(3), proto: pick[uint8](r, 6, 6, 6, 6, 17, 17, 1, 47), data: make([]byte, r.IntN(3)*8)}
	host := func() netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(6))}) }
	if r.IntN(3) == 0 {
		host = func() netip.Addr { return netip.AddrFrom16([16]byte{0x20, 1, 15: byte(r.IntN(6))}) }
	}
	q.src, q.dst = host(), host()
	switch q.proto {
	case 6:
		q.srcPort, q.dstPort = uint16(1+r.IntN(4)), uint16(1+r.IntN(4))
		q.flags = pick[uint8](r, flagSYN, flagSYN|flagACK, flagSYN|flagACK, flagACK, flagACK, flagACK, flagFIN|flagACK, flagRST, flagRST|flagACK, uint8(r.IntN(64)))
		number := func() uint32 {
			if r.IntN(20) == 0 {
				return r.Uint32()
			}
			return 1000 + uint32(r.IntN(6))
		}
		q.seq, q.ack, q.win = number(), number(), uint16(r.IntN(3)*20000)
		if r.IntN(3) == 0 {
			q.options = pick(r, []byte{3, 3, 7, 4, 2, 0, 0, 0}, []byte{1, 1, 5, 10, 0, 0, 3, 0xe8, 0, 0, 3, 0xea}, []byte{3, 9, 0, 0})
		}
	case 17:
		q.srcPort, q.dstPort = uint16(1+r.IntN(4)), uint16(1+r.IntN(4))
	case 1:
		q.icmpType, q.icmpID = pick[uint8](r, 8, 8, 0), uint16(r.IntN(3))
		if q.src.Is6() {
			q.proto, q.icmpType = 58, pick[uint8](r, 128, 129)
		}
	}
	switch r.IntN(12) {
	case 0:
		about := q
		e := probe{port: q.port, src: host(), dst: about.src, proto: 1, icmpType: pick[uint8](r, 3, 11, 12), about: &about}
		if r.IntN(8) == 0 {
			e.dst = host()
		}
		if about.src.Is6() {
			e.proto, e.icmpType = 58, pick[uint8](r, 1, 2, 3)
		}
		if e.src.Is4() == about.src.Is4() {
			return e
		}
	case 1:
		if q.proto != 47 {
			// So few datagrams that the sets of fragments have room for all.
			q.more, q.id = true, uint32(r.IntN(2))
			for q.src.As16()[15] > 2 || q.dst.As16()[15] > 2 {
				q.src, q.dst = host(), host()
			}
			if r.IntN(2) == 0 {
				q.offset, q.more, q.data = 8*(1+r.IntN(4)), r.IntN(2) == 0, make([]byte, 8)
			}
		}
	}
	return q
}

// answerTo is what the receiver of a packet may send next.
func answerTo(r *rand.Rand, q probe) probe {
	a := q.back(r.IntN(3))
	a.options, a.data = nil, nil
	switch q.proto {
	case 6:
		sent := q.segment()
		a.flags, a.seq, a.ack, a.win = flagACK, q.ack, sent.end, 40000
		if sent.kind == segmentSyn {
			a.flags, a.seq = flagSYN|flagACK, 1000
		}
	case 1, 58:
		a.icmpType = map[uint8]uint8{8: 0, 0: 8, 128: 129, 129: 128}[q.icmpType]
	}
	return a
}

// TestTwin: a million random packets have the same fate as in the twin, with changes of rules and times that pass between them.
func TestTwin(t *testing.T) {
	againstTwin(t, 1_000_000, 3*40, 4)
}

// againstTwin sends random packets to a table of so many connections, of which the first port has a share.
func againstTwin(t *testing.T, packets, connections, share int) {
	c := DefaultConfig()
	c.Connections = connections
	c.Timeouts.UDP, c.Timeouts.ICMP = 3*time.Second, 2*time.Second
	rules := []Rule{{Action: Deny, Dst: "10.0.0.3/32"}, {Action: Permit, Protocol: "tcp", DstPort: "2"}, {Action: Permit, Protocol: "udp", Src: "2001::/16"}, {Action: Permit, Protocol: "icmp"}}
	c.Groups = []Group{
		{Name: "in", Ports: []string{"p0"}, Default: Permit, Share: share, Rules: []Rule{{Action: Deny, DstPort: "4", Protocol: "tcp"}}},
		{Name: "out", Ports: []string{"p1"}, Default: Deny, Rules: rules},
	}
	r := rand.New(rand.NewPCG(19, 4))
	g := newRig(t, c)
	w := newTwin(c)
	seen := map[packet.Reason]int{}
	last := udpProbe(0, client, server)
	for sent := 0; sent < packets; {
		var batch []probe
		for range 1 + r.IntN(packet.BatchSize) {
			q := randomProbe(r)
			if last.about == nil && !last.fragment() && r.IntN(2) == 0 {
				q = answerTo(r, last)
			}
			last = q
			batch = append(batch, q)
			g.put(q.port, q.frame())
		}
		g.now += int64(r.IntN(4)) * int64(50*time.Millisecond)
		if r.IntN(2000) == 0 {
			g.now += int64(r.IntN(400)) * int64(time.Second)
		}
		if r.IntN(500) == 0 {
			c.TCPLoose, c.TCPLiberal = r.IntN(4) != 0, r.IntN(4) == 0
			c.Groups[1].Rules = rules[r.IntN(3):]
			g.reload(t, c)
			w.config, w.rules = c, w.rules+1
		}
		now := uint32(g.now >> tickShift)
		for i, got := range g.run() {
			want := w.process(&batch[i], now)
			if got != want {
				t.Fatalf("packet %d: %q, the twin says %q: %+v", sent+i, got, want, batch[i])
			}
			seen[got]++
		}
		sent += len(batch)
		if g.used() != len(w.conns) {
			t.Fatalf("after %d packets: %d connections, the twin has %d", sent, g.used(), len(w.conns))
		}
	}
	for _, reason := range []packet.Reason{0, reasonInvalid, reasonDenied, reasonFull, reasonFragment} {
		if reason == reasonFull && testWorkers > 1 { // shares are divided: see TestWorkers
			continue
		}
		if seen[reason] < packets/10_000 {
			t.Errorf("only %d packets %q", seen[reason], reason)
		}
	}
	t.Log(seen, g.hops, "handed over")
}
