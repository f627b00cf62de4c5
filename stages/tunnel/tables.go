package tunnel

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/telemetry/hash"
)

// tables are what all workers read. They are immutable, but for the hops that they point to.
type tables struct {
	names     []string
	roles     []role // by port number
	underlays []underlay
	tunnels   []tunnel
	segments  map[segment]int // for control; workers look in vnis
	vnis      []vniSlot       // by hash, half empty
	ends      []end
	endIndex  []int32 // by hash of the address, half empty; -1 is free
	vxlanPort uint16
	geneve    uint16
	zero6     bool
}

// role is what a port is to the stages, and its number among those.
type role struct {
	kind  uint8
	index uint16
}

// The kinds of ports.
const (
	other = iota
	isUnderlay
	isTunnel
)

type segment struct {
	geneve bool
	vni    uint32
}

func (s segment) word() uint32 {
	if s.geneve {
		return s.vni | 1<<24
	}
	return s.vni
}

type vniSlot struct {
	word   uint32
	tunnel int32 // -1 is free
}

type underlay struct {
	planUnderlay
	mtu int
	hw  [6]byte
}

type tunnel struct {
	name   string
	port   uint16
	geneve bool
	erspan bool
	vni    uint32
	// session, truncate and sequence are of the kind erspan.
	session  uint32
	truncate uint32 // 0: not
	sequence *atomic.Uint32
	dscp     int
	ttl      uint8
	learn    bool
	header   header.Tunnel
	floods   []uint32 // ends that have a copy of what is flooded
	allows   [maxEnds / 64]uint64
}

func (t *tunnel) allow(end uint32) { t.allows[end/64%uint32(len(t.allows))] |= 1 << (end % 64) }
func (t *tunnel) allowed(end uint32) bool {
	return t.allows[end/64%uint32(len(t.allows))]>>(end%64)&1 != 0
}

func (t *tunnel) kind() string {
	if t.geneve {
		return "Geneve"
	}
	if t.erspan {
		return "ERSPAN"
	}
	return "VXLAN"
}

// end is a remote end: what the header of a packet to it begins with, but for lengths, checksums, TTL and DSCP.
type end struct {
	addr     netip.Addr
	key      [16]byte
	six      bool
	port     uint16 // of the underlay
	mtu      int    // the longest IP packet there
	hop      *hop
	src, dst [16]byte
	hw       [6]byte // the switch's own
	sum4     uint32  // of the constant words of an IPv4 header
	pseudo   uint16  // of the addresses of a UDP pseudo header
}

// hop is a next hop: a remote end on the link, or a gateway. Its words are written by any worker.
type hop struct {
	addr      netip.Addr
	underlay  int
	from      netip.Addr    // the switch's own address for it
	mac       atomic.Uint64 // known (bit 48) and the address
	confirmed atomic.Int64  // ns of CLOCK_TAI
	asked     atomic.Int64
	probes    atomic.Int32 // unanswered requests
}

const macKnown = 1 << 48

type hopKey struct {
	underlay uint16 // port
	addr     netip.Addr
}

func addrKey(a netip.Addr) (k [16]byte) {
	if a.Is4() {
		v4 := a.As4()
		copy(k[:], v4[:])
		return k
	}
	return a.As16()
}

func addrHash(k *[16]byte) uint64 {
	return hash.Uint64(1, binary.LittleEndian.Uint64(k[:8])^binary.LittleEndian.Uint64(k[8:])*0x9e3779b97f4a7c15)
}

// build makes the tables of the module's plan and of the ends that were learned. The caller has the lock.
func (m *Module) build() *tables {
	c, p := &m.config, m.plan
	t := &tables{
		names: pipeline.PortNames(m.ports), roles: make([]role, len(m.ports)), segments: map[segment]int{},
		vxlanPort: uint16(c.VXLANPort), geneve: uint16(c.GenevePort), zero6: c.ZeroChecksum6,
	}
	for i, u := range p.underlays {
		v := underlay{planUnderlay: u, mtu: m.ports[u.port].MTU, hw: u.mac}
		if v.mtu == 0 {
			v.mtu = defaultMTU
		}
		if v.hw == ([6]byte{}) {
			v.hw = [6]byte{0x02, 0x77, byte(m.env.ID >> 8), byte(m.env.ID), byte(u.port >> 8), byte(u.port)}
		}
		t.underlays = append(t.underlays, v)
		t.roles[u.port] = role{isUnderlay, uint16(i)}
	}
	for i, pt := range p.tunnels {
		ct := &c.Tunnels[i]
		v := tunnel{name: ct.Port, port: pt.port, geneve: pt.geneve, erspan: pt.erspan, vni: pt.vni, dscp: ct.DSCP, ttl: uint8(ct.TTL), learn: ct.LearnRemotes}
		if v.ttl == 0 {
			v.ttl = defaultTTL
		}
		if v.erspan {
			v.session, v.truncate, v.sequence = uint32(ct.Session), uint32(ct.TruncateBytes), m.sequences.of(v.port)
		}
		if v.geneve {
			v.header.InitGeneve(v.vni)
		} else {
			v.header.InitVXLAN(v.vni)
		}
		for _, a := range pt.remotes {
			n, ok := m.addEnd(t, a)
			if !ok {
				continue
			}
			v.floods = append(v.floods, n)
			v.allow(n)
		}
		if !v.erspan {
			t.segments[segment{pt.geneve, pt.vni}] = i
		}
		t.roles[pt.port] = role{isTunnel, uint16(i)}
		t.tunnels = append(t.tunnels, v)
	}
	for _, a := range m.learned {
		m.addEnd(t, a)
	}
	t.index()
	return t
}

