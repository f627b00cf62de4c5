package acl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/parse"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	os.Exit(m.Run())
}

// TestHostile sends random hostile packets to a Linux host, first without rules, to see which of
// them its stack takes, and then behind rules that deny: none that they deny is delivered.
func TestHostile(t *testing.T) {
	netnstest.Require(t)
	attacks := 40_000
	if testing.Short() {
		attacks = 3_000
	}
	target := newTarget(t)
	rules := Config{Default: Permit, Rules: []Rule{
		{Action: Deny, Protocol: "udp", DstPort: "53"},
		{Action: Deny, Protocol: "tcp", DstPort: "23"},
		{Action: Deny, Src: "10.66.0.0/16"},
		{Action: Deny, Src: "fd66::/16"},
	}}
	open := target.attack(t, DefaultConfig(), attacks)
	for _, kind := range kinds {
		if open.denied[kind] == 0 {
			t.Errorf("%s: the host took none of %d, so this test shows nothing about them", kind, open.sent[kind])
		}
	}
	closed := target.attack(t, rules, attacks)
	for kind, n := range closed.denied {
		t.Errorf("%s: %d packets came through that the rules deny; seeds of some: %v", kind, n, closed.examples[kind])
	}
	if closed.permitted == 0 {
		t.Error("the host got nothing of what the rules permit")
	}
	for _, kind := range kinds {
		t.Logf("%-22s %6d sent, %6d to what the rules deny taken without rules, %d with them", kind, open.sent[kind], open.denied[kind], closed.denied[kind])
	}
	t.Logf("without rules %d delivered as permitted, with them %d", open.permitted, closed.permitted)
}

// kinds are the tricks of attacks of which Linux takes some.
var kinds = []string{"plain", "tags", "more than 8 tags", "extensions", "more than 16", "fragments", "fragments, extensions", "UDP length 0", "payload length 0", "mutated", "IPv4 options"}

// deniedUDP and deniedTCP are what the rules deny, and the next ports are permitted.
const deniedUDP, deniedTCP = 53, 23

// target is a Linux host that listens, and the end of the cable where attacks come from.
type target struct {
	attacker, host *netnstest.Host

	mu    sync.Mutex
	round uint32
	taken map[uint32]bool // by attack of this round: whether it came to what the rules deny
}

// outcome counts attacks by kind.
type outcome struct {
	sent, denied map[string]int
	examples     map[string][]uint32
	permitted    int
}

func newTarget(t *testing.T) *target {
	a, b := netnstest.Pair(t, "wa")
	x := &target{attacker: a, host: b, taken: map[uint32]bool{}}
	for _, address := range []string{"10.0.0.2/8", "fd00::2/8"} {
		must(t, b.NS.AddAddress(b.Interface, netip.MustParsePrefix(address)))
	}
	for _, source := range sources {
		must(t, b.NS.AddNeighbour(b.Interface, source, a.MAC))
	}
	must(t, b.NS.Do(func() error {
		for _, s := range [][2]string{ // what is never whole must not keep others out
			{"net/ipv4/ipfrag_high_thresh", "1000000000"}, {"net/ipv6/ip6frag_high_thresh", "1000000000"},
			{"net/ipv4/conf/all/rp_filter", "0"}, {"net/ipv4/icmp_ratelimit", "0"},
		} {
			if err := os.WriteFile("/proc/sys/"+s[0], []byte(s[1]), 0); err != nil {
				return err
			}
		}
		return nil
	}))
	for _, network := range []string{"udp4", "udp6"} {
		for port := deniedUDP; port <= deniedUDP+1; port++ {
			x.listenUDP(t, network, port)
		}
	}
	for _, network := range []string{"tcp4", "tcp6"} {
		for port := deniedTCP; port <= deniedTCP+1; port++ {
			l, err := b.NS.Listen(network, fmt.Sprintf(":%d", port))
			must(t, err)
			t.Cleanup(func() { l.Close() })
		}
	}
	x.watchTCP(t)
	return x
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// take notes that an attack was delivered. A source that the rules deny counts as much as a port.
func (x *target) take(id uint32, denied bool, source netip.Addr) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if id>>roundShift == x.round { // else an answer that is sent again
		id &= 1<<roundShift - 1
		x.taken[id] = x.taken[id] || denied || isDenied(source)
	}
}

