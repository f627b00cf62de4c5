package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/l3"
	"github.com/weirswitch/weir/telemetry/hash"
)

// routedLab writes the shipped routed lab, with less TCP, under a name of this
// process's own.
func routedLab(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../config/routed.toml")
	if err != nil {
		t.Fatal(err)
	}
	short := strings.ReplaceAll(string(text), "bytes = 1_073_741_824", "bytes = 67_108_864")
	if short == string(text) {
		t.Fatal("config/routed.toml has no 1 GiB of TCP")
	}
	path := filepath.Join(t.TempDir(), "routed.toml")
	if err := os.WriteFile(path, []byte(short), 0o600); err != nil {
		t.Fatal(err)
	}
	return ownLab(t, path)
}

// labUp brings a lab up, to be taken down with the test, and returns its name.
func labUp(t *testing.T, file string) string {
	t.Helper()
	if out, err := weirCommand("lab", "up", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSuffix(filepath.Base(file), ".toml")
}

func labHost(t *testing.T, name, host string) *netns.Namespace {
	t.Helper()
	ns, err := netns.Open(lab.NamespaceName(name, host))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ns.Close)
	return ns
}

// TestRoutedLab: two kernel hosts in different networks, three routers, both IP
// versions: pings of all sizes, TCP over a link whose MTU it has to find, and every
// counter adds up.
func TestRoutedLab(t *testing.T) {
	netnstest.Require(t)
	cmd := weirCommand("lab", "run", "--json", routedLab(t))
	out, err := cmd.Output()
	var outcome struct {
		OK       bool
		Switches []struct {
			Name   string
			Report struct{ Dropped map[string]uint64 }
		}
	}
	if json.Unmarshal(out, &outcome) != nil || err != nil || !outcome.OK {
		t.Fatalf("%v\n%s", err, out)
	}
	tooLong := map[string]uint64{}
	for _, s := range outcome.Switches {
		tooLong[s.Name] = s.Report.Dropped["mtu_exceeded"]
	}
	if tooLong["r2"] == 0 || tooLong["r3"] == 0 || tooLong["r1"] != 0 {
		t.Errorf("packets longer than the MTU: %v, want some at r2 and r3, the ends of the narrow link", tooLong)
	}
}

// TestTraceroute: a datagram of each TTL is answered by the router where it ends,
// from the address of the port at which it arrived; the last by the host. And the
// hosts know the MTU of the path after one packet that is too long.
func TestTraceroute(t *testing.T) {
	netnstest.Require(t)
	name := labUp(t, routedLab(t))
	h1 := labHost(t, name, "h1")
	for _, v := range []struct {
		family  int
		dst     string
		want    []string
		network string
	}{
		{4, "10.0.4.2", []string{"10.0.1.1", "10.0.12.2", "10.0.23.3", "10.0.4.2"}, "ip4:icmp"},
		{6, "fd00:4::2", []string{"fd00:1::1", "fd00:12::2", "fd00:23::3", "fd00:4::2"}, "ip6:ipv6-icmp"},
	} {
		t.Run(fmt.Sprintf("IPv%d", v.family), func(t *testing.T) {
			icmp, err := h1.ListenPacket(v.network, map[int]string{4: "0.0.0.0", 6: "::"}[v.family])
			if err != nil {
				t.Fatal(err)
			}
			defer icmp.Close()
			var got []string
			for ttl := range len(v.want) {
				got = append(got, probe(t, h1, icmp, v.family, v.dst, ttl+1))
			}
			if !slices.Equal(got, v.want) {
				t.Errorf("hops %v, want %v", got, v.want)
			}
			mtu := pathMTU(t, h1, v.family, v.dst)
			if mtu != 1400 {
				t.Errorf("the path's MTU is %d, want 1400", mtu)
			}
			fmt.Printf("traceroute over IPv%d: %s; MTU of the path: %d\n", v.family, strings.Join(got, " "), mtu)
		})
	}
}

