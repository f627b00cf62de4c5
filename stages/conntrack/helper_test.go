package conntrack

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/parse"
)

var testEnv = pipeline.Env{Workers: 1, Ports: []pipeline.Port{{Name: "p0"}, {Name: "p1"}, {Name: "p2"}}}

// testWorkers is how many workers rigs have: see TestWorkers.
var testWorkers = 1

// handOvers, if not 0, is after how many batches the connections of rigs go over to another module, as to another process.
var handOvers = 0

// rig is a parser and the stage, with a batch and a clock. Of several workers, each packet arrives at another one than the packet before.
type rig struct {
	*Module
	t     testing.TB
	parse pipeline.Stage
	stage *stage // of the first worker
	one   *packet.Batch
	turn  int // of the worker at which the next packet arrives
	hops  int // packets handed over
	batch *packet.Batch
	addrs []uint64
	now   int64
	ran   int // batches
}

func newRig(t testing.TB, c Config) *rig {
	t.Helper()
	m, err := New(c, rigEnv())
	if err != nil {
		t.Fatal(err)
	}
	m.Inline() // the same hash in each run
	p, err := parse.New(parse.DefaultConfig(), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := packet.NewPool(packet.PoolConfig{Frames: packet.BatchSize, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	r := &rig{t: t, Module: m, parse: p.Stage(0), stage: m.Stage(0).(*stage), batch: packet.NewBatch(pool.NewCache(), packet.BatchSize), now: 1 << 40}
	for w := range testWorkers - 1 {
		m.Stage(w + 1)
	}
	r.one = packet.NewBatch(r.batch.Frames, packet.BatchSize)
	for range packet.BatchSize {
		addr, _ := r.batch.Frames.AllocOne()
		r.addrs = append(r.addrs, addr)
	}
	return r
}

func rigEnv() pipeline.Env {
	env := testEnv
	env.Workers, env.Shared, env.Audit = testWorkers, handOvers != 0, handOvers != 0
	return env
}

// put adds a frame to the batch.
func (r *rig) put(port int, frame []byte) {
	p := r.batch.Append()
	p.Addr, p.InPort = r.addrs[len(r.batch.Pkts)-1], uint16(port)
	p.Len, p.WireLen = uint32(len(frame)), uint32(len(frame))
	copy(r.batch.Data(p), frame)
}

// run takes the batch through both stages, and empties it. It returns what became of its packets.
func (r *rig) run() (out []packet.Reason) {
	r.batch.Now = r.now
	if r.ran++; handOvers != 0 && r.ran%handOvers == 0 {
		r.handOver()
	}
	r.process()
	for i := range r.batch.Pkts {
		out = append(out, r.batch.Pkts[i].Reason)
	}
	r.batch.Reset()
	return out
}

// process takes the batch through both stages.
func (r *rig) process() {
	r.parse.Process(r.batch)
	if testWorkers == 1 {
		r.stage.Process(r.batch)
		return
	}
	for i := range r.batch.Pkts {
		r.travel(&r.batch.Pkts[i])
	}
}

// travel takes a packet to its home, and through the stage there.
func (r *rig) travel(p *packet.Packet) {
	b := r.one
	b.Now = r.batch.Now
	*b.Append() = *p
	at := r.turn % testWorkers
	r.turn++
	from := at
	for hop := 0; ; hop++ {
		var home [1]uint8
		r.Steer(at, b, from, home[:])
		if int(home[0]) == at {
			break
		}
		if hop == 2 {
			panic("a packet is handed over for the third time")
		}
		r.hops++
		from, at = at, int(home[0])
	}
	r.stages[at].Process(b)
	*p = b.Pkts[0]
	b.Reset()
}

// used is how many connections the workers have.
func (r *rig) used() (n int) {
	for _, s := range r.stages {
		n += int(s.table.used)
	}
	return n
}

// send sends one frame, and returns what became of it.
func (r *rig) send(port int, frame []byte) packet.Reason {
	r.put(port, frame)
	return r.run()[0]
}

// reload puts another configuration into force.
func (r *rig) reload(t testing.TB, c Config) {
	t.Helper()
	commit, err := r.Prepare(c, testEnv.Ports)
	if err != nil {
		t.Fatal(err)
	}
	commit()
}

// probe is a packet, in words.
type probe struct {
	port             int
	src, dst         netip.Addr
	proto            uint8
	srcPort, dstPort uint16
	data             []byte // behind the transport header

	flags    uint8 // of TCP
	seq, ack uint32
	win      uint16
	options  []byte

	icmpType, icmpCode uint8
	icmpID             uint16
	about              *probe // of an ICMP error

	id     uint32 // of a fragment
	offset int    // in bytes
	more   bool
}

func (q *probe) fragment() bool { return q.offset != 0 || q.more }

// back is an answer by way of a port: the same packet from the other side.
func (q probe) back(port int) probe {
	q.src, q.dst, q.srcPort, q.dstPort, q.port = q.dst, q.src, q.dstPort, q.srcPort, port
	return q
}

func tcpProbe(port int, src, dst string, flags uint8, seq, ack uint32, n int) probe {
	a, b := netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst)
	return probe{port: port, src: a.Addr(), dst: b.Addr(), proto: 6, srcPort: a.Port(), dstPort: b.Port(), flags: flags, seq: seq, ack: ack, win: 60000, data: make([]byte, n)}
}

func udpProbe(port int, src, dst string) probe {
	a, b := netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst)
	return probe{port: port, src: a.Addr(), dst: b.Addr(), proto: 17, srcPort: a.Port(), dstPort: b.Port(), data: []byte("query")}
}

func echoProbe(port int, src, dst string, answer bool, id uint16) probe {
	q := probe{port: port, src: netip.MustParseAddr(src), dst: netip.MustParseAddr(dst), proto: 1, icmpType: 8, icmpID: id, data: []byte("ping")}
	if answer {
		q.icmpType = 0
	}
	if q.src.Is6() {
		q.proto, q.icmpType = 58, 128
		if answer {
			q.icmpType = 129
		}
	}
	return q
}

// errorProbe is an ICMP error about a packet.
func errorProbe(port int, from string, about probe) probe {
	q := probe{port: port, src: netip.MustParseAddr(from), dst: about.src, proto: 1, icmpType: 3, icmpCode: 1, about: &about}
	if q.src.Is6() {
		q.proto, q.icmpType = 58, 1
	}
	return q
}

// transport writes what is behind the IP header, the whole datagram's.
func (q *probe) transport() []byte {
	var b []byte
	switch q.proto {
	case 6:
		b = binary.BigEndian.AppendUint16(b, q.srcPort)
		b = binary.BigEndian.AppendUint16(b, q.dstPort)
		b = binary.BigEndian.AppendUint32(b, q.seq)
		b = binary.BigEndian.AppendUint32(b, q.ack)
		b = append(b, byte(20+len(q.options))<<2, q.flags)
		b = binary.BigEndian.AppendUint16(b, q.win)
		b = append(b, 0, 0, 0, 0)
		b = append(b, q.options...)
	case 17, 136:
		b = binary.BigEndian.AppendUint16(b, q.srcPort)
		b = binary.BigEndian.AppendUint16(b, q.dstPort)
		b = binary.BigEndian.AppendUint16(b, uint16(8+len(q.data)))
		b = append(b, 0, 0)
	case 132:
		b = binary.BigEndian.AppendUint16(b, q.srcPort)
		b = binary.BigEndian.AppendUint16(b, q.dstPort)
		b = append(b, make([]byte, 8)...)
	case 1, 58:
		b = append(b, q.icmpType, q.icmpCode, 0, 0)
		b = binary.BigEndian.AppendUint16(b, q.icmpID)
		b = append(b, 0, 0)
		if q.about != nil {
			inner := q.about.ip()
			b = append(b, inner[:min(len(inner), 48)]...)
		}
	}
	b = append(b, q.data...)
	q.checksum(b)
	return b
}

// checksum writes the transport checksum, for hosts that verify it.
func (q *probe) checksum(b []byte) {
	at := map[uint8]int{6: 16, 17: 6, 1: 2, 58: 2}[q.proto]
	if at == 0 || q.fragment() {
		return
	}
	var sum uint32
	add := func(b []byte) {
		for i := 0; i+1 < len(b); i += 2 {
			sum += uint32(b[i])<<8 | uint32(b[i+1])
		}
		if len(b)%2 == 1 {
			sum += uint32(b[len(b)-1]) << 8
		}
	}
	add(b)
	if q.proto != 1 {
		add(q.src.AsSlice())
		add(q.dst.AsSlice())
		sum += uint32(q.proto) + uint32(len(b))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(b[at:], ^uint16(sum))
}

// ip writes the IP packet. A later fragment has the data of its probe alone.
func (q *probe) ip() []byte {
	payload := q.data
	if q.offset == 0 {
		payload = q.transport()
	}
	if q.src.Is4() {
		b := []byte{0x45, 0, 0, 0, byte(q.id >> 8), byte(q.id), 0, 0, 64, q.proto, 0, 0}
		binary.BigEndian.PutUint16(b[2:], uint16(20+len(payload)))
		frag := uint16(q.offset / 8)
		if q.more {
			frag |= 0x2000
		}
		binary.BigEndian.PutUint16(b[6:], frag)
		b = append(append(b, q.src.AsSlice()...), q.dst.AsSlice()...)
		var sum uint32
		for i := 0; i < 20; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(b[i:]))
		}
		sum = sum&0xffff + sum>>16
		sum = sum&0xffff + sum>>16
		binary.BigEndian.PutUint16(b[10:], ^uint16(sum))
		return append(b, payload...)
	}
	next := q.proto
	if q.fragment() {
		head := []byte{q.proto, 0, 0, 0, 0, 0, 0, 0}
		binary.BigEndian.PutUint16(head[2:], uint16(q.offset))
		if q.more {
			head[3] |= 1
		}
		binary.BigEndian.PutUint32(head[4:], q.id)
		payload, next = append(head, payload...), 44
	}
	b := []byte{0x60, 0, 0, 0, 0, 0, next, 64}
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	b = append(append(b, q.src.AsSlice()...), q.dst.AsSlice()...)
	return append(b, payload...)
}

// frame writes the whole frame, padded to 60 bytes.
func (q *probe) frame() []byte {
	b := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0}
	if q.src.Is6() {
		b[12], b[13] = 0x86, 0xdd
	}
	b = append(b, q.ip()...)
	for len(b) < 60 {
		b = append(b, 0)
	}
	return b
}