// roundShift is where the round is in an attack's number on the wire.
const roundShift = 24

func (x *target) listenUDP(t *testing.T, network string, port int) {
	c, err := x.host.NS.ListenPacket(network, fmt.Sprintf(":%d", port))
	must(t, err)
	t.Cleanup(func() { c.Close() })
	must(t, c.(*net.UDPConn).SetReadBuffer(32<<20))
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			if n >= 4 {
				x.take(binary.BigEndian.Uint32(buf), port == deniedUDP, from.(*net.UDPAddr).AddrPort().Addr().Unmap())
			}
		}
	}()
}

// watchTCP reads the host's answers: an attack's number is its sequence number.
func (x *target) watchTCP(t *testing.T) {
	s := x.attacker.Packet(t)
	go func() {
		buf := make([]byte, 2048)
		for {
			n, err := s.Receive(buf)
			if err != nil {
				if errors.Is(err, os.ErrClosed) {
					return
				}
				continue
			}
			src, dst, segment := segmentOf(buf[:n])
			const synAck = 0x12
			if len(segment) >= header.TCPLen && segment[13]&synAck == synAck && src.IsValid() {
				port := binary.BigEndian.Uint16(segment)
				x.take(binary.BigEndian.Uint32(segment[8:])-1, port == deniedTCP, dst)
			}
		}
	}()
}

// segmentOf takes the host's own, plain TCP packets apart.
func segmentOf(frame []byte) (src, dst netip.Addr, segment []byte) {
	switch {
	case len(frame) > 34 && frame[12] == 8 && frame[13] == 0 && frame[23] == header.ProtoTCP:
		return netip.AddrFrom4([4]byte(frame[26:30])), netip.AddrFrom4([4]byte(frame[30:34])), frame[34:]
	case len(frame) > 54 && frame[12] == 0x86 && frame[20] == header.ProtoTCP:
		return netip.AddrFrom16([16]byte(frame[22:38])), netip.AddrFrom16([16]byte(frame[38:54])), frame[54:]
	}
	return src, dst, nil
}

// attack sends all attacks through a switch's parser and rules, and says what the host took.
func (x *target) attack(t *testing.T, rules Config, attacks int) outcome {
	env := pipeline.Env{Workers: 1, Ports: testEnv.Ports}
	parser, err := parse.New(parse.DefaultConfig(), env)
	must(t, err)
	list, err := New(rules, env)
	must(t, err)
	stages := []pipeline.Stage{parser.Stage(0), list.Stage(0)}
	wire := x.attacker.Packet(t)
	b := newBatch(t)
	b.Pkts = b.Pkts[:1]
	addr := b.Pkts[0].Addr
	x.mu.Lock()
	x.round++
	round := x.round << roundShift
	x.taken = map[uint32]bool{}
	x.mu.Unlock()
	o := outcome{sent: map[string]int{}, denied: map[string]int{}, examples: map[string][]uint32{}}
	kindOf := make([]string, attacks)
	for id := range uint32(attacks) {
		frames, kind := newAttack(id, round, x.host.MAC)
		kindOf[id] = kind
		o.sent[kind]++
		for _, frame := range frames {
			p := &b.Pkts[0]
			*p = packet.Packet{Addr: addr, Len: uint32(len(frame)), WireLen: uint32(len(frame)), OutPort: packet.NoPort}
			copy(b.Data(p), frame)
			for _, s := range stages {
				s.Process(b)
			}
			if p.Reason == 0 {
				must(t, wire.Send(frame))
			}
		}
	}
	x.settle(t, wire, uint32(attacks))
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, denied := range x.taken {
		switch {
		case id >= uint32(attacks): // a mutated number, or the last packet
		case denied:
			o.denied[kindOf[id]]++
			o.examples[kindOf[id]] = append(o.examples[kindOf[id]], id)[:min(len(o.examples[kindOf[id]])+1, 5)]
		default:
			o.permitted++
		}
	}
	return o
}

