package xdp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/nic"
)

func newTap(t *testing.T) (index int) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "wxt"
	tap := &netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TAP}
	if err := netlink.LinkAdd(tap); err != nil {
		t.Skip("no tap device here: ", err)
	}
	l, err := netlink.LinkByName(attrs.Name)
	check(t, err)
	return l.Attrs().Index
}

// TestDeviceTimes: veth implements the function, loopback and tap do not.
func TestDeviceTimes(t *testing.T) {
	newNamespace(t)
	veth, _ := newVeth(t, 1500)
	p := newProgram(t, Options{Timestamp: ClockTAI})
	for _, test := range []struct {
		name    string
		ifindex int
		want    bool
	}{{"veth", veth, true}, {"lo", 1, false}, {"tap", newTap(t), false}} {
		if can, err := nic.XDPFeatures(test.ifindex); err != nil || !can.MetadataKnown || can.RxTimestamp != test.want {
			t.Errorf("%s: %+v, %v", test.name, can, err)
		}
		device, err := p.ForDevice(test.ifindex)
		if test.want {
			check(t, err)
			check(t, device.Close())
		} else if !errors.Is(err, ErrNoDeviceTimes) {
			t.Errorf("%s: error %v", test.name, err)
		}
	}
	if _, err := nic.XDPFeatures(9999); err == nil {
		t.Error("an interface that is not there is described")
	}
	if _, err := newProgram(t, Options{Timestamp: ClockMonotonic}).ForDevice(veth); err == nil {
		t.Error("times of CLOCK_TAI are mixed with others")
	}
}

// TestForDevice puts the program for a veth in the place of the other. Frames from the peer have no
// time of a device, and are counted.
func TestForDevice(t *testing.T) {
	newNamespace(t)
	for _, frags := range []bool{false, true} {
		veth, peer := newVeth(t, 1500)
		p := newProgram(t, Options{Timestamp: ClockTAI, Frags: frags})
		device, err := p.ForDevice(veth)
		check(t, err)
		a, err := p.Attach(veth, Native)
		check(t, err)
		check(t, a.Replace(device))
		l, err := netlink.LinkByIndex(veth)
		check(t, err)
		info, err := device.program.Info()
		check(t, err)
		if id, _ := info.ID(); l.Attrs().Xdp == nil || l.Attrs().Xdp.ProgId != uint32(id) {
			t.Fatalf("%+v on the interface, want program %d", l.Attrs().Xdp, id)
		}
		const packets = 10
		sendFrames(t, peer, packets)
		var c Counters
		for deadline := time.Now().Add(10 * time.Second); c.Unstamped < packets && time.Now().Before(deadline); {
			if c, err = p.Counters(); err != nil {
				t.Fatal(err)
			}
		}
		if want := (Counters{NoSocket: packets, Unstamped: packets}); c != want {
			t.Errorf("frags %v: %+v, want %+v: the maps are shared", frags, c, want)
		}
		check(t, a.Replace(p)) // and back
		sendFrames(t, peer, 1)
		for deadline := time.Now().Add(10 * time.Second); c.NoSocket == packets && time.Now().Before(deadline); {
			if c, err = p.Counters(); err != nil {
				t.Fatal(err)
			}
		}
		if c.Unstamped != packets || c.NoSocket != packets+1 {
			t.Errorf("%+v after the program without a device", c)
		}
		check(t, a.Close())
		check(t, netlink.LinkDel(l))
		if err := device.Close(); err != nil {
			t.Errorf("close a program whose device is gone: %v", err)
		}
	}
}

func sendFrames(t *testing.T, ifindex, n int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(fd)
	for range n {
		check(t, unix.Sendto(fd, append(ethernet(0x88b5), make([]byte, 50)...), 0, &unix.SockaddrLinklayer{Ifindex: ifindex, Halen: 6}))
	}
}

