package xdp

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// Actions of include/uapi/linux/bpf.h.
const (
	actionDrop     = 1
	actionPass     = 2
	actionRedirect = 4
)

// loadForTest loads a program with a socket on queue 0, where test runs come from.
func loadForTest(t testing.TB, options Options) *Program {
	t.Helper()
	netnstest.Require(t)
	options.MaxQueues = 4
	p, err := Load(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := p.Register(0, fd); err != nil {
		t.Fatal(err)
	}
	return p
}

// run passes a packet through the program (BPF_PROG_TEST_RUN) and returns its action, the packet
// behind it, and the metadata.
func (p *Program) run(t testing.TB, packet []byte) (action uint32, out []byte) {
	t.Helper()
	out = make([]byte, len(packet)+256)
	opts := ebpf.RunOptions{Data: packet, DataOut: out}
	action, err := p.program.Run(&opts)
	if err != nil {
		t.Fatal(err)
	}
	return action, opts.DataOut
}

// builder makes packets header by header.
type builder []byte

func ethernet(ethertype uint16) builder {
	b := builder{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}
	return binary.BigEndian.AppendUint16(b, ethertype)
}

// vlan is the rest of a tag: TCI and the next type.
func (b builder) vlan(ethertype uint16) builder {
	return binary.BigEndian.AppendUint16(append(b, 0x20, 5), ethertype)
}

func (b builder) ipv4(protocol uint8, options int, fragment uint16) builder {
	h := make([]byte, 20+4*options)
	h[0] = 0x40 | byte(5+options)
	binary.BigEndian.PutUint16(h[6:], fragment)
	h[8], h[9] = 64, protocol
	return append(b, h...)
}

func (b builder) ipv6(next uint8) builder {
	h := make([]byte, 40)
	h[0], h[6], h[7] = 0x60, next, 64
	return append(b, h...)
}

// extension appends a header of 8+8*more bytes, or for AH of 8+4*more.
func (b builder) extension(next, length uint8, size int, fragment uint16) builder {
	h := make([]byte, size)
	h[0], h[1] = next, length
	binary.BigEndian.PutUint16(h[2:], fragment)
	return append(b, h...)
}

func (b builder) ports(source, dest uint16) builder {
	b = binary.BigEndian.AppendUint16(b, source)
	b = binary.BigEndian.AppendUint16(b, dest)
	return append(b, make([]byte, 16)...)
}

func TestKeepDecides(t *testing.T) {
	netnstest.Require(t)
	keepAll := []string{"arp", "icmp", "icmpv6", "ospf", "lldp", "ssh", "udp/67", "ethertype/0x9100"}
	// The kernel takes its time to verify a program: each is loaded once.
	type loaded struct {
		keep  string
		frags bool
	}
	programs := map[loaded]*Program{}
	parent := t
	for _, test := range []struct {
		name   string
		keep   []string
		packet builder
		kept   bool
	}{
		{"nothing kept", nil, ethernet(0x0806), false},
		{"arp", keepAll, ethernet(0x0806), true},
		{"arp in VLAN", keepAll, ethernet(0x8100).vlan(0x0806), true},
		{"arp in QinQ", keepAll, ethernet(0x88a8).vlan(0x8100).vlan(0x0806), true},
		{"arp behind three tags", keepAll, ethernet(0x88a8).vlan(0x8100).vlan(0x8100).vlan(0x0806), false},
		{"type of a tag", keepAll, ethernet(0x9100).vlan(0x1234), true},
		{"cut behind the tag's type", keepAll, ethernet(0x8100), false},
		{"lldp", keepAll, ethernet(0x88cc), true},
		{"other type", keepAll, ethernet(0x88b5), false},
		{"length, not type", keepAll, ethernet(38), false},
		{"icmp", keepAll, ethernet(0x0800).ipv4(1, 0, 0).ports(0, 0), true},
		{"icmp with options", keepAll, ethernet(0x0800).ipv4(1, 10, 0).ports(0, 0), true},
		{"icmp without its own header", keepAll, ethernet(0x0800).ipv4(1, 0, 0), true},
		{"icmp later fragment", keepAll, ethernet(0x0800).ipv4(1, 0, 185), true},
		{"icmp in an IPv4 header cut short", keepAll, ethernet(0x0800).ipv4(1, 0, 0)[:14+19], false},
		{"ospf in IPv6", keepAll, ethernet(0x86dd).ipv6(89), true},
		{"ssh, destination", keepAll, ethernet(0x0800).ipv4(6, 0, 0).ports(50000, 22), true},
		{"ssh, source", keepAll, ethernet(0x0800).ipv4(6, 0, 0x4000).ports(22, 50000), true},
		{"ssh, first fragment", keepAll, ethernet(0x0800).ipv4(6, 0, 0x2000).ports(22, 50000), true},
		{"ssh with options", keepAll, ethernet(0x0800).ipv4(6, 3, 0).ports(9, 22), true},
		{"ssh in VLAN", keepAll, ethernet(0x8100).vlan(0x0800).ipv4(6, 0, 0).ports(9, 22), true},
		{"ssh later fragment has no ports", keepAll, ethernet(0x0800).ipv4(6, 0, 1).ports(22, 22), false},
		{"port 22 of UDP", keepAll, ethernet(0x0800).ipv4(17, 0, 0).ports(22, 22), false},
		{"dhcp", keepAll, ethernet(0x0800).ipv4(17, 0, 0).ports(68, 67), true},
		{"ports cut", keepAll, ethernet(0x0800).ipv4(6, 0, 0).ports(22, 22)[:14+20+3], false},
		{"ports just there", keepAll, ethernet(0x0800).ipv4(6, 0, 0).ports(22, 22)[:14+20+4], true},
		{"wrong IP version", keepAll, ethernet(0x0800).ipv6(1), false},
		{"header length below 5", keepAll, append(ethernet(0x0800), slices.Concat([]byte{0x44}, make([]byte, 8), []byte{1}, make([]byte, 20))...), false},
		{"icmpv6", keepAll, ethernet(0x86dd).ipv6(58).ports(0, 0), true},
		{"icmpv6 behind hop-by-hop (MLD)", keepAll, ethernet(0x86dd).ipv6(0).extension(58, 0, 8, 0), true},
		{"ssh behind options, routing and AH", keepAll,
			ethernet(0x86dd).ipv6(60).extension(43, 1, 16, 0).extension(51, 2, 24, 0).extension(51, 4, 24, 0).extension(6, 4, 24, 0).ports(1, 22), true},
		{"ssh behind first fragment", keepAll, ethernet(0x86dd).ipv6(44).extension(6, 0, 8, 1).ports(1, 22), true},
		{"ssh in later fragment", keepAll, ethernet(0x86dd).ipv6(44).extension(6, 0, 8, 8).ports(1, 22), false},
		{"icmpv6 in later fragment", keepAll, ethernet(0x86dd).ipv6(44).extension(58, 0, 8, 8).ports(0, 0), true},
		{"extension cut", keepAll, ethernet(0x86dd).ipv6(0).extension(58, 0, 8, 0)[:14+40+7], false},
		{"extension longer than the packet", keepAll, ethernet(0x86dd).ipv6(0).extension(6, 255, 8, 0).ports(22, 22), false},
		{"ESP hides the ports", keepAll, ethernet(0x86dd).ipv6(50).ports(22, 22), false},
		{"shortest packet", keepAll, ethernet(0x86dd), false},
		{"proto only", []string{"proto/132"}, ethernet(0x0800).ipv4(132, 0, 0), true},
		{"port only", []string{"udp/53"}, ethernet(0x86dd).ipv6(17).ports(53, 9), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			keep, err := ParseKeep(test.keep)
			if err != nil {
				t.Fatal(err)
			}
			if got := keepTwin(keep, test.packet); got != test.kept {
				t.Errorf("the twin says %v, want %v", got, test.kept)
			}
			for _, frags := range []bool{false, true} {
				at := loaded{fmt.Sprint(test.keep), frags}
				p := programs[at]
				if p == nil {
					p = loadForTest(parent, Options{Keep: keep, Frags: frags})
					programs[at] = p
				}
				want, err := p.Counters()
				check(t, err)
				action, out := p.run(t, test.packet)
				if kept := action == actionPass; kept != test.kept || !kept && action != actionRedirect {
					t.Errorf("frags %v: action %d, want kept %v", frags, action, test.kept)
				}
				if !slices.Equal(out, test.packet) {
					t.Errorf("packet changed to %x", out)
				}
				if test.kept {
					want.Kept++
				}
				if got, err := p.Counters(); err != nil || got != want {
					t.Errorf("counters %+v, %v, want %+v", got, err, want)
				}
			}
		})
	}
}