// settle waits until the host has read all: a permitted packet behind the attacks is there, and nothing comes any more.
func (x *target) settle(t *testing.T, wire interface{ Send([]byte) error }, last uint32) {
	r := rand.New(rand.NewPCG(1, 1))
	end := attack{r: r, id: last | x.round<<roundShift, dst: x.host.MAC, source: sources[0], proto: header.ProtoUDP, port: deniedUDP + 1}
	count := func() (n int, there bool) {
		x.mu.Lock()
		defer x.mu.Unlock()
		_, there = x.taken[last]
		return len(x.taken), there
	}
	before := -1
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); time.Sleep(200 * time.Millisecond) {
		n, there := count()
		if there && n == before {
			return
		}
		before = n
		must(t, wire.Send(end.ethernet(header.TypeIPv4, end.ipv4(end.transport()))))
	}
	t.Fatal("the host does not read what it was sent")
}

// sources are permitted and denied ones of either IP version.
var sources = []netip.Addr{
	netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.66.0.1"),
	netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd66::1"),
}

func isDenied(a netip.Addr) bool { return a == sources[1] || a == sources[3] }

// attack is one packet to the host before it is bent.
type attack struct {
	r      *rand.Rand
	id     uint32
	dst    net.HardwareAddr
	source netip.Addr
	proto  byte
	port   uint16

	tags, extensions              int
	options, noUDPLength, noV6Len bool
	cut                           bool // into fragments
}

// newAttack makes the frames of an attack, which depend on its number alone, but for the round that they carry.
func newAttack(id, round uint32, dst net.HardwareAddr) (frames [][]byte, kind string) {
	r := rand.New(rand.NewPCG(uint64(id), 0x686f7374))
	a := &attack{r: r, id: id | round, dst: dst, source: pick(r, sources...), proto: pick[byte](r, header.ProtoUDP, header.ProtoTCP)}
	a.port = uint16(deniedUDP + r.IntN(2))
	if a.proto == header.ProtoTCP {
		a.port = uint16(deniedTCP + r.IntN(2))
	}
	six := a.source.Is6()
	kind = kinds[r.IntN(len(kinds))]
	switch kind {
	case "tags":
		a.tags = 1 + r.IntN(8)
	case "more than 8 tags":
		a.tags = 9 + r.IntN(24)
	case "IPv4 options":
		a.options = true
	case "fragments":
		a.cut = true
	}
	switch {
	case six && kind == "extensions":
		a.extensions = 1 + r.IntN(16)
	case six && kind == "more than 16":
		a.extensions = 17 + r.IntN(40)
	case six && kind == "fragments, extensions":
		a.extensions, a.cut = 1+r.IntN(20), true
	case six && kind == "UDP length 0" && a.proto == header.ProtoUDP:
		a.noUDPLength = true
	case six && kind == "payload length 0":
		a.noV6Len = true
	}
	if kind == "mutated" {
		a.tags, a.extensions, a.options, a.cut = r.IntN(2)*r.IntN(12), r.IntN(2)*r.IntN(20), r.IntN(4) == 0, r.IntN(3) == 0
	}
	for _, packet := range a.packets() {
		frame := packet
		if kind == "mutated" {
			for range 1 + r.IntN(3) {
				at := 12 + r.IntN(min(len(frame), 120)-12)
				frame[at] = pick(r, byte(r.IntN(256)), 0, 0xff, frame[at]^1<<r.IntN(8))
			}
			if six || r.IntN(2) == 0 {
				mend(frame)
			}
		}
		if r.IntN(8) == 0 {
			frame = append(frame, make([]byte, r.IntN(40))...) // padding
		}
		frames = append(frames, frame)
	}
	return frames, kind
}