// TestForDeviceElsewhere: where the driver's function would find something else than its frames.
func TestForDeviceElsewhere(t *testing.T) {
	newNamespace(t)
	veth, peer := newVeth(t, 1500)
	p := newProgram(t, Options{Timestamp: ClockTAI})
	device, err := p.ForDevice(veth)
	check(t, err)
	defer device.Close()
	if _, err := device.Attach(peer, Native); err == nil {
		t.Error("attached to another device")
	}
	if _, err := device.Attach(veth, Generic); err == nil {
		t.Error("attached in generic mode")
	}
	for _, where := range []struct {
		ifindex int
		mode    Mode
	}{{veth, Generic}, {peer, Native}} {
		a, err := p.Attach(where.ifindex, where.mode)
		check(t, err)
		if err := a.Replace(device); err == nil || !strings.Contains(err.Error(), "natively, on that device") {
			t.Errorf("%+v: error %v", where, err)
		}
		check(t, a.Close())
	}
}

// withDriver loads the variant of the program that calls one of the driver's functions with that function replaced: body, which is
// called as the driver's would be, with the named parameters behind the context. All else is what runs on devices.
func withDriver(t *testing.T, options Options, params []string, body asm.Instructions) *Program {
	t.Helper()
	wanted := options.TagsOf
	options.TagsOf = 0 // loadForTest has no such interface
	p := loadForTest(t, options)
	spec, err := loadRedirect()
	check(t, err)
	named := &Program{options: p.options, tag: p.tag, device: 1}
	named.options.TagsOf = wanted
	check(t, named.specialise(spec))
	variant := spec.Programs[named.name()]
	variant.Ifindex, variant.Flags = 0, 0
	calls := 0
	for i := range variant.Instructions {
		if ins := &variant.Instructions[i]; ins.IsKfuncCall() {
			calls++
			*ins = asm.Call.Label("device").WithSource(ins.Source())
		}
	}
	if calls != 1 {
		t.Fatalf("%d calls of the driver", calls)
	}
	proto := &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}}
	for _, name := range append([]string{"ctx"}, params...) {
		proto.Params = append(proto.Params, btf.FuncParam{Name: name, Type: &btf.Pointer{Target: &btf.Void{}}})
	}
	body[0] = body[0].WithSymbol("device").WithSource(asm.Comment("the test's device"))
	body[0] = btf.WithFuncMetadata(body[0], &btf.Func{Name: "device", Type: proto, Linkage: btf.StaticFunc})
	variant.Instructions = append(variant.Instructions, body...)
	collection, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{
		MapReplacements: map[string]*ebpf.Map{"sockets": p.sockets, "counters": p.counters}})
	check(t, err)
	defer collection.Close()
	check(t, p.program.Close())
	p.program = collection.DetachProgram(named.name())
	return p
}

// withTime is withDriver for a driver's time, with the result of its function.
func withTime(t *testing.T, result int32, ns uint64) *Program {
	t.Helper()
	return withDriver(t, Options{Timestamp: ClockTAI}, []string{"timestamp"}, asm.Instructions{
		asm.LoadImm(asm.R1, int64(ns), asm.DWord),
		asm.StoreMem(asm.R2, 0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, result),
		asm.Return(),
	})
}

