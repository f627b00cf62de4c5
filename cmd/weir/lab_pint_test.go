package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/telemetry/pint"
)

// pintLab is a lab of two hosts and switches with the stage pint between them.
type pintLab struct {
	t       *testing.T
	name    string
	hosts   [2]*netns.Namespace
	seen    [2]*witness
	address [2][2]netip.Addr // by host, then IPv4 and IPv6
}

// newPintLab brings up a lab whose text has the name NAME.
func newPintLab(t *testing.T, text string, addresses [2][2]string) *pintLab {
	t.Helper()
	netnstest.Require(t)
	path := filepath.Join(t.TempDir(), "pint.toml")
	if err := os.WriteFile(path, []byte("name = \"pint\"\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	l := &pintLab{t: t, name: labUp(t, ownLab(t, path))}
	for i, host := range []string{"h1", "h2"} {
		l.hosts[i] = labHost(t, l.name, host)
		l.seen[i] = newWitness(t, l.hosts[i])
		for k, a := range addresses[i] {
			l.address[i][k] = netip.MustParseAddr(a)
		}
	}
	return l
}

// chainOfFive is h1, five switches s1 to s5, and h2. The links between
// switches have room for the shim.
func chainOfFive(graph, extra string, bridged bool) string {
	var b strings.Builder
	for i := range 2 {
		fmt.Fprintf(&b, "[[host]]\nname = \"h%d\"\naddresses = [\"10.0.0.%d/24\", \"fd00::%d/64\"]\n", i+1, i+1, i+1)
	}
	for i := range 5 {
		edge := map[int]string{0: `"p0"`, 4: `"p1"`}[i]
		fmt.Fprintf(&b, "[[switch]]\nname = \"s%d\"\ngraph = %s\n[switch.config.dataplane]\naudit = true\nrx_ring = 8192\nfill_ring = 8192\n", i+1, graph)
		fmt.Fprintf(&b, "[switch.config.stages.pint]\nedge = [%s]\n%s\n", edge, extra)
	}
	ends := []string{"h1"}
	for i := range 5 {
		ends = append(ends, fmt.Sprintf("s%d:p0", i+1), fmt.Sprintf("s%d:p1", i+1))
		if bridged && i == 2 {
			ends = append(ends, "b1:p0", "b1:p1")
		}
	}
	ends = append(ends, "h2")
	if bridged {
		b.WriteString("[[bridge]]\nname = \"b1\"\n")
	}
	for i := 0; i < len(ends); i += 2 {
		fmt.Fprintf(&b, "[[link]]\nendpoints = [%q, %q]\n", ends[i], ends[i+1])
		if i > 0 && i+2 < len(ends) {
			b.WriteString("mtu = 1600\n")
		}
	}
	return b.String()
}

var flatAddresses = [2][2]string{{"10.0.0.1", "fd00::1"}, {"10.0.0.2", "fd00::2"}}

// TestPintChain: real TCP, UDP, ICMP and fragments, of both IP versions, pass
// five switches in shims. Hosts receive each frame as it was sent, the sinks
// decode the right path of every flow with at least 60 packets, and the
// latencies of its hops agree with what the switches measured.
func TestPintChain(t *testing.T) {
	l := newPintLab(t, chainOfFive(`["parse", "l2", "pint"]`, "", false), flatAddresses)
	// Latencies are compared while one flow alone has been there, so that its
	// packets are those that the switches measured.
	l.tcp(0, 8<<20)
	l.settle()
	l.checkLatency()
	l.traffic(2 << 20)
	l.settle()
	for i := range 2 {
		l.compare(i, func(f []byte) []byte { return f })
	}
	path := []uint64{1, 2, 3, 4, 5}
	flows := l.checkPaths("s5", path, 60)
	if flows < 6 { // TCP, UDP, ICMP, each over IPv4 and IPv6
		t.Errorf("only %d flows of at least 60 packets", flows)
	}
	slices.Reverse(path)
	l.checkPaths("s1", path, 60)
}

// TestPintIPID: the same over five routers, with digests in the identification
// of IPv4. What is not an atomic datagram passes alone. Then a router takes
// another next hop, and the sink notices.
func TestPintIPID(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "ipid.toml")
	writePlan(t, plan)
	for _, identification := range []string{"any", "zero"} {
		t.Run(identification, func(t *testing.T) { testPintRouters(t, plan, identification) })
	}
}

// TestPintRouters: the same in shims, which carry IPv6 and fragments too.
func TestPintRouters(t *testing.T) { testPintRouters(t, "", "zero") }

func testPintRouters(t *testing.T, plan, identification string) {
	// Packets that wait for a neighbour carry no digest: let all know each other.
	l := newPintLab(t, diamondOfRouters(plan, identification), [2][2]string{{"10.0.1.2", "fd00:1::2"}, {"10.0.9.2", "fd00:9::2"}})
	l.ping(4, 3)
	l.ping(6, 3)
	l.settle()
	l.seen[0].forget()
	l.seen[1].forget()
	l.traffic(4 << 20)
	l.settle()
	for i := range 2 {
		l.compare(i, func(f []byte) []byte { return routed(f, 5, identification == "any") })
	}
	long := l.checkPaths("r5", []uint64{1, 2, 3, 4, 5}, 60)
	want := 6 // TCP, UDP and ICMP, over IPv4 and IPv6
	if plan != "" {
		want = map[string]int{"any": 3, "zero": 1}[identification] // of IPv4; Linux numbers all but UDP
	}
	if long < want {
		t.Errorf("only %d flows of at least 60 packets", long)
	}
	if plan != "" && identification == "zero" {
		return
	}
	l.restart("r2", "10.0.23.3", "10.0.26.6")
	l.udp(4, 300, 100)
	l.settle()
	noticed := false
	for _, p := range l.paths("r5") {
		if strings.Contains(p.Flow, fmt.Sprintf(":%d > 10.0.9.2:%d protocol 17", udpFrom, udpTo)) {
			t.Logf("behind the restart: %+v", p)
			noticed = p.Certain && p.Changes == 1 && slices.Equal(p.Path, []uint64{1, 2, 6, 4, 5})
		}
	}
	if !noticed {
		t.Errorf("the sink did not notice that router 2 goes by 6")
	}
}

// writePlan makes the plan of carrier ipid: the default one's queries in the
// identification.
func writePlan(t *testing.T, file string) {
	t.Helper()
	d := pint.DefaultPlan()
	p, err := pint.NewPlan(pint.PlanConfig{ID: 2, Seed: 2, Bits: d.Bits, Carrier: pint.CarrierIPID, Queries: d.Queries})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Save(file); err != nil {
		t.Fatal(err)
	}
}

// diamondOfRouters is h1, r1, r2, r3 or r6, r4, r5, h2. At first all goes by r3.
//
//	              r3 (10.0.23, 10.0.34)
//	h1 - r1 - r2 <                      > r4 - r5 - h2
//	              r6 (10.0.26, 10.0.46)
func diamondOfRouters(plan, identification string) string {
	var b strings.Builder
	host := func(name, net string) {
		fmt.Fprintf(&b, "[[host]]\nname = %q\naddresses = [\"10.0.%s.2/24\", \"fd00:%s::2/64\"]\ngateway = \"10.0.%s.1\"\ngateway6 = \"fd00:%s::1\"\n", name, net, net, net, net)
	}
	host("h1", "1")
	host("h2", "9")
	// A router has networks by port, its last number in them, and where the
	// networks of both hosts are.
	router := func(number int, edge string, networks []string, last []int, toH1, toH2 string) {
		fmt.Fprintf(&b, "[[switch]]\nname = \"r%d\"\ngraph = [\"parse\", \"l3\", \"pint\"]\n[switch.config.dataplane]\naudit = true\nrx_ring = 8192\nfill_ring = 8192\n", number)
		fmt.Fprintf(&b, "[switch.config.stages.pint]\nedge = [%s]\nplan = %q\nidentification = %q\n", edge, plan, identification)
		for i, n := range networks {
			fmt.Fprintf(&b, "[[switch.config.stages.l3.interface]]\nport = \"p%d\"\naddresses = [\"10.0.%s.%d/24\", \"fd00:%s::%d/64\"]\n", i, n, last[i], n, last[i])
		}
		for net, via := range map[string]string{"1": toH1, "9": toH2} {
			if via != "" {
				fmt.Fprintf(&b, "[[switch.config.stages.l3.route]]\nprefix = \"10.0.%s.0/24\"\nvia = [\"10.0.%s\"]\n", net, via)
				fmt.Fprintf(&b, "[[switch.config.stages.l3.route]]\nprefix = \"fd00:%s::/64\"\nvia = [\"fd00:%s\"]\n", net, strings.Replace(via, ".", "::", 1))
			}
		}
	}
	router(1, `"p0"`, []string{"1", "12"}, []int{1, 1}, "", "12.2")
	router(2, "", []string{"12", "23", "26"}, []int{2, 2, 2}, "12.1", "23.3")
	router(3, "", []string{"23", "34"}, []int{3, 3}, "23.2", "34.4")
	router(4, "", []string{"34", "45", "46"}, []int{4, 4, 4}, "34.3", "45.5")
	router(5, `"p1"`, []string{"45", "9"}, []int{5, 1}, "45.4", "")
	router(6, "", []string{"26", "46"}, []int{6, 6}, "26.2", "46.4")
	for _, l := range [][2]string{{"h1", "r1:p0"}, {"r1:p1", "r2:p0"}, {"r2:p1", "r3:p0"}, {"r3:p1", "r4:p0"}, {"r4:p1", "r5:p0"}, {"r5:p1", "h2"}, {"r2:p2", "r6:p0"}, {"r6:p1", "r4:p2"}} {
		fmt.Fprintf(&b, "[[link]]\nendpoints = [%q, %q]\n", l[0], l[1])
		if l[0] != "h1" && l[1] != "h2" {
			b.WriteString("mtu = 1600\n") // room for shims
		}
	}
	return b.String()
}

// The UDP ports of the labs.
const udpFrom, udpTo = 40000, 40001

// traffic is what hosts do: TCP, UDP in one piece and in fragments, and pings,
// over IPv4 and IPv6.
func (l *pintLab) traffic(bytes int) {
	for k, family := range []int{4, 6} {
		l.tcp(k, bytes)
		l.udp(family, 300, 100)
		l.udp(family, 40, 4000)
		l.ping(family, 100)
	}
}

func (l *pintLab) bound(host, k int, port int) string {
	return netip.AddrPortFrom(l.address[host][k], uint16(port)).String()
}

// tcp sends random bytes from h1 to h2, and wants them there.
func (l *pintLab) tcp(k, size int) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
	defer cancel()
	listener, err := l.hosts[1].Listen("tcp", l.bound(1, k, 0))
	if err != nil {
		l.t.Fatal(err)
	}
	defer listener.Close()
	var received bytes.Buffer
	done := make(chan error, 1)
	go func() {
		c, err := listener.Accept()
		if err == nil {
			_, err = io.Copy(&received, c)
			c.Close()
		}
		done <- err
	}()
	c, err := l.hosts[0].Dial(ctx, "tcp", listener.Addr().String())
	if err != nil {
		l.t.Fatal(err)
	}
	sent := make([]byte, size)
	for i := range sent {
		sent[i] = byte(rand.Uint32())
	}
	if _, err := c.Write(sent); err != nil {
		l.t.Fatal(err)
	}
	c.Close()
	select {
	case err := <-done:
		if err != nil || !bytes.Equal(received.Bytes(), sent) {
			l.t.Errorf("%d of %d bytes arrived right over TCP: %v", received.Len(), size, err)
		}
	case <-ctx.Done():
		l.t.Fatal("TCP does not end")
	}
}