// mend sets the checksum of an untagged IPv4 header, so that a mutated one is read on.
func mend(frame []byte) {
	ip := header.IPv4At(frame, header.EthernetLen)
	if ip == nil || frame[12] != 8 || header.EthernetLen+ip.HeaderLen() > len(frame) {
		return
	}
	h := frame[header.EthernetLen:][:ip.HeaderLen()]
	if len(h) >= header.IPv4Len {
		h[10], h[11] = 0, 0
		binary.BigEndian.PutUint16(h[10:], header.Checksum(h))
	}
}

// packets are the frames of the attack.
func (a *attack) packets() [][]byte {
	payload := a.transport()
	if a.source.Is4() {
		if a.cut {
			return a.fragments4(payload)
		}
		return [][]byte{a.ethernet(header.TypeIPv4, a.ipv4(payload))}
	}
	if !a.cut {
		return [][]byte{a.ethernet(header.TypeIPv6, a.ipv6(a.chain(a.proto, a.extensions, payload)))}
	}
	return a.fragments6(payload)
}

// transport is a UDP datagram with the number of the attack, or a SYN with it.
func (a *attack) transport() []byte {
	source := uint16(1024 + a.r.IntN(60000))
	var b []byte
	sum := 6
	if a.proto == header.ProtoTCP {
		sum = 16
		b = binary.BigEndian.AppendUint16(b, source)
		b = binary.BigEndian.AppendUint16(b, a.port)
		b = binary.BigEndian.AppendUint32(b, a.id)
		b = append(b, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0)
		if n := a.r.IntN(4); n > 0 { // options
			b[12] = byte(5+n) << 4
			for range n {
				b = append(b, 1, 1, 1, 1)
			}
		}
	} else {
		n := 4 + a.r.IntN(100)
		b = binary.BigEndian.AppendUint16(b, source)
		b = binary.BigEndian.AppendUint16(b, a.port)
		b = binary.BigEndian.AppendUint16(b, uint16(header.UDPLen+n))
		b = append(b, 0, 0)
		b = binary.BigEndian.AppendUint32(b, a.id)
		b = append(b, make([]byte, n-4)...)
	}
	if a.noUDPLength {
		b[4], b[5] = 0, 0
	}
	binary.BigEndian.PutUint16(b[sum:], ^header.Sum(b, a.pseudo(len(b))))
	return b
}

func (a *attack) pseudo(length int) uint16 {
	if a.source.Is4() {
		var ip header.IPv4
		ip.Init(a.source.As4(), [4]byte{10, 0, 0, 2}, a.proto, 64, 0, 0, 0)
		return header.PseudoSum4(&ip, length)
	}
	var ip header.IPv6
	ip.Init(a.source.As16(), host6, a.proto, 64, 0)
	return header.PseudoSum6(&ip, a.proto, length)
}

var host6 = netip.MustParseAddr("fd00::2").As16()

func (a *attack) ethernet(etherType uint16, payload []byte) []byte {
	b := append([]byte{}, a.dst...)
	b = append(b, 2, 0, 0, 0, 0, 9)
	for range a.tags {
		b = binary.BigEndian.AppendUint16(b, pick[uint16](a.r, header.TypeVLAN, header.TypeVLAN, header.TypeServiceVLAN))
		b = binary.BigEndian.AppendUint16(b, uint16(a.r.IntN(8))<<13) // VLAN 0
	}
	return append(binary.BigEndian.AppendUint16(b, etherType), payload...)
}

func (a *attack) ipv4(payload []byte) []byte { return a.ipv4Fragment(0, 0, payload) }

