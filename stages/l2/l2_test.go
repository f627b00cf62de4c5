package l2

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

var (
	_ pipeline.Module     = (*Module)(nil)
	_ pipeline.Background = (*Module)(nil)
	_ pipeline.Explainer  = (*stage)(nil)
)

var eight = []string{"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"}

// TestVLANModes sends one packet from p0 to p1 with each pair of modes, in hex
// of what stands behind the addresses.
func TestVLANModes(t *testing.T) {
	trunk := Port{Trunk: []int{10, 20}}
	native := Port{Trunk: []int{10, 20}, Native: 1}
	for _, tt := range []struct {
		name     string
		in, out  Port // the zero Port is transparent
		tag      string
		want     string
		wantDrop packet.Reason
	}{
		{name: "transparent, untagged"},
		{name: "transparent, tagged", tag: "8100000a", want: "8100000a"},
		{name: "transparent, priority tag", tag: "8100e000", want: "8100e000"},
		{name: "transparent, 802.1ad", tag: "88a8600a81000014", want: "88a8600a81000014"},
		{name: "transparent, reserved VID", tag: "81000fff", want: "81000fff"},
		{name: "access to access", in: Port{Access: 10}, out: Port{Access: 10}},
		{name: "access to other access", in: Port{Access: 10}, out: Port{Access: 20}, wantDrop: reasonNoMember},
		{name: "access to trunk", in: Port{Access: 10}, out: trunk, want: "8100000a"},
		{name: "access to native", in: Port{Access: 1}, out: native},
		{name: "access to transparent", in: Port{Access: 10}, want: "8100000a"},
		{name: "own tag into access", in: Port{Access: 10}, out: Port{Access: 10}, tag: "8100400a", wantDrop: reasonTagged},
		{name: "a tag behind the own one", in: Port{Access: 1}, out: native, tag: "8100000181000014", wantDrop: reasonTagged},
		{name: "a tag behind a priority tag", in: Port{Access: 1}, out: native, tag: "8100000081000014", wantDrop: reasonTagged},
		{name: "own tag to access", in: Port{Access: 10, AcceptTagged: true}, out: Port{Access: 10}, tag: "8100400a"},
		{name: "own tag to trunk", in: Port{Access: 10, AcceptTagged: true}, out: trunk, tag: "8100400a", want: "8100400a"},
		{name: "other tag into access", in: Port{Access: 10}, out: trunk, tag: "81000014", wantDrop: reasonTagged},
		{name: "other tag into access that takes tags", in: Port{Access: 10, AcceptTagged: true}, out: trunk, tag: "81000014", wantDrop: ReasonVLANFiltered},
		{name: "priority tag to access", in: Port{Access: 10}, out: Port{Access: 10}, tag: "8100e000"},
		{name: "priority tag to trunk", in: Port{Access: 10}, out: trunk, tag: "8100e000", want: "8100e00a"},
		{name: "two tags to access", in: trunk, out: Port{Access: 10}, tag: "8100000a81000014", want: "81000014"},
		{name: "trunk to trunk", in: trunk, out: native, tag: "81006014", want: "81006014"},
		{name: "trunk to access", in: trunk, out: Port{Access: 20}, tag: "81006014"},
		{name: "trunk to transparent", in: trunk, tag: "81006014", want: "81006014"},
		{name: "other VLAN into trunk", in: trunk, tag: "8100001e", wantDrop: ReasonVLANFiltered},
		{name: "untagged into trunk", in: trunk, wantDrop: ReasonVLANFiltered},
		{name: "priority tag into trunk", in: trunk, tag: "8100e000", wantDrop: ReasonVLANFiltered},
		{name: "reserved VID into trunk", in: trunk, tag: "81000fff", wantDrop: ReasonVLANFiltered},
		{name: "native to native", in: native, out: native},
		{name: "native tagged to native", in: native, out: native, tag: "8100a001"},
		{name: "native to tagged", in: native, out: Port{Trunk: []int{1}}, want: "81000001"},
		{name: "native with priority tag to tagged", in: native, out: Port{Trunk: []int{1}}, tag: "8100e000", want: "8100e001"},
		{name: "untagged to access alone", out: Port{Access: 10}, wantDrop: reasonNoMember},
		{name: "transparent to access", tag: "8100000a", out: Port{Access: 10}},
	} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, known %v", tt.name, known), func(t *testing.T) {
				testVLANMode(t, tt.in, tt.out, tt.tag, tt.want, tt.wantDrop, known)
			})
		}
	}
}