// packetConn opens an unconnected socket: Linux numbers the datagrams of others.
func (l *pintLab) packetConn(host int, network, address string) net.PacketConn {
	l.t.Helper()
	var c net.PacketConn
	err := l.hosts[host].Do(func() (err error) {
		c, err = net.ListenPacket(network, address)
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { c.Close() })
	return c
}

// udp sends datagrams from h1 to h2, each behind the arrival of the one before.
func (l *pintLab) udp(family, count, size int) {
	l.t.Helper()
	k := family/2 - 2
	from, to := l.packetConn(0, "udp", l.bound(0, k, udpFrom)), l.packetConn(1, "udp", l.bound(1, k, udpTo))
	defer from.Close()
	defer to.Close()
	if family == 4 && size < 1400 {
		// As QUIC does: such datagrams are atomic, and their identification is zero.
		raw, err := from.(*net.UDPConn).SyscallConn()
		if err != nil {
			l.t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		})
		if err != nil {
			l.t.Fatal(err)
		}
	}
	l.exchange(from, to, to.LocalAddr(), count, func(i int) []byte {
		d := make([]byte, size)
		for j := range d {
			d[j] = byte(rand.Uint32())
		}
		return d
	})
}

// ping sends echo requests from h1, which the kernel of h2 answers.
func (l *pintLab) ping(family, count int) {
	l.t.Helper()
	network, kind := "ip4:icmp", byte(8)
	if family == 6 {
		network, kind = "ip6:ipv6-icmp", 128
	}
	k := family/2 - 2
	c := l.packetConn(0, network, l.address[0][k].String())
	defer c.Close()
	to := &net.IPAddr{IP: l.address[1][k].AsSlice()}
	l.exchange(c, c, to, count, func(i int) []byte {
		d := binary.BigEndian.AppendUint16([]byte{kind, 0, 0, 0, 0x12, 0x34}, uint16(i))
		for range 50 + i {
			d = append(d, byte(rand.Uint32()))
		}
		if family == 4 {
			binary.BigEndian.PutUint16(d[2:], header.Checksum(d))
		}
		return d
	})
}

