package tunnel

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/pipeline/header"
)

// What packets taught the stages goes to another process in two steps. Stations, and the MAC addresses of next hops, pass while packets flow: those that are learned meanwhile are learned
// again. Sequence numbers of tunnels of kind erspan, and ICMP errors that wait for a worker's next batch, pass while the workers rest, so none is sent twice or left out. Source ports of
// outer packets follow from the parser's configuration. The longest packet is the underlay's MTU, fragments do not wait here: neither is state.
var (
	_ pipeline.Stateful = (*Module)(nil)
	_ pipeline.Handed   = (*Module)(nil)
)

// stateVersion is that of the state of AppendState:
//
//	| version 1 | seed 8 |
//	| tunnels 2 | (port 2, kind and VNI 4) ... |
//	| ends 2    | (length 1: 0, 4 or 16, address) ... |
//	| hops 2    | (port 2, confirmed 8, MAC address 6, length 1, address) ... |
//	| (tunnel 2, end 2, MAC address 6, stamp 4) ... to the end: stations
//
// Numbers are little-endian, MAC addresses lie in the low bytes of theirs. Ports are those of the process that has the state; tunnels and ends of stations are places in these lists, and an end without an
// address is none. The seed places stations in buckets, so a table of the same size has room for all of them.
const stateVersion = 1

// stationSize in bytes.
const stationSize = 14

// AppendState implements pipeline.Stateful. Static stations are the configuration's, and so are ends and tunnels.
func (m *Module) AppendState(dst []byte, _ []string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tables.Load()
	le := binary.LittleEndian
	dst = append(dst, stateVersion)
	dst = le.AppendUint64(dst, m.fdb.seed)
	dst = le.AppendUint16(dst, uint16(len(t.tunnels)))
	for i := range t.tunnels {
		dst = le.AppendUint16(dst, t.tunnels[i].port)
		dst = le.AppendUint32(dst, t.tunnels[i].word())
	}
	dst = le.AppendUint16(dst, uint16(len(t.ends)))
	var hops []*hop
	seen := map[*hop]bool{}
	for i := range t.ends {
		e := &t.ends[i]
		if e.hop == nil { // a remote end of a configuration of before
			dst = append(dst, 0)
			continue
		}
		dst = appendAddr(dst, e.addr)
		if !seen[e.hop] && e.hop.mac.Load() != 0 {
			seen[e.hop] = true
			hops = append(hops, e.hop)
		}
	}
	dst = le.AppendUint16(dst, uint16(len(hops)))
	for _, h := range hops {
		mac := macBytes(h.mac.Load())
		dst = le.AppendUint16(dst, t.underlays[h.underlay].port)
		dst = le.AppendUint64(dst, uint64(h.confirmed.Load()))
		dst = appendAddr(append(dst, mac[:]...), h.addr)
	}
	m.fdb.each(func(key, v uint64) {
		port := int(key >> 48)
		if int(valueEnd(v)) >= len(t.ends) { // the last ends of a configuration of before
			return
		}
		if v&staticBit != 0 || port >= len(t.roles) || t.roles[port].kind != isTunnel {
			return
		}
		mac := macBytes(key)
		dst = le.AppendUint16(dst, t.roles[port].index)
		dst = le.AppendUint16(dst, uint16(valueEnd(v)))
		dst = le.AppendUint32(append(dst, mac[:]...), uint32(v))
	})
	return dst, nil
}

func appendAddr(dst []byte, a netip.Addr) []byte {
	return append(append(dst, byte(a.BitLen()/8)), a.AsSlice()...)
}

// word is a tunnel's kind, and its VNI or session.
func (t *tunnel) word() uint32 {
	if t.erspan {
		return t.session | 1<<25
	}
	return segment{t.geneve, t.vni}.word()
}

// each calls f for each station.
func (t *fdb) each(f func(key, v uint64)) {
	for i := range t.buckets {
		b := &t.buckets[i]
		for k := range b.keys {
			if key := b.keys[k].Load(); key != 0 {
				f(key, b.vals[k].Load())
			}
		}
	}
}

var errState = errors.New("the state of tunnels is cut off")

// reader reads a state. What is not there reads as zeros, and is errState in the end.
type reader struct {
	state []byte
	err   error
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.state) {
		r.err, r.state = errState, nil
		return make([]byte, n)
	}
	b := r.state[:n]
	r.state = r.state[n:]
	return b
}

func (r *reader) uint16() int    { return int(binary.LittleEndian.Uint16(r.bytes(2))) }
func (r *reader) uint32() uint32 { return binary.LittleEndian.Uint32(r.bytes(4)) }
func (r *reader) uint64() uint64 { return binary.LittleEndian.Uint64(r.bytes(8)) }

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("the state of tunnels: "+format, args...)
	}
}

