package virtio

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// TestCall: Flush asks for a notification as the driver has set its side: after which of four packets.
func TestCall(t *testing.T) {
	for _, c := range []struct {
		name   string
		layout Layout
		set    func(d *driver)
		want   string
	}{
		{"split, wanted", Layout{}, func(*driver) {}, "1111"},
		{"split, unwanted", Layout{}, func(d *driver) { d.put16(driverAt, 1) }, "0000"},
		// The first decision is always to notify: nothing is known of the time before.
		{"split, at the third", Layout{EventIdx: true}, func(d *driver) { d.put16(driverAt+4+2*8, 2) }, "1010"},
		{"split, past", Layout{EventIdx: true}, func(d *driver) { d.put16(driverAt+4+2*8, 0xffff) }, "1000"},
		{"packed, wanted", Layout{Packed: true}, func(d *driver) { d.suppress(0, eventEnable) }, "1111"},
		{"packed, unwanted", Layout{Packed: true}, func(d *driver) { d.suppress(0, eventDisable) }, "0000"},
		{"packed, at the third", Layout{Packed: true, EventIdx: true}, func(d *driver) { d.suppress(1<<15|2, eventDesc) }, "0010"},
		{"packed, at the third of the next turn", Layout{Packed: true, EventIdx: true}, func(d *driver) { d.suppress(2, eventDesc) }, "0000"},
		{"packed, unknown", Layout{Packed: true, EventIdx: true}, func(d *driver) { d.suppress(0, 3) }, "0000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.layout.Size, c.layout.Header = 8, 12
			d := newDriver(t, c.layout)
			c.set(d)
			if d.ring.Flush() {
				t.Error("a notification of nothing")
			}
			got := ""
			for i := range 4 {
				d.offer(uint16(i), descriptor{addr: buffer0(i), len: 100})
				if n, ok := d.ring.Get(make([]byte, 1600)); !ok || n != 88 {
					t.Fatalf("packet %d: %d bytes (%t), faults %s", i, n, ok, d.text())
				}
				call := 0
				if d.ring.Flush() {
					call = 1
				}
				got += fmt.Sprint(call)
			}
			if got != c.want {
				t.Errorf("notified %s, want %s", got, c.want)
			}
		})
	}
}

// suppress writes the driver's event suppression of a packed ring.
func (d *driver) suppress(offWrap, flags uint16) {
	d.put16(driverAt, offWrap)
	d.put16(driverAt+2, flags)
}

// TestArm: a ring begins silent, asks for notifications when armed, and sees what came in between.
func TestArm(t *testing.T) {
	for name, l := range layouts(8) {
		for _, event := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, event index %t", name, event), func(t *testing.T) {
				l.EventIdx = event
				d := newDriver(t, l)
				wanted := func() bool { // as a driver decides
					switch {
					case l.Packed:
						return d.get16(deviceAt+2) == eventEnable
					case event:
						return d.get16(deviceAt+4+8*8) == d.next
					}
					return d.get16(deviceAt)&1 == 0
				}
				offer := func(id int) { d.offer(uint16(id), descriptor{addr: buffer0(id), len: 100}) }
				offer(0)
				if wanted() {
					t.Error("a new ring asks for notifications")
				}
				if !d.ring.Arm() {
					t.Error("armed beside a packet, and not ready")
				}
				d.ring.Disarm()
				if _, ok := d.ring.Get(make([]byte, 1600)); !ok {
					t.Fatal("no packet")
				}
				d.ring.Flush()
				if d.ring.Arm() {
					t.Error("ready without a packet")
				}
				if !wanted() {
					t.Error("armed, and no notification is asked for")
				}
				offer(1)
				if d.ring.Available(8) == 0 {
					t.Error("the packet is not seen")
				}
				d.ring.Disarm()
				if wanted() {
					t.Error("disarmed, and notifications are asked for")
				}
			})
		}
	}
}

// TestMemory: regions that overlap or exceed the address space are refused, and buffers may be in
// two regions that touch.
func TestMemory(t *testing.T) {
	bytes := make([]byte, 8192)
	for _, c := range []struct {
		name    string
		regions []Region
		good    bool
	}{
		{"none", nil, true},
		{"touching", []Region{{0, 0, bytes[:4096]}, {4096, 4096, bytes[4096:]}}, true},
		{"at the end of the space", []Region{{^uint64(0) - 4095, 0, bytes[:4096]}}, true},
		{"empty", []Region{{0, 0, nil}}, false},
		{"beyond the space", []Region{{^uint64(0) - 4094, 0, bytes[:4096]}}, false},
		{"beyond the front-end's", []Region{{0, ^uint64(0) - 4094, bytes[:4096]}}, false},
		{"guest addresses overlap", []Region{{0, 0, bytes[:4096]}, {4095, 9999, bytes[4096:]}}, false},
		{"user addresses overlap", []Region{{0, 5000, bytes[:4096]}, {9999, 905, bytes[4096:]}}, false},
		{"one in the other", []Region{{0, 0, bytes}, {10, 99999, bytes[:10]}}, false},
	} {
		m, err := NewMemory(c.regions)
		if (err == nil) != c.good {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.name == "touching" {
			binary.LittleEndian.PutUint32(bytes[4094:], 0x44332211)
			first, second := m.piece(4094, 4), m.piece(4096, 2)
			if len(first) != 2 || first[0] != 0x11 || len(second) != 2 || second[1] != 0x44 {
				t.Errorf("pieces %x and %x", first, second)
			}
		}
	}
}