// keepTwin decides as redirect.c should, in plain Go over slices.
func keepTwin(keep Keep, p []byte) bool {
	ethertype, p := binary.BigEndian.Uint16(p[12:]), p[14:]
	for range 2 {
		if ethertype != 0x8100 && ethertype != 0x88a8 && ethertype != 0x9100 {
			break
		}
		if slices.Contains(keep.EtherTypes, ethertype) {
			return true
		}
		if len(p) < 4 {
			return false
		}
		ethertype, p = binary.BigEndian.Uint16(p[2:]), p[4:]
	}
	switch {
	case slices.Contains(keep.EtherTypes, ethertype):
		return true
	case ethertype == 0x0800:
		return keepTwinIPv4(keep, p)
	case ethertype == 0x86dd:
		return keepTwinIPv6(keep, p)
	}
	return false
}

func keepTwinIPv4(keep Keep, p []byte) bool {
	if len(p) < 20 || p[0]>>4 != 4 || p[0]&15 < 5 {
		return false
	}
	if slices.Contains(keep.Protocols, p[9]) {
		return true
	}
	header := int(p[0]&15) * 4
	if binary.BigEndian.Uint16(p[6:])&0x1fff != 0 || len(p) < header {
		return false
	}
	return keepTwinPorts(keep, p[9], p[header:])
}