// addr reads an address, which must be a host's; one of no bytes is not valid.
func (r *reader) addr() (a netip.Addr) {
	n := int(r.bytes(1)[0])
	if n == 0 {
		return a
	}
	if n != 4 && n != 16 {
		r.fail("an address of %d bytes", n)
		return a
	}
	a, _ = netip.AddrFromSlice(r.bytes(n))
	if r.err == nil && !isHost(a) {
		r.fail("%v is not the address of a host", a)
	}
	return a
}

// port reads the number of a port of the other process, of whose names there are so many.
func (r *reader) port(names []string) string {
	n := r.uint16()
	if n >= len(names) {
		r.fail("port %d of %d", n, len(names))
		return ""
	}
	return names[n]
}

func (r *reader) mac() uint64 {
	mac := macAt((*[6]byte)(r.bytes(6)))
	if mac&1 != 0 || mac == 0 {
		r.fail("%x is not the address of a station", macBytes(mac))
	}
	return mac
}

// count reads how many elements follow.
func (r *reader) count(what string, most int) int {
	n := r.uint16()
	if n > most {
		r.fail("%d %s, and there can be %d", n, what, most)
		return 0
	}
	return n
}

type takenHop struct {
	port      string
	addr      netip.Addr
	mac       uint64
	confirmed int64
}

// TakeState implements pipeline.Stateful. Left out are stations of tunnels that have another kind or VNI here, or no port, and those at ends that may not send to theirs: as by a reload. Nothing is
// taken of a state that is wrong.
func (m *Module) TakeState(state []byte, names []string, numbers map[string]uint16) error {
	r := &reader{state: state}
	if v := r.bytes(1)[0]; r.err == nil && v != stateVersion {
		return fmt.Errorf("the state of tunnels is of version %d, and not %d", v, stateVersion)
	}
	seed := r.uint64()
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tables.Load()
	tunnels := make([]*tunnel, r.count("tunnels", maxTunnels)) // theirs as ours, nil for none
	for i := range tunnels {
		port, known := numbers[r.port(names)]
		word := r.uint32()
		if known && int(port) < len(t.roles) && t.roles[port].kind == isTunnel {
			if own := &t.tunnels[t.roles[port].index]; own.word() == word && !own.erspan {
				tunnels[i] = own
			}
		}
	}
	ends := make([]netip.Addr, r.count("remote ends", maxEnds))
	for i := range ends {
		ends[i] = r.addr()
	}
	hops := make([]takenHop, r.count("next hops", maxEnds))
	for i := range hops {
		hops[i] = takenHop{port: r.port(names), confirmed: int64(r.uint64()), mac: r.mac(), addr: r.addr()}
		if !hops[i].addr.IsValid() {
			r.fail("a next hop without an address")
		}
		if hops[i].confirmed < 0 {
			r.fail("a next hop that was confirmed at %d", hops[i].confirmed)
		}
	}
	if n := len(r.state) / stationSize; n > maxTable {
		r.fail("%d stations, and there can be %d", n, maxTable)
	}
	if len(r.state)%stationSize != 0 && r.err == nil {
		r.err = errState
	}
	for s := (&reader{state: r.state}); r.err == nil && len(s.state) != 0; {
		at, end := s.uint16(), s.uint16()
		s.mac()
		s.uint32()
		if at >= len(tunnels) || end >= len(ends) {
			s.fail("a station of tunnel %d of %d, at end %d of %d", at, len(tunnels), end, len(ends))
		}
		r.err = s.err
	}
	if r.err != nil {
		return r.err
	}
	if !m.inline {
		m.fdb = newFDB(m.config.TableSize, seed)
		m.addStatic()
	}
	now := clock.Kernel.TAI()
	m.takeStations(r.state, tunnels, ends, stampOf(now))
	for _, h := range hops {
		number, ok := numbers[h.port]
		if own := m.hops[hopKey{number, h.addr}]; ok && own != nil {
			own.mac.Store(h.mac | macKnown)
			own.confirmed.Store(min(h.confirmed, now))
		}
	}
	return nil
}

