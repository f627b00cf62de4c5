package xdp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// newNamespace moves the thread of the test into a network namespace without a name, which ends with it.
func newNamespace(t *testing.T) {
	t.Helper()
	netnstest.Require(t)
	runtime.LockOSThread() // for good: the runtime throws the thread away with the test
	check(t, unix.Unshare(unix.CLONE_NEWNET))
	os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
}

func newVeth(t *testing.T, mtu int) (index, peer int) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "wxa", mtu
	check(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "wxah", PeerMTU: uint32(mtu)}))
	for _, name := range []string{"wxah", "wxa"} {
		l, err := netlink.LinkByName(name)
		check(t, err)
		check(t, netlink.LinkSetUp(l))
		index, peer = l.Attrs().Index, index
	}
	return index, peer
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// attached is the mode of the program on an interface.
func attached(t *testing.T, ifindex int) string {
	t.Helper()
	l, err := netlink.LinkByIndex(ifindex)
	check(t, err)
	x := l.Attrs().Xdp
	if x == nil || !x.Attached {
		return "none"
	}
	return map[uint32]string{1: "native", 2: "generic"}[x.AttachMode]
}

func newProgram(t *testing.T, options Options) *Program {
	t.Helper()
	options.MaxQueues = 1
	p, err := Load(options)
	check(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

func TestAttachModes(t *testing.T) {
	newNamespace(t)
	veth, _ := newVeth(t, 1500)
	p := newProgram(t, Options{})
	for _, test := range []struct {
		ifindex int
		mode    Mode
		granted Mode
		fails   string // part of the error
	}{
		{veth, Auto, Native, ""},
		{veth, Native, Native, ""},
		{veth, Generic, Generic, ""},
		{1, Auto, Generic, ""}, // lo
		{1, Native, 0, "attach XDP program to lo: the driver has no native XDP"},
		{9999, Auto, 0, "no such interface"},
	} {
		a, err := p.Attach(test.ifindex, test.mode)
		if test.fails != "" {
			if err == nil || !strings.Contains(err.Error(), test.fails) {
				t.Errorf("%v: error %v", test, err)
			}
			continue
		}
		check(t, err)
		if a.Mode() != test.granted || attached(t, test.ifindex) != test.granted.String() {
			t.Errorf("%v: granted %v, and the kernel says %v", test, a.Mode(), attached(t, test.ifindex))
		}
		check(t, a.Close())
		if mode := attached(t, test.ifindex); mode != "none" {
			t.Errorf("%v: %v after Close", test, mode)
		}
	}
}

func TestAttachBesideAnother(t *testing.T) {
	newNamespace(t)
	veth, _ := newVeth(t, 1500)
	p, other := newProgram(t, Options{}), newProgram(t, Options{})
	for _, there := range []Mode{Native, Generic} {
		a, err := other.Attach(veth, there)
		check(t, err)
		for _, mode := range []Mode{Auto, Native, Generic} {
			_, err := p.Attach(veth, mode)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("another XDP program is attached to wxa: it is that of process %d (", os.Getpid())) {
				t.Errorf("%v beside %v: error %v", mode, there, err)
			}
			t.Log(err)
		}
		check(t, a.Close())
	}
	// Not by a link, as `ip link set dev wxa xdp obj` does.
	l, err := netlink.LinkByIndex(veth)
	check(t, err)
	check(t, netlink.LinkSetXdpFd(l, other.program.FD()))
	if _, err := p.Attach(veth, Auto); !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), "`ip link set dev wxa xdp off`") {
		t.Errorf("error %v", err)
	}
}

// TestAttachToBusyDevice: the kernel refuses a program beside split headers as it does beside another program.
func TestAttachToBusyDevice(t *testing.T) {
	newNamespace(t)
	veth, _ := newVeth(t, 1500)
	if err := newProgram(t, Options{}).attachError(veth, unix.EBUSY); !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), "`ethtool -G wxa tcp-data-split off`") {
		t.Errorf("error %v", err)
	}
}