const (
	defaultTTL = 64
	defaultMTU = 1500
)

// addEnd adds a remote end, unless it is there, and returns its number, which is that of all tables that the module ever makes.
func (m *Module) addEnd(t *tables, a netip.Addr) (uint32, bool) {
	n, known := m.numbers[a]
	if !known {
		if len(m.numbers) == maxEnds {
			return 0, false
		}
		n = uint32(len(m.numbers))
		m.numbers[a] = n
	}
	for len(t.ends) <= int(n) {
		t.ends = append(t.ends, end{})
	}
	if t.ends[n].hop != nil {
		return n, true
	}
	under, next, ok := m.plan.route(a)
	if !ok {
		return 0, false
	}
	u := &t.underlays[under]
	from, ok := u.source(next)
	if !ok {
		return 0, false
	}
	k := hopKey{u.port, next}
	h := m.hops[k]
	if h == nil || h.from != from {
		h = &hop{addr: next, underlay: under, from: from}
		m.hops[k] = h
	}
	e := end{addr: a, key: addrKey(a), six: a.Is6(), port: u.port, mtu: u.mtu, hop: h, hw: u.hw, src: addrKey(from), dst: addrKey(a)}
	for i := 0; i < 16; i += 2 {
		e.sum4 += uint32(binary.BigEndian.Uint16(e.src[i:])) + uint32(binary.BigEndian.Uint16(e.dst[i:]))
	}
	e.pseudo = header.Sum(e.dst[:], header.Sum(e.src[:], 0))
	t.ends[n] = e
	return n, true
}

// index makes the tables in which workers look.
func (t *tables) index() {
	size := 4
	for size < 2*len(t.tunnels) {
		size *= 2
	}
	t.vnis = slices.Repeat([]vniSlot{{tunnel: -1}}, size)
	for i := range t.tunnels {
		if t.tunnels[i].erspan {
			continue
		}
		word := segment{t.tunnels[i].geneve, t.tunnels[i].vni}.word()
		at := vniHash(word)
		for t.vnis[at&uint32(size-1)].tunnel >= 0 {
			at++
		}
		t.vnis[at&uint32(size-1)] = vniSlot{word, int32(i)}
	}
	size = 4
	for size < 2*len(t.ends) {
		size *= 2
	}
	t.endIndex = slices.Repeat([]int32{-1}, size)
	for i := range t.ends {
		if t.ends[i].hop == nil {
			continue
		}
		at := addrHash(&t.ends[i].key)
		for t.endIndex[at&uint64(size-1)] >= 0 {
			at++
		}
		t.endIndex[at&uint64(size-1)] = int32(i)
	}
}

func vniHash(word uint32) uint32 { return word * 0x9e3779b1 >> 8 }

// tunnelOf finds a tunnel by its kind and VNI, -1 if there is none.
func (t *tables) tunnelOf(word uint32) int32 {
	mask := uint32(len(t.vnis) - 1)
	for at := vniHash(word); ; at++ {
		if s := &t.vnis[at&mask]; s.tunnel < 0 || s.word == word {
			return s.tunnel
		}
	}
}

// endOf finds a remote end by its address, -1 if it is not known.
func (t *tables) endOf(k *[16]byte, six bool) int32 {
	mask := uint64(len(t.endIndex) - 1)
	for at := addrHash(k); ; at++ {
		n := t.endIndex[at&mask]
		if n < 0 || t.ends[n].key == *k && t.ends[n].six == six {
			return n
		}
	}
}

// owns reports whether an address is the switch's own on the underlay.
func (u *underlay) owns(k *[16]byte, six bool) bool {
	for i := range u.prefixes {
		if a := u.prefixes[i].Addr(); a.Is6() == six && addrKey(a) == *k {
			return true
		}
	}
	return false
}