// exchange sends datagrams and waits for each one, or an answer to it.
func (l *pintLab) exchange(from, to net.PacketConn, at net.Addr, count int, datagram func(i int) []byte) {
	l.t.Helper()
	buf := make([]byte, 65536)
	for i := range count {
		for try := 0; ; try++ {
			if _, err := from.WriteTo(datagram(i), at); err != nil {
				l.t.Fatal(err)
			}
			_ = to.SetReadDeadline(time.Now().Add(2 * time.Second))
			if _, _, err := to.ReadFrom(buf); err == nil {
				break
			} else if !errors.Is(err, os.ErrDeadlineExceeded) || try == 2 {
				l.t.Fatalf("datagram %d to %v: %v", i, at, err)
			}
		}
	}
}

// settle waits until the hosts' witnesses see nothing more.
func (l *pintLab) settle() {
	last := -1
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		time.Sleep(300 * time.Millisecond)
		n := l.seen[0].count() + l.seen[1].count()
		if n == last {
			return
		}
		last = n
	}
}

// compare wants each frame that a host received to be one that the other host sent, as
// the network should have changed it, and none to be missing. Group
// addresses and neighbour discovery are left out: routers do not pass them.
func (l *pintLab) compare(to int, change func([]byte) []byte) {
	l.t.Helper()
	l.compareAtLeast(to, 500, change)
}