func keepTwinIPv6(keep Keep, p []byte) bool {
	if len(p) < 40 || p[0]>>4 != 6 {
		return false
	}
	next, p := p[6], p[40:]
	for range 9 {
		if slices.Contains(keep.Protocols, next) {
			return true
		}
		if !slices.Contains([]uint8{0, 43, 44, 51, 60, 135}, next) {
			return keepTwinPorts(keep, next, p)
		}
		if len(p) < 8 {
			return false
		}
		size := 8 + 8*int(p[1])
		switch next {
		case 44:
			if binary.BigEndian.Uint16(p[2:])&0xfff8 != 0 {
				return slices.Contains(keep.Protocols, p[0])
			}
			size = 8
		case 51:
			size = 8 + 4*int(p[1])
		}
		next = p[0]
		p = p[min(size, len(p)):]
	}
	return false
}

func keepTwinPorts(keep Keep, protocol uint8, p []byte) bool {
	return len(p) >= 4 && (slices.Contains(keep.Ports, Transport{protocol, binary.BigEndian.Uint16(p)}) ||
		slices.Contains(keep.Ports, Transport{protocol, binary.BigEndian.Uint16(p[2:])}))
}

// TestKeepAgainstTwin compares both on random packets, cut anywhere.
func TestKeepAgainstTwin(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...int) int { return from[random.IntN(len(from))] }
	keep, err := ParseKeep([]string{"arp", "icmp", "icmpv6", "tcp/22", "udp/53", "proto/51"})
	if err != nil {
		t.Fatal(err)
	}
	p := loadForTest(t, Options{Keep: keep})
	kept := uint64(0)
	for range 20000 {
		b := ethernet(0)[:12]
		for range random.IntN(4) {
			b = append(b, byte(pick(0x81, 0x88)), 0, 0, 0)
			b[len(b)-3] = byte(map[byte]int{0x81: 0x00, 0x88: 0xa8}[b[len(b)-4]])
		}
		protocols := []int{1, 6, 17, 58, 50, 51, 0, 43, 44, 60}
		switch random.IntN(4) {
		case 0:
			b = append(b, 0x08, 0x06)
		case 1, 2:
			b = append(b, 0x86, 0xdd).ipv6(uint8(pick(protocols...)))
			for range random.IntN(10) {
				length := uint8(random.IntN(3))
				b = b.extension(uint8(pick(protocols...)), length, pick(8, 8+4*int(length), 8+8*int(length)), uint16(pick(0, 0, 0, 1, 8, 4096)))
			}
		case 3:
			b = append(b, 0x08, 0x00).ipv4(uint8(pick(protocols...)), random.IntN(11), uint16(pick(0, 0, 0x4000, 0x2000, 1)))
		}
		b = b.ports(uint16(pick(22, 53, 80)), uint16(pick(22, 53, 80)))
		if random.IntN(4) == 0 {
			b = b[:14+random.IntN(len(b)-13)]
		}
		want := keepTwin(keep, b)
		if action, _ := p.run(t, b); (action == actionPass) != want {
			t.Fatalf("packet %x: action %d, but the twin says kept %v", []byte(b), action, want)
		}
		if want {
			kept++
		}
	}
	if n, err := p.Counters(); err != nil || n.Kept != kept || kept < 2000 || kept > 18000 {
		t.Errorf("kept %d, %v; want %d, and a fair share of both", n.Kept, err, kept)
	}
}