func testVLANMode(t *testing.T, in, out Port, tag, want string, wantDrop packet.Reason, known bool) {
	c := DefaultConfig()
	for i, pc := range []Port{in, out} {
		if pc.Access != 0 || pc.Trunk != nil {
			pc.Port = eight[i]
			c.Ports = append(c.Ports, pc)
		}
	}
	m := newModule(t, c, "p0", "p1")
	m.Inline()
	s := m.Stage(0).(*stage)
	src, dst := stationMAC(1), stationMAC(2)
	if known && wantDrop == 0 {
		for vlan := range uint16(4096) {
			if m.settings.Load().ports[1].has(vlan) {
				m.fdb.learn(makeKey(vlan, dst), 1, 1)
			}
		}
	}
	b := newBatch(t, packet.BatchSize)
	p := addPacket(t, b, 0, frame(src, dst, tag))
	// Push must need no more than the four bytes.
	if strings.HasPrefix(want, "8100") && tag == "" {
		p.Addr -= testHeadroom - tagLen
		copy(b.Mem[p.Addr:], frame(src, dst, tag))
	}
	s.Process(b)
	p = &b.Pkts[0]
	if p.Reason != wantDrop {
		t.Fatalf("dropped as %q, want %q", p.Reason, wantDrop)
	}
	if wantDrop != 0 {
		return
	}
	if got := b.Data(p); p.OutPort != 1 || !bytes.Equal(got, frame(src, dst, want)) {
		t.Fatalf("port %d sends\n% x, want\n% x", p.OutPort, got, frame(src, dst, want))
	}
	if known == (s.flooded.Load() != 0) {
		t.Fatalf("flooded %d, known is %v", s.flooded.Load(), known)
	}
}

func frame(src, dst MAC, tag string) []byte {
	var tags []byte
	fmt.Sscanf(tag, "%x", &tags)
	rest := append([]byte{8, 0}, bytes.Repeat([]byte{0x55}, 46)...)
	return append(append(append(append([]byte{}, dst[:]...), src[:]...), tags...), rest...)
}

// TestNoHeadroom pushes a tag where there is no room for it.
func TestNoHeadroom(t *testing.T) {
	c := DefaultConfig()
	c.Ports = []Port{{Port: "p0", Access: 10}, {Port: "p1", Trunk: []int{10}}, {Port: "p2", Access: 10}}
	m := newModule(t, c, "p0", "p1", "p2")
	s := m.Stage(0).(*stage)
	b := newBatch(t, packet.BatchSize)
	data := frame(stationMAC(1), stationMAC(2), "")
	p := addPacket(t, b, 0, data)
	p.Addr -= testHeadroom - tagLen + 1
	copy(b.Mem[p.Addr:], data)
	s.Process(b)
	if len(b.Pkts) != 2 || b.Pkts[0].Reason != packet.ReasonNoHeadroom || b.Pkts[1].Reason != 0 || b.Dropped != 1 {
		t.Fatalf("packets %+v, want the copy to p1 dropped and p2's sent", b.Pkts)
	}
	if !bytes.Equal(b.Data(&b.Pkts[1]), data) {
		t.Fatal("the packet changed")
	}
}

// TestBroadcast sends a broadcast into each of eight ports: the seven others
// send it once, with the same bytes.
func TestBroadcast(t *testing.T) {
	s := newModule(t, DefaultConfig(), eight...).Stage(0).(*stage)
	b := newBatch(t, 8*packet.BatchSize)
	var want [][]byte
	for in := range eight {
		want = append(want, ether(groupMAC(0xff), stationMAC(in), 0x0806, 60+in))
		addPacket(t, b, uint16(in), want[in])
	}
	s.Process(b)
	seen := map[[2]uint16]int{}
	for i := range b.Pkts {
		p := &b.Pkts[i]
		seen[[2]uint16{p.InPort, p.OutPort}]++
		if !bytes.Equal(b.Data(p), want[p.InPort]) {
			t.Errorf("from %d to %d: % x", p.InPort, p.OutPort, b.Data(p))
		}
	}
	for in := range uint16(8) {
		for out := range uint16(8) {
			if n := seen[[2]uint16{in, out}]; (n == 1) != (in != out) || n > 1 {
				t.Errorf("%d broadcasts from %d to %d", n, in, out)
			}
		}
	}
	if b.Copied != 8*6 || b.Dropped != 0 || s.flooded.Load() != 8 {
		t.Errorf("%d copies, %d dropped, %d flooded", b.Copied, b.Dropped, s.flooded.Load())
	}
	release(b)
	if census := b.Pool().Census(); census.Free != testFrames || census.Faults != 0 {
		t.Errorf("frames %+v", census)
	}
}

