package live

import (
	"math/rand/v2"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/disketch"
	"github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/stages/oblivious"
	"github.com/weirswitch/weir/stages/patch"
	"github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/query"
)

// What flows send: a fifth of all packets are of some flows of the first rows, evenly, the others of a flow of any row by Zipf's law.
const (
	elephants     = 20
	elephantShare = 0.2
	zipfSkew      = 1.1
	packetBytes   = 200
)

// What the systems of live switches have less than by default, so that this machine carries hundreds of switches, and their few packets fill it.
const (
	LDSColumns  = 1024 // of a point
	LDSPoints   = 2    // of a switch
	SketchBytes = 16 << 10
	SampleSize  = 2000
)

// rowFlow is a flow of a row: those of most packets have the lowest numbers.
func rowFlow(row, i int) query.Key {
	k := query.Key{Version: 4, Proto: 17, SrcPort: uint16(1024 + i), DstPort: 443}
	copy(k.Src[:], []byte{10, byte(row >> 8), byte(row), 1})
	copy(k.Dst[:], []byte{10, byte(row >> 8), byte(row), 2})
	return k
}

// elephant is the row and the number of one of the flows that send most.
func elephant(i, rows int) (row, flow int) { return i % rows, i / rows }

// rowPath are the numbers of the switches of a row.
func rowPath(row int) (path [rowSwitches]int) {
	for i := range path {
		path[i] = 1 + row*rowSwitches + i
	}
	return path
}

// rowsOfSwitches are simulated ones, from a row of the network on.
type rowsOfSwitches struct {
	network *netsim.Network
	frames  *packet.Cache
	batch   *packet.Batch
	random  *rand.Rand
	zipf    *rand.Zipf
	first   int // row
	rows    int
	all     int // rows of the network
	sent    uint64
	lost    uint64 // packets that did not leave
}

func (p *Publisher) network() (*rowsOfSwitches, error) {
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 1 << 10, FrameSize: 2048})
	if err != nil {
		return nil, err
	}
	n := &rowsOfSwitches{
		frames: pool.NewCache(), first: p.First, rows: p.Rows, all: p.Config.Switches / rowSwitches,
		random: rand.New(rand.NewPCG(p.Config.Seed, uint64(p.First))),
	}
	n.zipf = rand.NewZipf(n.random, zipfSkew, 4, uint64(p.Config.Flows-1))
	n.batch = packet.NewBatch(n.frames, packet.BatchSize)
	var switches []netsim.Switch
	var cables []netsim.Cable
	for row := range p.Rows {
		for i, id := range rowPath(p.First + row) {
			switches = append(switches, p.Config.liveSwitch(id, i))
			if at := len(switches) - 1; i > 0 {
				cables = append(cables, netsim.Cable{{Switch: at - 1, Port: 1}, {Switch: at, Port: 0}})
			}
		}
	}
	if n.network, err = netsim.NewNetwork(switches, cables, n.frames); err != nil {
		return nil, err
	}
	n.network.Delay = func(sw int) int64 { return 1000 * int64(1+sw%7) }
	n.network.Link = func(netsim.End, *packet.Packet, int64) (int64, bool) { return 10_000 + n.random.Int64N(2000), false }
	return n, nil
}

// liveSwitch is a switch at a place of its row, with all systems.
func (c *Config) liveSwitch(id, place int) netsim.Switch {
	sample, sketches, digests := oblivious.DefaultConfig(), disketch.DefaultConfig(), pint.DefaultConfig()
	sample.Size, sample.EpochBits, sketches.EpochBits = SampleSize, c.EpochBits, c.EpochBits
	sketches.Fragments[0].Memory = SketchBytes
	in, out := lds.DefaultConfig(), lds.DefaultConfig()
	for _, l := range []*lds.Config{&in, &out} {
		l.Columns, l.IntervalBits = LDSColumns, c.EpochBits
	}
	in.Ports, out.Ports = []string{"a"}, []string{"b"}
	switch place {
	case 0:
		digests.Edge = []string{"a"}
	case rowSwitches - 1:
		digests.Edge = []string{"b"}
	}
	digests.IntervalBits = c.EpochBits
	cross := patch.DefaultConfig()
	cross.Pairs = [][2]string{{"a", "b"}}
	return netsim.Switch{
		ID: uint32(id), Hash: hash.XX, Ports: []string{"a", "b"},
		Graph:  []string{"parse", "oblivious", "lds_ingress", "patch", "disketch", "pint", "lds_egress"},
		Stages: map[string]any{"oblivious": &sample, "disketch": &sketches, "pint": &digests, "lds_ingress": &in, "lds_egress": &out, "patch": &cross},
	}
}

// send has a packet enter the network at a time.
func (n *rowsOfSwitches) send(at int64) {
	row, flow := n.first+n.random.IntN(n.rows), 0
	if n.random.Float64() < elephantShare {
		row, flow = elephant(n.random.IntN(elephants), n.all)
		if row < n.first || row >= n.first+n.rows {
			return // another publisher draws them too
		}
	} else {
		flow = int(n.zipf.Uint64())
	}
	address, ok := n.frames.AllocOne()
	if !ok {
		n.lost++
		return
	}
	p := packet.Packet{Addr: address + 256, Len: packetBytes, WireLen: packetBytes, Arrival: at}
	k := rowFlow(row, flow)
	data := n.batch.Mem[p.Addr:][:packetBytes]
	clear(data)
	copy(data, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0})
	(*header.IPv4)(data[14:]).Init([4]byte(k.Src[:4]), [4]byte(k.Dst[:4]), k.Proto, 64, 0, uint16(n.sent), packetBytes-14)
	data[34], data[35], data[36], data[37] = byte(k.SrcPort>>8), byte(k.SrcPort), byte(k.DstPort>>8), byte(k.DstPort)
	data[38], data[39] = 0, packetBytes-34
	for i := range 8 { // payloads differ, and so do packets' ids
		data[42+i] = byte(n.sent >> (8 * i))
	}
	n.sent++
	n.network.Carry(netsim.End{Switch: (row - n.first) * rowSwitches, Port: 0}, p, func(_ netsim.End, q *packet.Packet) {
		if q.Reason != 0 {
			n.lost++
		}
		n.frames.FreePacket(q)
	})
}