func (a *attack) ipv4Fragment(id, fragment uint16, payload []byte) []byte {
	var options []byte
	if a.options {
		for range 1 + a.r.IntN(10) {
			options = append(options, pick(a.r, []byte{1, 1, 1, 1}, []byte{0x94, 4, 0, 0}, []byte{0x88, 4, 0, 0})...)
		}
	}
	b := make([]byte, header.IPv4Len)
	header.IPv4At(b, 0).Init(a.source.As4(), [4]byte{10, 0, 0, 2}, a.proto, 64, 0, id, header.IPv4Len+len(options)+len(payload))
	b = append(b, options...)
	b[0] = 4<<4 | byte(len(b)/4)
	binary.BigEndian.PutUint16(b[6:], fragment)
	b[10], b[11] = 0, 0
	binary.BigEndian.PutUint16(b[10:], header.Checksum(b))
	return append(b, payload...)
}

// chain puts n extension headers that Linux passes by in front of a payload.
func (a *attack) chain(proto byte, n int, payload []byte) (next byte, chain []byte) {
	chain = payload
	for i := range n {
		pad := []byte{proto, 0, 1, 4, 0, 0, 0, 0}
		next := byte(header.ProtoDestination)
		switch {
		case i == n-1 && a.r.IntN(3) == 0: // only in front of all others
			next = header.ProtoHopByHop
		case a.r.IntN(6) == 0: // atomic: neither an offset nor more
			pad, next = []byte{proto, 0, 0, 0, 0, 0, 0, byte(i)}, header.ProtoFragment
		case a.r.IntN(4) == 0:
			pad = append(pad, 1, 6, 0, 0, 0, 0, 0, 0)
			pad[1] = 1
		}
		chain, proto = append(pad, chain...), next
	}
	return proto, chain
}

func (a *attack) ipv6(next byte, payload []byte) []byte {
	if a.noV6Len {
		payload = append([]byte{next, 0, 1, 4, 0, 0, 0, 0}, payload...)
		next = header.ProtoHopByHop
	}
	b := make([]byte, header.IPv6Len)
	header.IPv6At(b, 0).Init(a.source.As16(), host6, next, 64, len(payload))
	if a.noV6Len {
		b[4], b[5] = 0, 0
	}
	return append(b, payload...)
}

// pieces cuts a payload at multiples of eight bytes; some pieces come twice, with other bytes, or out of order.
func (a *attack) pieces(payload []byte) (list []piece) {
	for at := 0; at < len(payload); {
		n := min(8*(1+a.r.IntN(pick(a.r, 1, 3, 12))), len(payload)-at)
		list = append(list, piece{at, payload[at : at+n], at+n < len(payload)})
		at += n
	}
	if a.r.IntN(4) == 0 {
		over := list[a.r.IntN(len(list))]
		over.data = append([]byte{}, over.data...)
		for i := range over.data {
			over.data[i] ^= byte(a.r.IntN(2) * a.r.IntN(256))
		}
		over.at = max(over.at-8*a.r.IntN(3), 0)
		list = append(list, over)
	}
	if a.r.IntN(3) == 0 {
		a.r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return list
}

// piece is a fragment of a payload.
type piece struct {
	at   int
	data []byte
	more bool
}

func (a *attack) fragments4(payload []byte) (frames [][]byte) {
	id := uint16(a.id)
	for _, p := range a.pieces(payload) {
		field := uint16(p.at / 8)
		if p.more {
			field |= 0x2000
		}
		frames = append(frames, a.ethernet(header.TypeIPv4, a.ipv4Fragment(id, field, p.data)))
	}
	return frames
}

func (a *attack) fragments6(payload []byte) (frames [][]byte) {
	inner := a.r.IntN(a.extensions + 1) // of the extension headers, behind the fragment header
	next, fragmentable := a.chain(a.proto, inner, payload)
	if next == header.ProtoHopByHop {
		next = header.ProtoDestination
	}
	for _, p := range a.pieces(fragmentable) {
		field := uint16(p.at)
		if p.more {
			field |= 1
		}
		h := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16([]byte{next, 0}, field), a.id)
		first, chain := a.chain(header.ProtoFragment, a.extensions-inner, append(h, p.data...))
		frames = append(frames, a.ethernet(header.TypeIPv6, a.ipv6(first, chain)))
	}
	return frames
}