func TestNoSocket(t *testing.T) {
	p := loadForTest(t, Options{})
	if err := p.Unregister(0); err != nil {
		t.Fatal(err)
	}
	if err := p.Unregister(0); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if action, _ := p.run(t, ethernet(0x0800)); action != actionPass {
		t.Errorf("action %d", action)
	}
	if c, err := p.Counters(); err != nil || c != (Counters{NoSocket: 1}) {
		t.Errorf("counters %+v, %v", c, err)
	}
	if err := p.Register(4, 0); err == nil {
		t.Error("a queue beyond the map is accepted")
	}
}

func TestLoadRefuses(t *testing.T) {
	if _, err := Load(Options{}); err == nil {
		t.Error("no queues are accepted")
	}
	if _, err := Load(Options{MaxQueues: 1, Keep: Keep{EtherTypes: make([]uint16, maxEtherTypes+1)}}); err == nil {
		t.Error("too many EtherTypes are accepted")
	}
}

// TestEmptyKeepIsRemoved shows that the constants work: with nothing to keep, most of the program goes.
func TestEmptyKeepIsRemoved(t *testing.T) {
	size := func(keep Keep) int {
		info, err := loadForTest(t, Options{Keep: keep}).program.Info()
		if err != nil {
			t.Fatal(err)
		}
		n, err := info.TranslatedSize()
		if err != nil {
			t.Fatal(err)
		}
		return n / 8
	}
	keep, _ := ParseKeep([]string{"arp", "icmp", "ssh"})
	empty, some := size(Keep{}), size(keep)
	t.Logf("%d instructions with an empty list, %d with three entries", empty, some)
	if empty > 60 || some < 2*empty {
		t.Errorf("%d instructions with an empty list, %d with three entries", empty, some)
	}
}

// BenchmarkRedirect is what the program costs per packet, map lookup included.
func BenchmarkRedirect(b *testing.B) {
	for _, test := range []struct {
		name  string
		clock Clock
	}{{"plain", ClockNone}, {"tai", ClockTAI}, {"monotonic", ClockMonotonic}} {
		b.Run(test.name, func(b *testing.B) {
			p := loadForTest(b, Options{Timestamp: test.clock})
			packet := append(ethernet(0x0800).ipv4(17, 0, 0).ports(1, 2), make([]byte, 10)...)
			const repeat = 1 << 20
			best := 0.0
			for b.Loop() {
				_, each, err := p.program.Benchmark(packet, repeat, nil)
				if err != nil {
					b.Fatal(err)
				}
				if ns := float64(each.Nanoseconds()); best == 0 || ns < best {
					best = ns
				}
			}
			b.ReportMetric(best, "ns/packet")
		})
	}
}