func (l *pintLab) compareAtLeast(to, least int, change func([]byte) []byte) {
	l.t.Helper()
	sent, received := map[string]int{}, map[string]int{}
	for _, f := range l.seen[1-to].frames(true) {
		if countable(f) {
			sent[string(change(bytes.Clone(f)))]++
		}
	}
	for _, f := range l.seen[to].frames(false) {
		if countable(f) {
			received[string(comparable(f, len(change(bytes.Clone(f)))))]++
		}
	}
	total, wrong, missing := 0, 0, 0
	for f, n := range received {
		total += n
		if n > sent[f] {
			wrong += n - sent[f]
			if wrong < 5 {
				l.t.Errorf("host %d received a frame that was not sent so: % x", to+1, f[:min(len(f), 80)])
			}
		}
	}
	for f, n := range sent {
		missing += max(0, n-received[f])
	}
	l.t.Logf("host %d received %d frames: %d other than they were sent, %d missing", to+1, total, wrong, missing)
	if total < least || wrong != 0 || missing != 0 || l.seen[0].lost() || l.seen[1].lost() {
		l.t.Errorf("host %d received %d frames: %d other than they were sent, %d missing", to+1, total, wrong, missing)
	}
}

// countable leaves out what is not from host to host.
func countable(f []byte) bool {
	typ := binary.BigEndian.Uint16(f[12:])
	if f[0]&1 != 0 || typ != header.TypeIPv4 && typ != header.TypeIPv6 {
		return false
	}
	return typ != header.TypeIPv6 || f[20] != header.ProtoICMPv6 || f[54] < 133 || f[54] > 137
}