func TestAttachWithLargeMTU(t *testing.T) {
	newNamespace(t)
	veth, _ := newVeth(t, 9000)
	_, err := newProgram(t, Options{}).Attach(veth, Auto)
	if err == nil || !strings.Contains(err.Error(), "multi-buffer") {
		t.Errorf("single buffer: error %v", err)
	}
	t.Log(err)
	a, err := newProgram(t, Options{Frags: true}).Attach(veth, Native)
	check(t, err)
	check(t, a.Close())
}

// TestLoadWithoutPrivilege is about loading only: who has a loaded program may attach it.
func TestLoadWithoutPrivilege(t *testing.T) {
	newNamespace(t)
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had, none [2]unix.CapUserData
	check(t, unix.Capget(&header, &had[0]))
	none = had
	none[0].Effective, none[1].Effective = 0, 0
	check(t, unix.Capset(&header, &none[0]))
	_, err := Load(Options{MaxQueues: 1})
	check(t, unix.Capset(&header, &had[0]))
	if !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "CAP_BPF") || !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
		t.Errorf("error %v", err)
	}
}

// The environment variable turns the test binary into a process that attaches and waits.
const holderVariable = "WEIR_TEST_XDP_HOLDER"

func TestMain(m *testing.M) {
	if os.Getenv(holderVariable) != "" {
		hold(os.Getenv(holderVariable))
	}
	netnstest.Isolate()
	m.Run()
}

func hold(name string) {
	l, err := netlink.LinkByName(name)
	if err == nil {
		var p *Program
		if p, err = Load(Options{MaxQueues: 1}); err == nil {
			_, err = p.Attach(l.Attrs().Index, Auto)
		}
	}
	fmt.Println("attached", err)
	io.Copy(io.Discard, os.Stdin) // until the test ends, in whatever way
	os.Exit(0)
}

// TestKilledProcess kills the owner of the attachment, and attaches again at once, several times.
func TestKilledProcess(t *testing.T) {
	newNamespace(t)
	veth, _ := newVeth(t, 1500)
	p := newProgram(t, Options{})
	for range 20 {
		holder := exec.Command("/proc/self/exe")
		holder.Env = append(os.Environ(), holderVariable+"=wxa")
		_, err := holder.StdinPipe()
		check(t, err)
		out, err := holder.StdoutPipe()
		check(t, err)
		check(t, holder.Start()) // the child is in our namespace: it is forked from this thread
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || line != "attached <nil>\n" || attached(t, veth) != "native" {
			t.Errorf("holder says %q, %v; the kernel says %s", line, err, attached(t, veth))
		}
		check(t, holder.Process.Kill())
		holder.Wait()
		a, err := p.Attach(veth, Native)
		check(t, err)
		check(t, a.Close())
		if mode := attached(t, veth); mode != "none" {
			t.Fatalf("%s program on the interface after its owners are gone", mode)
		}
	}
}

// TestTimestamp compares the time in the metadata with the clock before and after.
func TestTimestamp(t *testing.T) {
	for _, test := range []struct {
		clock Clock
		id    int32
	}{{ClockTAI, unix.CLOCK_TAI}, {ClockMonotonic, unix.CLOCK_MONOTONIC}} {
		if test.clock == ClockTAI && BestClock() != ClockTAI {
			continue // a kernel before 6.1
		}
		p := loadForTest(t, Options{Timestamp: test.clock})
		before := readClock(t, test.id)
		packet := ethernet(0x0800).ipv4(6, 0, 0).ports(1, 2)
		action, out := p.run(t, packet) // with the metadata in front
		after := readClock(t, test.id)
		if action != actionRedirect || !bytes.Equal(out[TimestampSize:], packet) {
			t.Fatalf("action %d, packet %x", action, out)
		}
		if tag := binary.NativeEndian.Uint64(out); tag != p.Tag() || tag == 0 {
			t.Errorf("tag %x, want %x", tag, p.Tag())
		}
		if ns := binary.NativeEndian.Uint64(out[8:]); ns < before || ns > after {
			t.Errorf("time %d, want from %d to %d", ns, before, after)
		}
		if c, err := p.Counters(); err != nil || c != (Counters{}) {
			t.Errorf("counters %+v, %v", c, err)
		}
	}
	if a, b := newTag(), newTag(); a == b {
		t.Errorf("tag %x twice", a)
	}
}