// probe sends a UDP datagram with a TTL to a port without a listener, named
// by the TTL, and returns who reports its end.
func probe(t *testing.T, ns *netns.Namespace, icmp net.PacketConn, family int, dst string, ttl int) string {
	t.Helper()
	port := 33434 + ttl
	udp, err := ns.ListenPacket(fmt.Sprintf("udp%d", family), map[int]string{4: "0.0.0.0:0", 6: "[::]:0"}[family])
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	level, option := unix.IPPROTO_IP, unix.IP_TTL
	if family == 6 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS
	}
	setOption(t, udp.(*net.UDPConn), level, option, ttl)
	buf := make([]byte, 2000)
	for range 5 {
		if _, err := udp.WriteTo([]byte("weir"), &net.UDPAddr{IP: net.ParseIP(dst), Port: port}); err != nil {
			t.Fatal(err)
		}
		_ = icmp.SetReadDeadline(time.Now().Add(2 * time.Second))
		for {
			n, from, err := icmp.ReadFrom(buf)
			if err != nil {
				break // lost: once more
			}
			// The datagram follows the ICMP header: its IP header, then UDP.
			off := 8 + map[int]int{4: 20, 6: 40}[family]
			if n >= off+4 && int(binary.BigEndian.Uint16(buf[off+2:])) == port {
				return from.String()
			}
		}
	}
	return "*"
}

func setOption(t *testing.T, c syscall.Conn, level, option, value int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var setErr error
	if err := raw.Control(func(fd uintptr) { setErr = unix.SetsockoptInt(int(fd), level, option, value) }); err != nil || setErr != nil {
		t.Fatal(err, setErr)
	}
}