// takeStations adds stations whose bytes were checked, and the ends that were learned with them. The caller has the lock.
func (m *Module) takeStations(state []byte, tunnels []*tunnel, ends []netip.Addr, now uint32) {
	numbers := make([]int, len(ends)) // theirs as ours: -1 for none, -2 as long as it was not asked for
	for i := range numbers {
		numbers[i] = -2
	}
	fresh := false
	number := func(end int, learn bool) int {
		if n := numbers[end]; n >= 0 || n == -1 && !learn {
			return n
		}
		a := ends[end]
		n, known := m.numbers[a]
		switch {
		case known:
			numbers[end] = int(n)
		case learn && a.IsValid() && m.room(a):
			numbers[end] = len(m.numbers)
			m.numbers[a] = uint32(len(m.numbers)) // build makes it
			m.learned, fresh = append(m.learned, a), true
		default:
			numbers[end] = -1
		}
		return numbers[end]
	}
	for r := (&reader{state: state}); len(r.state) != 0; {
		t, end, mac, stamp := tunnels[r.uint16()], r.uint16(), r.mac(), r.uint32()
		age := max(int32(now-stamp), 0)
		if t == nil || age > int32(m.config.Ageing/time.Second) {
			continue
		}
		if n := number(end, t.learn); n >= 0 && (t.learn || t.allowed(uint32(n))) {
			m.fdb.put(stationKey(t.port, mac), entryValue(uint32(n), now-uint32(age)))
		}
	}
	if fresh {
		m.tables.Store(m.build())
	}
}

// What is passed at rest, as JSON. Ports are by name.
type restState struct {
	Version   int            `json:"version"`
	Sequences []sequenceText `json:"sequences,omitempty"`
	TooBig    [][]tooBigText `json:"too_big,omitempty"` // of each worker
}

type sequenceText struct {
	Port string `json:"port"`
	Next uint32 `json:"next"`
}

type tooBigText struct {
	Port string `json:"port"`
	Data []byte `json:"data"`
}

// Share implements pipeline.Handed: all that Enter needs comes at rest.
func (m *Module) Share() (state []byte, files []*os.File, err error) { return nil, nil, nil }

// Take implements pipeline.Handed.
func (m *Module) Take(_ []byte, files []*os.File) error {
	for _, f := range files {
		_ = f.Close()
	}
	if len(files) != 0 {
		return fmt.Errorf("%d descriptors came, and it takes none", len(files))
	}
	return nil
}

// AppendRest implements pipeline.Handed.
func (m *Module) AppendRest(dst []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tables.Load()
	s := restState{Version: stateVersion}
	for i := range t.tunnels {
		if v := &t.tunnels[i]; v.erspan {
			s.Sequences = append(s.Sequences, sequenceText{v.name, v.sequence.Load()})
		}
	}
	for _, w := range m.workers {
		list := []tooBigText{}
		for i := range w.tooBig {
			if e := &w.tooBig[i]; int(e.port) < len(t.names) {
				list = append(list, tooBigText{t.names[e.port], e.data[:e.n]})
			}
		}
		s.TooBig = append(s.TooBig, list)
	}
	text, err := json.Marshal(s)
	return append(dst, text...), err
}

// Enter implements pipeline.Handed. What is of tunnels that there are no more is left out.
func (m *Module) Enter(state []byte) error {
	var s restState
	if err := json.Unmarshal(state, &s); err != nil {
		return fmt.Errorf("the state of tunnels at rest: %w", err)
	}
	switch {
	case s.Version != stateVersion:
		return fmt.Errorf("the state of tunnels at rest is of version %d, and not %d", s.Version, stateVersion)
	case len(s.Sequences) > maxTunnels:
		return fmt.Errorf("%d tunnels have sequence numbers, and there can be %d", len(s.Sequences), maxTunnels)
	case len(s.TooBig) != len(m.workers):
		return fmt.Errorf("ICMP errors of %d workers came, and there are %d", len(s.TooBig), len(m.workers))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tables.Load()
	byName := map[string]*tunnel{}
	for i := range t.tunnels {
		byName[t.tunnels[i].name] = &t.tunnels[i]
	}
	for w, list := range s.TooBig {
		if len(list) > maxTooBig {
			return fmt.Errorf("%d ICMP errors of worker %d came, and there can be %d", len(list), w, maxTooBig)
		}
		for _, e := range list {
			if len(e.Data) < header.EthernetLen+header.IPv4Len+header.ICMPLen || len(e.Data) > len(tooBig{}.data) {
				return fmt.Errorf("an ICMP error of worker %d has %d bytes", w, len(e.Data))
			}
			if v := byName[e.Port]; v != nil && !v.erspan {
				to := &m.workers[w].tooBig
				*to = (*to)[:len(*to)+1]
				last := &(*to)[len(*to)-1]
				last.port, last.n = v.port, copy(last.data[:], e.Data)
			}
		}
	}
	for _, q := range s.Sequences {
		if v := byName[q.Port]; v != nil && v.erspan {
			v.sequence.Store(q.Next)
		}
	}
	return nil
}

// Begin implements pipeline.Handed.
func (m *Module) Begin() {}

// Left implements pipeline.Handed: nothing of it is in memory that both have.
func (m *Module) Left() {}