// comparable is what of a received frame routed frames are compared by.
func comparable(f []byte, n int) []byte { return f[len(f)-n:] }

// routed is an IP packet behind that many routers, without the link header.
func routed(f []byte, hops int, clear bool) []byte {
	f = f[14:]
	if f[0]>>4 == 6 {
		f[7] -= byte(hops)
		return f
	}
	ip := (*header.IPv4)(f)
	ip.SetTTL(ip.TTL() - byte(hops))
	if clear && ip.DontFragment() && !ip.Fragment() {
		ip.SetID(0)
	}
	return f
}

// ask shows a view of a switch.
func (l *pintLab) ask(sw, view string, answer any) {
	l.t.Helper()
	status, out, errs := weir("ctl", "--socket", filepath.Join(lab.Root, l.name, sw+".sock"), "show", view, "--limit", "0", "--json")
	if status != 0 {
		l.t.Fatalf("%s: %s", sw, errs)
	}
	if err := json.Unmarshal([]byte(out), answer); err != nil {
		l.t.Fatalf("%s: %v in %s", sw, err, out)
	}
}

type labPath struct {
	Flow                     string
	Path                     []uint64
	Certain                  bool
	Packets, Changes, Strays uint64
	Digests                  int
}

func (l *pintLab) paths(sw string) []labPath {
	var r struct{ Paths []labPath }
	l.ask(sw, "paths", &r)
	return r.Paths
}

// checkPaths wants all flows of enough packets to have the path, and none
// another one; it returns how many flows that are.
func (l *pintLab) checkPaths(sw string, path []uint64, enough int) (long int) {
	l.t.Helper()
	for _, p := range l.paths(sw) {
		if p.Certain && !slices.Equal(p.Path, path) {
			l.t.Errorf("%s: wrong path: %+v", sw, p)
		}
		if p.Packets < uint64(enough) {
			continue
		}
		long++
		if !p.Certain || p.Changes != 0 || p.Strays != 0 {
			l.t.Errorf("%s: not decoded: %+v", sw, p)
		}
	}
	l.t.Logf("%s: %d flows of at least %d packets have the path %v", sw, long, enough, path)
	return long
}

// checkLatency compares the medians that the sink of h2 has decoded, of all
// flows together, with those that the switches measured of what they sent on.
func (l *pintLab) checkLatency() {
	l.t.Helper()
	type hop struct {
		Hop      int
		SwitchID uint64 `json:"switch_id"`
		Samples  uint64
		Median   float64
		Low      float64 `json:"median_low"`
		High     float64 `json:"median_high"`
	}
	var decoded struct{ Hops []hop }
	l.ask("s5", "latency", &decoded)
	for number := 1; number <= 5; number++ {
		var here []hop
		samples := 0.0
		for _, h := range decoded.Hops {
			if h.Hop == number && h.SwitchID == uint64(number) {
				here = append(here, h)
				samples += float64(h.Samples)
			}
		}
		// The median of the flows' medians, by samples.
		slices.SortFunc(here, func(a, b hop) int { return cmp.Compare(a.Median, b.Median) })
		median, low, high, seen := 0.0, 0.0, 0.0, 0.0
		for _, h := range here {
			if seen += float64(h.Samples); seen >= samples/2 {
				median, low, high = h.Median, h.Low, h.High
				break
			}
		}
		var own struct {
			Measured []struct {
				Port    string
				Packets uint64
				Median  float64
			}
		}
		l.ask("s"+strconv.Itoa(number), "latency", &own)
		for _, m := range own.Measured {
			if m.Port != "p1" {
				continue
			}
			l.t.Logf("switch %d: median %.0f ns decoded from %.0f samples, %.0f ns measured of %d packets", number, median, samples, m.Median, m.Packets)
			// A distribution of two humps may have its median between them, where few
			// samples decide: then the decoded bounds, of 99 %, still hold.
			if samples < 500 || m.Median < 0.9*low || m.Median > 1.1*high {
				l.t.Errorf("switch %d: median %.0f ns decoded from %.0f samples, %.0f ns measured", number, median, samples, m.Median)
			}
		}
	}
}