// TestFloodOfChain floods a packet of three frames.
func TestFloodOfChain(t *testing.T) {
	s := newModule(t, DefaultConfig(), "p0", "p1", "p2", "p3").Stage(0).(*stage)
	b := newBatch(t, 4*packet.BatchSize)
	p := addPacket(t, b, 0, ether(stationMAC(1), stationMAC(2), 0x0800, 1000))
	for range 2 {
		addr, _ := b.Frames.AllocOne()
		copy(b.Mem[addr:], bytes.Repeat([]byte{byte(addr >> 11)}, 1500))
		p.Next = b.Pool().Link(addr, 1500, p.Next)
		p.WireLen += 1500
	}
	want := b.AppendBytes(nil, p)
	s.Process(b)
	if len(b.Pkts) != 3 {
		t.Fatalf("%d packets, want 3", len(b.Pkts))
	}
	for i := range b.Pkts {
		if got := b.AppendBytes(nil, &b.Pkts[i]); !bytes.Equal(got, want) || len(got) != 4000 {
			t.Errorf("packet %d differs: %d bytes", i, len(got))
		}
	}
	release(b)
	if census := b.Pool().Census(); census.Free != testFrames || census.Faults != 0 {
		t.Errorf("frames %+v", census)
	}
}

// TestFloodWithoutRoom floods more than the batch holds, or than frames are
// free: originals are never lost, and every missing copy is counted.
func TestFloodWithoutRoom(t *testing.T) {
	for _, tt := range []struct {
		name                  string
		capacity, frames      int
		wantRoom, wantNoFrame int
	}{
		{"enough", 256, 256, 0, 0},
		{"batch full", packet.BatchSize, 256, 60*2 - 4, 0},
		{"batch nearly full", packet.BatchSize + 10, 256, 60*2 - 14, 0},
		{"frames short", 256, 75, 0, 60*2 - 15},
		{"no frames", 256, 60, 0, 60 * 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newModule(t, DefaultConfig(), "p0", "p1", "p2", "p3").Stage(0).(*stage)
			b := newBatchOf(t, tt.capacity, tt.frames)
			for i := range uint64(60) {
				addPacket(t, b, 0, ether(groupMAC(0xff), stationMAC(1), 0x0800, 60)).ID = i
			}
			s.Process(b)
			if c := s.module.Counters(); b.NoRoom != tt.wantRoom || b.NoFrame != tt.wantNoFrame || c.Flooded != 60 {
				t.Errorf("%d without room, %d without frame, want %d and %d; counters %+v", b.NoRoom, b.NoFrame, tt.wantRoom, tt.wantNoFrame, c)
			}
			missing := tt.wantRoom + tt.wantNoFrame
			if len(b.Pkts) != 60*3-missing || b.Copied != 60*2-missing || b.Dropped != 0 {
				t.Errorf("%d packets, %d copies, %d dropped", len(b.Pkts), b.Copied, b.Dropped)
			}
			originals, last := uint64(0), map[uint16]uint64{}
			for i := range b.Pkts {
				p := &b.Pkts[i]
				if !p.Flags.Has(packet.FlagCopy) {
					if p.ID != originals || p.OutPort != 3 {
						t.Fatalf("original %d of port %d where %d is due", p.ID, p.OutPort, originals)
					}
					originals++
				}
				if before, ok := last[p.OutPort]; ok && p.ID <= before {
					t.Fatalf("port %d sends %d behind %d", p.OutPort, p.ID, before)
				}
				last[p.OutPort] = p.ID
			}
			if originals != 60 {
				t.Errorf("%d originals left, want 60", originals)
			}
			release(b)
			if census := b.Pool().Census(); census.Free != tt.frames || census.Faults != 0 {
				t.Errorf("frames %+v", census)
			}
		})
	}
}