// pathMTU sends datagrams of 1,500 bytes until the kernel refuses one, and
// returns what it then believes the path's MTU to be.
func pathMTU(t *testing.T, ns *netns.Namespace, family int, dst string) (mtu int) {
	t.Helper()
	conn, err := ns.Dial(t.Context(), fmt.Sprintf("udp%d", family), net.JoinHostPort(dst, "40000"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	level, discover, ask, header := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_MTU, 28
	if family == 6 {
		level, discover, ask, header = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_MTU, 48
	}
	setOption(t, conn.(*net.UDPConn), level, discover, unix.IP_PMTUDISC_DO)
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		_, _ = conn.Write(make([]byte, 1500-header)) // the refusal shows here, too
		time.Sleep(20 * time.Millisecond)
		var askErr error
		if err := raw.Control(func(fd uintptr) { mtu, askErr = unix.GetsockoptInt(int(fd), level, ask) }); err != nil || askErr != nil {
			t.Fatal(err, askErr)
		}
		if mtu < 1500 {
			break
		}
	}
	return mtu
}

// diamond is h1 - s1 = (s2 | s3) = s4 - h2: two equal paths.
const diamond = `
name = "diamond"
expected_drops = ["multicast"]
[[host]]
name = "h1"
addresses = ["10.0.1.2/24", "fd00:0:1::2/64"]
gateway = "10.0.1.1"
gateway6 = "fd00:0:1::1"
[[host]]
name = "h2"
addresses = ["10.0.4.2/24", "fd00:0:4::2/64"]
gateway = "10.0.4.1"
gateway6 = "fd00:0:4::1"
[[switch]]
name = "s1"
graph = ["parse", "l3"]
[switch.config.stages.l3]
interface = [{port = "p0", addresses = ["10.0.1.1/24", "fd00:0:1::1/64"]}, {port = "p1", addresses = ["10.1.2.1/24", "fd00:1:2::1/64"]}, {port = "p2", addresses = ["10.1.3.1/24", "fd00:1:3::1/64"]}]
route = [{prefix = "10.0.4.0/24", via = ["10.1.2.2", "10.1.3.3"]}, {prefix = "fd00:0:4::/64", via = ["fd00:1:2::2", "fd00:1:3::3"]}]
[[switch]]
name = "s2"
graph = ["parse", "l3"]
[switch.config.stages.l3]
interface = [{port = "p0", addresses = ["10.1.2.2/24", "fd00:1:2::2/64"]}, {port = "p1", addresses = ["10.2.4.2/24", "fd00:2:4::2/64"]}]
route = [{prefix = "10.0.4.0/24", via = ["10.2.4.4"]}, {prefix = "fd00:0:4::/64", via = ["fd00:2:4::4"]}, {prefix = "10.0.1.0/24", via = ["10.1.2.1"]}, {prefix = "fd00:0:1::/64", via = ["fd00:1:2::1"]}]
[[switch]]
name = "s3"
graph = ["parse", "l3"]
[switch.config.stages.l3]
interface = [{port = "p0", addresses = ["10.1.3.3/24", "fd00:1:3::3/64"]}, {port = "p1", addresses = ["10.3.4.3/24", "fd00:3:4::3/64"]}]
route = [{prefix = "10.0.4.0/24", via = ["10.3.4.4"]}, {prefix = "fd00:0:4::/64", via = ["fd00:3:4::4"]}, {prefix = "10.0.1.0/24", via = ["10.1.3.1"]}, {prefix = "fd00:0:1::/64", via = ["fd00:1:3::1"]}]
[[switch]]
name = "s4"
graph = ["parse", "l3"]
[switch.config.stages.l3]
interface = [{port = "p0", addresses = ["10.2.4.4/24", "fd00:2:4::4/64"]}, {port = "p1", addresses = ["10.3.4.4/24", "fd00:3:4::4/64"]}, {port = "p2", addresses = ["10.0.4.1/24", "fd00:0:4::1/64"]}]
route = [{prefix = "10.0.1.0/24", via = ["10.2.4.2", "10.3.4.3"]}, {prefix = "fd00:0:1::/64", via = ["fd00:2:4::2", "fd00:3:4::3"]}]
[[link]]
endpoints = ["h1", "s1:p0"]
[[link]]
endpoints = ["s1:p1", "s2:p0"]
[[link]]
endpoints = ["s1:p2", "s3:p0"]
[[link]]
endpoints = ["s2:p1", "s4:p0"]
[[link]]
endpoints = ["s3:p1", "s4:p1"]
[[link]]
endpoints = ["s4:p2", "h2"]
`

// TestECMP sends 10,000 flows of each IP version, three packets each, over two equal
// paths. Each path carries exactly the packets of the flows for which l3.Pick names it, so
// every flow keeps to one, and half of the flows within 5 %.
func TestECMP(t *testing.T) {
	netnstest.Require(t)
	path := filepath.Join(t.TempDir(), "diamond.toml")
	if err := os.WriteFile(path, []byte(diamond), 0o600); err != nil {
		t.Fatal(err)
	}
	name := labUp(t, ownLab(t, path))
	t.Run("IPv4", func(t *testing.T) { testECMP(t, name, 4, "10.0.1.2", "10.0.4.2") })
	t.Run("IPv6", func(t *testing.T) { testECMP(t, name, 6, "fd00:0:1::2", "fd00:0:4::2") })
}

func testECMP(t *testing.T, name string, version int, from, to string) {
	const flows, each, firstPort = 10_000, 3, 20_000
	h1, h2 := labHost(t, name, "h1"), labHost(t, name, "h2")
	sink, err := h2.ListenPacket(fmt.Sprintf("udp%d", version), net.JoinHostPort(to, "9000"))
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	setOption(t, sink.(*net.UDPConn), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20)
	source, err := h1.ListenPacket(fmt.Sprintf("ip%d:udp", version), from)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if version == 6 { // over IPv4 the checksum may be left out
		setOption(t, source.(*net.IPConn), unix.IPPROTO_IPV6, unix.IPV6_CHECKSUM, 6)
	}

	// Both paths and all neighbours are known before the count.
	send := func(flow int) {
		d := make([]byte, 8+18)
		binary.BigEndian.PutUint16(d[0:], uint16(firstPort+flow))
		binary.BigEndian.PutUint16(d[2:], 9000)
		binary.BigEndian.PutUint16(d[4:], uint16(len(d)))
		if _, err := source.WriteTo(d, &net.IPAddr{IP: net.ParseIP(to)}); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(got map[int]int, n int, wait time.Duration) (all bool) {
		buf := make([]byte, 100)
		_ = sink.SetReadDeadline(time.Now().Add(wait))
		for range n {
			_, from, err := sink.ReadFrom(buf)
			if err != nil {
				return false
			}
			got[from.(*net.UDPAddr).Port-firstPort]++
		}
		return true
	}
	// Packets are lost while neighbours are looked for. Behind the first ones that arrive of all flows come ten of other flows, one each: then
	// none is under way any more.
	first, last := map[int]int{}, map[int]int{}
	for deadline := time.Now().Add(time.Minute); len(first) < 10 && time.Now().Before(deadline); {
		for flow := range 10 {
			send(flows + flow)
		}
		receive(first, 10, 100*time.Millisecond)
	}
	for flow := range 10 {
		send(flows + 10 + flow)
	}
	for deadline := time.Now().Add(time.Minute); len(last) < 10 && time.Now().Before(deadline); {
		seen := map[int]int{}
		receive(seen, 1, time.Minute)
		for flow := range seen {
			if flow >= flows+10 {
				last[flow]++
			}
		}
	}
	if len(first) != 10 || len(last) != 10 {
		t.Fatalf("packets of %d and %d flows came through at first, want 10", len(first), len(last))
	}
	before2, before3 := forwardedBy(t, name, "s2"), forwardedBy(t, name, "s3")
	// 128 packets are in flight at most, so that no queue overflows.
	const window = 128
	got := map[int]int{}
	for k := range flows * each {
		send(k % flows)
		if k >= window {
			receive(got, 1, time.Minute)
		}
	}
	receive(got, window, time.Minute)
	if len(got) != flows {
		t.Errorf("packets of %d flows came through, want %d", len(got), flows)
	}
	want := [2]uint64{}
	for flow := range flows {
		if got[flow] != each {
			t.Fatalf("flow %d: %d packets came through, want %d", flow, got[flow], each)
		}
		k := packet.FlowKey{SrcPort: uint16(firstPort + flow), DstPort: 9000, Proto: 17, Version: uint8(version)}
		copy(k.Src[:], netip.MustParseAddr(from).AsSlice())
		copy(k.Dst[:], netip.MustParseAddr(to).AsSlice())
		w, _ := k.Words()
		h := hash.Uint64x2(0, w[0], w[1])
		if version == 6 {
			h = hash.Uint64x5(0, w[0], w[1], w[2], w[3], w[4])
		}
		const s1 = 1 // its id: the first switch of the file
		want[l3.Pick(hash.XX, uint32(h), s1, 2)] += each
	}
	by2, by3 := forwardedBy(t, name, "s2")-before2, forwardedBy(t, name, "s3")-before3
	// Neighbours of IPv6 are asked anew now and then, and the answers count, too.
	const asked = 20
	if by2 < want[0] || by2 > want[0]+asked || by3 < want[1] || by3 > want[1]+asked {
		t.Errorf("%d packets by s2 and %d by s3, Pick says %v", by2, by3, want)
	}
	const half = flows * each / 2
	if want[0] < half*95/100 || want[0] > half*105/100 {
		t.Errorf("%d of %d packets by s2", want[0], flows*each)
	}
	fmt.Printf("ECMP over IPv%d: %d flows, each on one path: %d packets by s2, %d by s3: %+.2f %% off even\n",
		version, flows, want[0], want[1], (float64(want[0])/half-1)*100)
}

// forwardedBy asks a switch of a lab how many packets it forwarded that came in at p0.
func forwardedBy(t *testing.T, lab, name string) uint64 {
	t.Helper()
	status, stdout, stderr := weir("ctl", "--socket", filepath.Join("/run/weir/lab", lab, name+".sock"), "show", "ports", "--json")
	var r struct {
		Ports []struct {
			Name      string
			Forwarded uint64
		}
	}
	if err := json.Unmarshal([]byte(stdout), &r); status != 0 || err != nil || len(r.Ports) == 0 || r.Ports[0].Name != "p0" {
		t.Fatalf("status %d, %v, %s %s", status, err, stdout, stderr)
	}
	return r.Ports[0].Forwarded
}