// TestTagsPutBack: a tag that the driver has outside the packet is put into it. A packet with no room in front for the tag is
// dropped and counted: test runs leave as many bytes there as XDP asks of drivers, of which this driver takes some.
func TestTagsPutBack(t *testing.T) {
	const (
		headroom = 256 - 40 // XDP_PACKET_HEADROOM less the kernel's struct xdp_frame
		tagSize  = 4
	)
	untagged := ethernet(0x0800).ipv4(6, 0, 0).ports(1, 2)
	tagged := ethernet(0x8100).vlan(0x0800).ipv4(6, 0, 0).ports(1, 2)
	for _, test := range []struct {
		name   string
		result int32
		taken  int32 // bytes of headroom
		action uint32
		want   Counters
	}{
		{"a tag", 0, 0, actionRedirect, Counters{}},
		{"none for this packet", -int32(unix.ENODATA), 0, actionRedirect, Counters{}},
		{"just enough room", 0, headroom - tagSize, actionRedirect, Counters{}},
		{"too little room", 0, headroom - tagSize + 1, actionDrop, Counters{TagLost: 1}},
		{"no room", 0, headroom, actionDrop, Counters{TagLost: 1}},
		{"no room, and no tag", -int32(unix.ENODATA), headroom, actionRedirect, Counters{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := asm.Instructions{
				// The protocol is in network byte order, as the packet has it, and the TCI in that of the machine.
				asm.StoreImm(asm.R2, 0, int64(binary.NativeEndian.Uint16([]byte{0x81, 0x00})), asm.Half),
				asm.StoreImm(asm.R3, 0, 0x2005, asm.Half), // that of builder.vlan
			}
			if test.taken != 0 {
				body = append(body, asm.Mov.Imm(asm.R2, -test.taken), asm.FnXdpAdjustHead.Call())
			}
			p := withDriver(t, Options{TagsOf: 1}, []string{"protocol", "tci"}, append(body, asm.Mov.Imm(asm.R0, test.result), asm.Return()))
			action, out := p.run(t, untagged)
			c, err := p.Counters()
			check(t, err)
			if action != test.action || c != test.want {
				t.Fatalf("action %d, want %d; %+v, want %+v", action, test.action, c, test.want)
			}
			want := tagged
			if test.result != 0 {
				want = untagged
			}
			if test.taken == 0 && !bytes.Equal(out, want) {
				t.Errorf("packet %x, want %x", out, want)
			}
			// What the driver took stands in front of the packet now.
			if test.action == actionRedirect && !bytes.HasSuffix(out, want[len(want)-20:]) {
				t.Errorf("packet %x ends otherwise than %x", out, want)
			}
		})
	}
}

// TestDeviceTimeDecides: the device's time where there is one that can be of CLOCK_TAI, else the
// program's, counted by reason.
func TestDeviceTimeDecides(t *testing.T) {
	now := readClock(t, unix.CLOCK_TAI)
	const ms = 1_000_000
	for _, test := range []struct {
		name   string
		result int32
		ns     uint64
		taken  bool
		want   Counters
	}{
		{"in time", 0, now - 20*ms, true, Counters{}},
		{"a little ahead", 0, now + 80*ms, true, Counters{}},
		{"no time for this packet", -int32(unix.ENODATA), now, false, Counters{Unstamped: 1}},
		{"no function in the driver", -int32(unix.EOPNOTSUPP), 0, false, Counters{Unstamped: 1}},
		{"zero", 0, 0, false, Counters{Unstamped: 1}},
		{"of UTC", 0, now - 37_000*ms, false, Counters{Astray: 1}},
		{"ahead by a minute", 0, now + 60_000*ms, false, Counters{Astray: 1}},
		{"since the machine began", 0, 5000 * ms, false, Counters{Astray: 1}},
		{"all bits", 0, 1<<63 - 1, false, Counters{Astray: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for range 50 {
				ns := test.ns
				if test.taken {
					ns += readClock(t, unix.CLOCK_TAI) - now
				}
				p := withTime(t, test.result, ns)
				packet := ethernet(0x0800).ipv4(6, 0, 0).ports(1, 2)
				before := readClock(t, unix.CLOCK_TAI)
				action, out := p.run(t, packet)
				after := readClock(t, unix.CLOCK_TAI)
				if test.taken && after > ns+90*ms {
					continue // loading took so long that the time is no longer one of now
				}
				if action != actionRedirect || !bytes.Equal(out[TimestampSize:], packet) || binary.NativeEndian.Uint64(out) != p.Tag() {
					t.Fatalf("action %d, packet %x", action, out)
				}
				got := binary.NativeEndian.Uint64(out[8:])
				if test.taken && got != ns || !test.taken && (got < before || got > after) {
					t.Errorf("time %d, the device's %d, the program's from %d to %d", got, ns, before, after)
				}
				if c, err := p.Counters(); err != nil || c != test.want {
					t.Errorf("%+v, %v, want %+v", c, err, test.want)
				}
				return
			}
			t.Fatal("loading a program took over 70 ms, 50 times")
		})
	}
}