// TestOrderWhileLearning lets a station answer in the middle of a batch: the
// packets to it are flooded first, then sent to its port alone, in order.
func TestOrderWhileLearning(t *testing.T) {
	m := newModule(t, DefaultConfig(), "p0", "p1", "p2")
	m.Inline()
	s := m.Stage(0).(*stage)
	b := newBatch(t, 4*packet.BatchSize)
	a, z := stationMAC(1), stationMAC(2)
	for i := range uint64(40) {
		addPacket(t, b, 0, ether(z, a, 0x0800, 60)).ID = i
		if i == 19 {
			addPacket(t, b, 2, ether(a, z, 0x0800, 60)).ID = 1000
		}
	}
	s.Process(b)
	var ports [3][]uint64
	for i := range b.Pkts {
		ports[b.Pkts[i].OutPort] = append(ports[b.Pkts[i].OutPort], b.Pkts[i].ID)
	}
	if len(ports[0]) != 1 || len(ports[1]) != 20 || len(ports[2]) != 40 {
		t.Fatalf("ports send %d, %d and %d packets, want 1, 20 and 40", len(ports[0]), len(ports[1]), len(ports[2]))
	}
	for _, port := range []int{1, 2} {
		for i, id := range ports[port] {
			if id != uint64(i) {
				t.Fatalf("port %d sends packet %d as number %d", port, id, i)
			}
		}
	}
}

func TestExplain(t *testing.T) {
	c := DefaultConfig()
	c.Ports = []Port{{Port: "p0", Access: 10}, {Port: "p1", Trunk: []int{10}}}
	c.Static = []Static{{MAC: stationMAC(9).String(), VLAN: 10, Port: "p0"}}
	m := newModule(t, c, "p0", "p1")
	m.Inline()
	s := m.Stage(0).(*stage)
	b := newBatch(t, packet.BatchSize)
	one, two := stationMAC(1), stationMAC(2)
	for _, tt := range []struct {
		port uint16
		data []byte
		want string
	}{
		{0, ether(two, one, 0x0800, 60), "vlan 10, 02:00:00:00:00:02 on p0 to 02:00:00:00:00:03: unknown, flooded, leaves by p1"},
		{1, ether(one, two, 0x0800, 60, 10), "vlan 10, 02:00:00:00:00:03 on p1 to 02:00:00:00:00:02: known, leaves by p0"},
		{1, ether(stationMAC(9), two, 0x0800, 60, 10), "vlan 10, 02:00:00:00:00:03 on p1 to 02:00:00:00:00:0a: static, leaves by p0"},
		{0, ether(groupMAC(0xff), one, 0x0800, 60), "vlan 10, 02:00:00:00:00:02 on p0 to ff:ff:ff:ff:ff:ff: group, flooded, leaves by p1"},
		{1, ether(one, two, 0x0800, 60, 11), "vlan 11, 02:00:00:00:00:03 on p1 to 02:00:00:00:00:02"},
	} {
		addPacket(t, b, tt.port, tt.data)
		s.Process(b)
		if got := s.Explain(b, &b.Pkts[0]); got != tt.want {
			t.Errorf("explained as\n%s, want\n%s", got, tt.want)
		}
		release(b)
	}
}

// TestProcessDoesNotAllocate covers learning, forwarding, tags and flooding.
func TestProcessDoesNotAllocate(t *testing.T) {
	c := DefaultConfig()
	c.Ports = []Port{{Port: "p0", Access: 10}, {Port: "p1", Trunk: []int{10}}, {Port: "p2", Access: 10}}
	for _, inline := range []bool{false, true} {
		m := newModule(t, c, "p0", "p1", "p2")
		if inline {
			m.Inline()
		}
		s := m.Stage(0).(*stage)
		b := newBatch(t, 4*packet.BatchSize)
		data := ether(stationMAC(0), stationMAC(1), 0x0800, 60)
		var next uint32
		if n := testing.AllocsPerRun(200, func() {
			b.Now += 1e8
			for i := range uint32(packet.BatchSize) {
				binary.BigEndian.PutUint32(data[2:], (next*7+i)%500)
				binary.BigEndian.PutUint32(data[8:], next%500)
				addPacket(t, b, uint16(i%3), data)
				next++
			}
			s.Process(b)
			release(b)
			if !inline && next%1024 == 0 {
				s.ring.Drain(func(e *event) { m.fdb.learn(e.key, e.port, e.stamp) })
			}
		}); n != 0 {
			t.Errorf("inline %v: %v allocations per batch", inline, n)
		}
		if c := m.Counters(); c.Learned == 0 || c.Flooded == 0 || c.Moved == 0 {
			t.Errorf("inline %v: the batches do not reach all of the stage: %+v", inline, c)
		}
	}
}