// restart ends a switch of the lab and starts it again with its configuration changed.
func (l *pintLab) restart(sw, old, new string) {
	l.t.Helper()
	status, out, errs := weir("lab", "status", l.name, "--json")
	if status != 0 {
		l.t.Fatal(errs)
	}
	var s lab.Status
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		l.t.Fatal(err)
	}
	i := slices.IndexFunc(s.Nodes, func(n lab.NodeStatus) bool { return n.Name == sw })
	if i < 0 || s.Nodes[i].PID == 0 {
		l.t.Fatalf("no switch %s runs: %s", sw, out)
	}
	if err := syscall.Kill(s.Nodes[i].PID, syscall.SIGTERM); err != nil {
		l.t.Fatal(err)
	}
	config := filepath.Join(lab.Root, l.name, sw+".toml")
	text, err := os.ReadFile(config)
	if err != nil {
		l.t.Fatal(err)
	}
	changed := filepath.Join(l.t.TempDir(), sw+".toml")
	if err := os.WriteFile(changed, bytes.ReplaceAll(text, []byte(old), []byte(new)), 0o600); err != nil {
		l.t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); syscall.Kill(s.Nodes[i].PID, 0) == nil && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	b := &testbed{ns: labHost(l.t, l.name, sw), dir: l.t.TempDir()}
	b.start(l.t, changed)
}

// witness keeps all frames of a host's interface, in both directions.
type witness struct {
	file *os.File
	mu   sync.Mutex
	all  [2][][]byte // received, sent
}

func newWitness(t *testing.T, ns *netns.Namespace) *witness {
	t.Helper()
	link, err := ns.Link("eth0")
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{}
	err = ns.Do(func() error {
		all := uint16(unix.ETH_P_ALL)
		protocol := all<<8 | all>>8
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(protocol))
		if err != nil {
			return err
		}
		w.file = os.NewFile(uintptr(fd), "witness")
		return errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: link.Attrs().Index}))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.file.Close() })
	go w.watch()
	return w
}

func (w *witness) watch() {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 1<<17)
	for {
		var n int
		var from unix.Sockaddr
		var got error
		if raw.Read(func(fd uintptr) bool {
			n, from, got = unix.Recvfrom(int(fd), buf, 0)
			return !errors.Is(got, unix.EAGAIN)
		}) != nil || got != nil {
			return
		}
		way := 0
		if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype == unix.PACKET_OUTGOING {
			way = 1
		}
		w.mu.Lock()
		w.all[way] = append(w.all[way], bytes.Clone(buf[:n]))
		w.mu.Unlock()
	}
}

func (w *witness) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = [2][][]byte{}
}

func (w *witness) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all[0]) + len(w.all[1])
}

func (w *witness) frames(sent bool) [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if sent {
		return w.all[1]
	}
	return w.all[0]
}

// lost reports whether the socket's queue overflowed.
func (w *witness) lost() (lost bool) {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return true
	}
	_ = raw.Control(func(fd uintptr) {
		s, err := unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS)
		lost = err != nil || s.Drops != 0
	})
	return lost
}