// TestTimestampReplacesMetadata: the time is next to the packet even if an
// earlier program left metadata there.
func TestTimestampReplacesMetadata(t *testing.T) {
	p := loadForTest(t, Options{Timestamp: ClockMonotonic})
	packet := ethernet(0x0800).ipv4(6, 0, 0).ports(1, 2)
	// A context gives the metadata's length: struct xdp_md of include/uapi/linux/bpf.h.
	const foreign = 24
	md := make([]byte, 24)
	binary.NativeEndian.PutUint32(md[0:], foreign)                     // data
	binary.NativeEndian.PutUint32(md[4:], uint32(foreign+len(packet))) // data_end
	in := append(bytes.Repeat([]byte{0xee}, foreign), packet...)
	run := ebpf.RunOptions{Data: in, DataOut: make([]byte, len(in)+256), Context: md, ContextOut: make([]byte, len(md))}
	action, err := p.program.Run(&run)
	check(t, err)
	if action != actionRedirect || len(run.DataOut) != TimestampSize+len(packet) || !bytes.Equal(run.DataOut[TimestampSize:], packet) ||
		binary.NativeEndian.Uint64(run.DataOut) != p.Tag() {
		t.Errorf("action %d, %x", action, run.DataOut)
	}
}

// TestReplace swaps the program of an attachment, in both modes.
func TestReplace(t *testing.T) {
	newNamespace(t)
	veth, _ := newVeth(t, 1500)
	for _, mode := range []Mode{Native, Generic} {
		a, err := newProgram(t, Options{}).Attach(veth, mode)
		check(t, err)
		p := newProgram(t, Options{Timestamp: BestClock()})
		check(t, a.Replace(p))
		l, err := netlink.LinkByIndex(veth)
		check(t, err)
		info, err := p.program.Info()
		check(t, err)
		if id, _ := info.ID(); l.Attrs().Xdp == nil || l.Attrs().Xdp.ProgId != uint32(id) || attached(t, veth) != mode.String() {
			t.Errorf("%v: %+v on the interface, want program %d", mode, l.Attrs().Xdp, id)
		}
		check(t, a.Close())
	}
}

func readClock(t *testing.T, id int32) uint64 {
	t.Helper()
	var ts unix.Timespec
	check(t, unix.ClockGettime(id, &ts))
	return uint64(ts.Nano())
}

// TestTwin: the kernel ignores a replacement by the same program, and takes its twin, with the same counters.
func TestTwin(t *testing.T) {
	newNamespace(t)
	veth, peer := newVeth(t, 1500)
	p := newProgram(t, Options{})
	a, err := p.Attach(veth, Native)
	check(t, err)
	twin, err := p.Twin()
	check(t, err)
	id := func() uint32 {
		l, err := netlink.LinkByIndex(veth)
		check(t, err)
		return l.Attrs().Xdp.ProgId
	}
	first := id()
	check(t, a.Replace(p))
	if id() != first {
		t.Error("the same program came anew")
	}
	check(t, a.Replace(twin))
	if id() == first {
		t.Error("the twin did not come")
	}
	sendFrames(t, peer, 1)
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if c, err := p.Counters(); err != nil || time.Now().After(deadline) {
			t.Fatalf("the packet was not counted: %v", err)
		} else if c.NoSocket == 1 {
			break
		}
	}
	check(t, a.Close())
	check(t, twin.Close())
}
