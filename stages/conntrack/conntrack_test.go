package conntrack

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// guarded is a configuration in which p0 may begin everything, and p1 only what its rules permit.
func guarded(rules ...Rule) Config {
	c := DefaultConfig()
	c.Groups = []Group{{Name: "inside", Ports: []string{"p0"}, Default: Permit}, {Name: "outside", Ports: []string{"p1"}, Default: Deny, Rules: rules}}
	return c
}

// step is a packet and what shall become of it.
type step struct {
	what  string
	probe probe
	want  packet.Reason
}

func run(t *testing.T, r *rig, steps ...step) {
	t.Helper()
	for _, s := range steps {
		r.now += 1e6
		if got := r.send(s.probe.port, s.probe.frame()); got != s.want {
			t.Errorf("%s: %q, want %q", s.what, got, s.want)
		}
	}
}

const (
	client, server   = "10.0.0.1:1234", "10.0.0.2:80"
	client6, server6 = "[2001:db8::1]:1234", "[2001:db8::2]:80"
)

func TestTCP(t *testing.T) {
	for name, ends := range map[string][2]string{"IPv4": {client, server}, "IPv6": {client6, server6}} {
		t.Run(name, func(t *testing.T) {
			a, b := ends[0], ends[1]
			run(t, newRig(t, guarded()),
				step{"a SYN from outside", tcpProbe(1, b, a, flagSYN, 1, 0, 0), reasonDenied},
				step{"a SYN-ACK to nothing", tcpProbe(1, b, a, flagSYN|flagACK, 1, 1, 0), reasonInvalid},
				step{"SYN", tcpProbe(0, a, b, flagSYN, 1000, 0, 0), 0},
				step{"ACK before the SYN-ACK", tcpProbe(0, a, b, flagACK, 1001, 1, 0), reasonInvalid},
				step{"SYN-ACK of another number", tcpProbe(1, b, a, flagSYN|flagACK, 5000, 900000, 0), reasonInvalid},
				step{"SYN-ACK", tcpProbe(1, b, a, flagSYN|flagACK, 5000, 1001, 0), 0},
				step{"ACK", tcpProbe(0, a, b, flagACK, 1001, 5001, 0), 0},
				step{"data", tcpProbe(0, a, b, flagACK|flagPSH, 1001, 5001, 100), 0},
				step{"data back", tcpProbe(1, b, a, flagACK, 5001, 1101, 1000), 0},
				step{"data above the window", tcpProbe(1, b, a, flagACK, 5001+200000, 1101, 10), reasonInvalid},
				step{"an ACK of what was not sent", tcpProbe(1, b, a, flagACK, 6001, 900000, 10), reasonInvalid},
				step{"data of long ago", tcpProbe(1, b, a, flagACK, 0xfffe8ef1, 1101, 10), reasonInvalid},
				step{"a reset below the window", tcpProbe(1, b, a, flagRST, 10, 0, 0), reasonInvalid},
				step{"no flags", tcpProbe(1, b, a, 0, 6001, 1101, 0), reasonInvalid},
				step{"SYN and FIN", tcpProbe(1, b, a, flagSYN|flagFIN, 6001, 1101, 0), reasonInvalid},
				step{"from a third port, of no group", tcpProbe(2, b, a, flagACK, 6001, 1101, 10), 0},
				step{"an answer to a SYN, from there", tcpProbe(2, b, a, flagSYN|flagACK, 77, 1101, 0), 0},
				step{"and from that which answered first", tcpProbe(1, b, a, flagACK, 6011, 1101, 0), 0},
				step{"FIN", tcpProbe(0, a, b, flagFIN|flagACK, 1101, 6011, 0), 0},
				step{"FIN back", tcpProbe(2, b, a, flagFIN|flagACK, 6011, 1102, 0), 0},
				step{"the last ACK", tcpProbe(0, a, b, flagACK, 1102, 6012, 0), 0},
				step{"the same ports again", tcpProbe(0, a, b, flagSYN, 100000, 0, 0), 0},
				step{"refused", tcpProbe(1, b, a, flagRST|flagACK, 0, 100001, 0), 0},
				step{"after the reset", tcpProbe(1, b, a, flagACK, 1, 100001, 0), reasonDenied},
			)
		})
	}
}

func TestUDPAndOthers(t *testing.T) {
	r := newRig(t, guarded())
	q := udpProbe(0, client, "10.0.0.2:53")
	run(t, r,
		step{"an answer before the question", q.back(1), reasonDenied},
		step{"the question", q, 0},
		step{"the answer", q.back(1), 0},
		step{"from another port number", udpProbe(1, "10.0.0.2:54", client), reasonDenied},
	)
	r.now += int64(30*time.Second) + 1e8
	run(t, r, step{"too late", q.back(1), reasonDenied})
	run(t, r, step{"the question", q, 0}, step{"the answer", q.back(1), 0})
	r.now += int64(3 * time.Second)
	run(t, r, step{"a stream", q.back(1), 0})
	r.now += int64(100 * time.Second)
	run(t, r, step{"lives longer", q.back(1), 0})

	gre := probe{port: 0, src: q.src, dst: q.dst, proto: 47, data: make([]byte, 20)}
	run(t, r, step{"GRE from outside", gre.back(1), reasonDenied}, step{"GRE", gre, 0}, step{"its answer", gre.back(1), 0})
	self := q
	self.dst, self.dstPort = self.src, self.srcPort
	run(t, r, step{"from a host to itself", self, reasonInvalid})
}

func TestICMP(t *testing.T) {
	for name, ends := range map[string][3]string{"IPv4": {"10.0.0.1", "10.0.0.2", "10.9.9.9"}, "IPv6": {"2001:db8::1", "2001:db8::2", "2001:db8::9"}} {
		t.Run(name, func(t *testing.T) {
			a, b, router := ends[0], ends[1], ends[2]
			from, to := fmt.Sprintf("%s:7", a), fmt.Sprintf("%s:9", b)
			if strings.Contains(a, ":") {
				from, to = fmt.Sprintf("[%s]:7", a), fmt.Sprintf("[%s]:9", b)
			}
			r := newRig(t, guarded())
			other := echoProbe(0, a, b, false, 1)
			other.icmpType = 60
			if other.src.Is6() {
				other.icmpType = 200
			}
			sent := udpProbe(0, from, to)
			forged := errorProbe(1, router, sent)
			forged.dst = sent.dst
			run(t, r,
				step{"a ping from outside", echoProbe(1, b, a, false, 1), reasonDenied},
				step{"an answer alone", echoProbe(1, b, a, true, 1), reasonInvalid},
				step{"a ping", echoProbe(0, a, b, false, 1), 0},
				step{"the answer", echoProbe(1, b, a, true, 1), 0},
				step{"of another number", echoProbe(1, b, a, true, 2), reasonInvalid},
				step{"a ping from outside of the same number", echoProbe(1, b, a, false, 1), reasonDenied},
				step{"a message that is no query", other, reasonInvalid},
				step{"an error about nothing", errorProbe(1, router, sent), reasonInvalid},
				step{"UDP", sent, 0},
				step{"an error about it", errorProbe(1, router, sent), 0},
				step{"to another host than its sender", forged, reasonInvalid},
				step{"about the ping", errorProbe(1, router, echoProbe(0, a, b, false, 1)), 0},
				step{"about a ping that was not", errorProbe(1, router, echoProbe(0, a, b, false, 99)), reasonInvalid},
			)
			if sent.src.Is6() {
				ns := probe{port: 1, src: sent.dst, dst: sent.src, proto: 58, icmpType: 135, data: make([]byte, 16)}
				run(t, r, step{"neighbour discovery", ns, 0})
			}
		})
	}
}

func TestFragments(t *testing.T) {
	for name, ends := range map[string][2]string{"IPv4": {client, "10.0.0.2:53"}, "IPv6": {client6, "[2001:db8::2]:53"}} {
		t.Run(name, func(t *testing.T) {
			first := udpProbe(0, ends[0], ends[1])
			first.data, first.id, first.more = make([]byte, 16), 77, true
			later := first
			later.offset, later.more, later.data = 24, false, make([]byte, 8)
			over := later
			over.offset = 8
			alone := later
			alone.id = 78
			other := later
			other.port = 1
			over.offset = 0 // for the count below
			r := newRig(t, guarded())
			run(t, r,
				step{"later before first", later, reasonFragment},
				step{"first", first, 0},
				step{"later", later, 0},
				step{"of another datagram", alone, reasonFragment},
				step{"by another port", other, reasonFragment},
				step{"from outside", first.back(1), 0},
			)
			segment := tcpProbe(0, ends[0], ends[1], flagSYN, 1, 0, 8)
			segment.id, segment.more = 5, true
			tail := segment
			tail.offset, tail.more, tail.data = 8, false, make([]byte, 16)
			run(t, r, step{"a SYN in fragments", segment, 0}, step{"that covers its header", tail, reasonFragment})
			tail.offset = 32
			run(t, r, step{"that does not", tail, 0})
			r.now += int64(31 * time.Second)
			run(t, r, step{"too late", tail, reasonFragment})
		})
	}
}

// A flood of SYNs from a port displaces its own connections that were not answered, and no others: not those of the port that both sides
// took up, and none of other ports.
func TestFloodPaysForItself(t *testing.T) {
	c := DefaultConfig()
	c.Connections = 3 * 100
	r := newRig(t, c)
	open := func(port, n int) (out []step) {
		a := fmt.Sprintf("10.%d.0.1:%d", port, 1000+n)
		b := "10.9.0.1:80"
		return []step{
			{"SYN", tcpProbe(port, a, b, flagSYN, 1000, 0, 0), 0},
			{"SYN-ACK", tcpProbe(2, b, a, flagSYN|flagACK, 5000, 1001, 0), 0},
			{"ACK", tcpProbe(port, a, b, flagACK, 1001, 5001, 0), 0},
		}
	}
	for n := range 50 {
		run(t, r, open(0, n)...)
		run(t, r, open(1, n)...)
	}
	half := tcpProbe(1, "10.1.0.2:7", "10.9.0.1:80", flagSYN, 1, 0, 0)
	run(t, r, step{"a SYN of p1", half, 0})
	for n := range 10_000 {
		flood := tcpProbe(0, fmt.Sprintf("10.0.%d.%d:9", n/256, n%256), "10.9.0.1:80", flagSYN, 1, 0, 0)
		if got := r.send(0, flood.frame()); got != 0 {
			t.Fatalf("flood, packet %d: %v", n, got)
		}
	}
	shares := r.stage.table.shares
	if shares[0].used != 100 || shares[0].evicted != 9950 || shares[1].used != 51 || shares[1].evicted != 0 {
		t.Errorf("p0 has %d connections, %d evicted; p1 has %d, %d evicted", shares[0].used, shares[0].evicted, shares[1].used, shares[1].evicted)
	}
	for n := range 50 {
		for port := range 2 {
			a, b := fmt.Sprintf("10.%d.0.1:%d", port, 1000+n), "10.9.0.1:80"
			run(t, r, step{"data of a connection", tcpProbe(2, b, a, flagACK, 5001, 1001, 10), 0})
		}
	}
	run(t, r, step{"the answer to p1", tcpProbe(2, "10.9.0.1:80", "10.1.0.2:7", flagSYN|flagACK, 1, 2, 0), 0})
	for n := range 50 { // now all of p0 are confirmed
		run(t, r, open(0, 1000+n)...)
	}
	run(t, r, step{"more than the share", tcpProbe(0, "10.0.0.9:1", "10.9.0.1:80", flagSYN, 1, 0, 0), reasonFull})
	run(t, r, step{"of another port", tcpProbe(1, "10.1.0.9:1", "10.9.0.1:80", flagSYN, 1, 0, 0), 0})
}

func TestRulesAndReload(t *testing.T) {
	web := Rule{Action: Permit, Protocol: "tcp", DstPort: "80", Dst: "10.0.0.2"}
	r := newRig(t, guarded(web))
	in := func(flags uint8, seq, ack uint32) probe { return tcpProbe(1, client, server, flags, seq, ack, 0) }
	run(t, r,
		step{"SYN to the web", in(flagSYN, 1000, 0), 0},
		step{"SYN-ACK", tcpProbe(0, server, client, flagSYN|flagACK, 1, 1001, 0), 0},
		step{"ACK", in(flagACK, 1001, 2), 0},
		step{"to ssh", tcpProbe(1, client, "10.0.0.2:22", flagSYN, 1, 0, 0), reasonDenied},
		step{"to another host", tcpProbe(1, client, "10.0.0.3:80", flagSYN, 1, 0, 0), reasonDenied},
		step{"of IPv6", tcpProbe(1, client6, server6, flagSYN, 1, 0, 0), reasonDenied},
	)
	inside := tcpProbe(0, "10.0.0.2:1", "10.0.0.1:2", flagSYN, 1, 0, 0)
	run(t, r, step{"from inside", inside, 0})
	r.reload(t, guarded(web))
	run(t, r, step{"the same rules again", in(flagACK, 1001, 2), 0})
	r.reload(t, guarded())
	run(t, r,
		step{"the rule is gone, an answer", tcpProbe(0, server, client, flagACK, 2, 1001, 0), reasonDenied},
		step{"and the connection with it", in(flagACK, 1001, 2), reasonDenied},
		step{"others stay", tcpProbe(1, "10.0.0.1:2", "10.0.0.2:1", flagSYN|flagACK, 1, 2, 0), 0},
	)
	c := guarded()
	c.Connections = 1000
	if _, err := r.Prepare(c, testEnv.Ports); err == nil || !strings.Contains(err.Error(), "connections = 1000: the table has 65536 while the switch runs") {
		t.Errorf("another size: %v", err)
	}
}

func TestZones(t *testing.T) {
	c := DefaultConfig()
	c.Groups = []Group{{Name: "a", Ports: []string{"p0"}, Default: Permit}, {Name: "b", Ports: []string{"p1"}, Default: Permit, Zone: 7}, {Name: "c", Ports: []string{"p2"}, Default: Deny, Zone: 7}}
	q := udpProbe(0, client, server)
	other := q
	other.port = 1
	run(t, newRig(t, c), step{"zone 0", q, 0}, step{"an answer in zone 7", q.back(2), reasonDenied}, step{"zone 7", other, 0}, step{"the answer", q.back(2), 0})
}

func TestStrictAndInvalid(t *testing.T) {
	ack := tcpProbe(0, client, server, flagACK, 1, 1, 10)
	run(t, newRig(t, guarded()), step{"an ACK without a SYN", ack, 0}, step{"its answer", tcpProbe(1, server, client, flagACK, 1, 11, 0), 0})
	c := guarded()
	c.TCPLoose = false
	run(t, newRig(t, c), step{"an ACK without a SYN", ack, reasonInvalid})
	c.Invalid = Permit
	run(t, newRig(t, c), step{"an ACK without a SYN, permitted", ack, 0}, step{"its answer", tcpProbe(1, server, client, flagSYN|flagACK, 1, 11, 0), 0})
	c = guarded()
	c.TCPLiberal = true
	run(t, newRig(t, c),
		step{"SYN", tcpProbe(0, client, server, flagSYN, 1000, 0, 0), 0},
		step{"SYN-ACK", tcpProbe(1, server, client, flagSYN|flagACK, 5000, 1001, 0), 0},
		step{"ACK", tcpProbe(0, client, server, flagACK, 1001, 5001, 0), 0},
		step{"above the window", tcpProbe(1, server, client, flagACK, 900000, 1001, 10), 0},
		step{"a reset below the window", tcpProbe(1, server, client, flagRST, 10, 0, 0), reasonInvalid},
	)
}

// What a receiver may take for IP though the parser does not is no way around the rules; what is not IP passes.
func TestUnparsed(t *testing.T) {
	r := newRig(t, guarded())
	q := udpProbe(1, server, client)
	frame := q.frame()
	with := func(change func(b []byte)) []byte {
		b := append([]byte(nil), frame...)
		change(b)
		return b
	}
	for name, c := range map[string]struct {
		frame []byte
		want  packet.Reason
	}{
		"ARP":                   {with(func(b []byte) { b[12], b[13] = 8, 6 }), 0},
		"version 5":             {with(func(b []byte) { b[14] = 0x55 }), reasonInvalid},
		"a short IP header":     {with(func(b []byte) { b[14] = 0x43 }), reasonInvalid},
		"SNAP":                  {append(append(append([]byte(nil), frame[:12]...), 0, 46, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0), frame[14:]...), reasonInvalid},
		"UDP of a wrong length": {with(func(b []byte) { b[38], b[39] = 0, 3 }), reasonInvalid},
	} {
		if got := r.send(1, c.frame); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestExpiryAndCounters(t *testing.T) {
	r := newRig(t, guarded())
	run(t, r, step{"UDP", udpProbe(0, client, server), 0}, step{"denied", udpProbe(1, "10.0.0.9:1", client), reasonDenied})
	r.stage.Tick(r.now)
	got := r.Counters()[0]
	if got != (PortCounters{Port: "p0", Group: "inside", Connections: 1, Unconfirmed: 1, Share: 1 << 16 / 3, Begun: 1}) {
		t.Errorf("%+v", got)
	}
	r.now += int64(31 * time.Second)
	for range 1000 { // a pass over the table takes 8 s
		r.now += period
		r.stage.Tick(r.now)
	}
	counts := r.Counters()
	if counts[0].Connections != 0 || counts[0].Expired != 1 || counts[1].Denied != 1 {
		t.Errorf("%+v", counts)
	}
	seen := map[string]float64{}
	r.Metrics(func(m pipeline.Metric) { seen[m.Name+" "+m.Labels[0][1]] = m.Value })
	if seen["denied_packets_total p1"] != 1 || seen["expired_connections_total p0"] != 1 {
		t.Error(seen)
	}
}

func TestExplain(t *testing.T) {
	r := newRig(t, guarded())
	explain := func(q probe) string {
		r.put(q.port, q.frame())
		r.batch.Now = r.now
		r.parse.Process(r.batch)
		r.stage.Process(r.batch)
		text := r.stage.Explain(r.batch, &r.batch.Pkts[0])
		r.batch.Reset()
		return text
	}
	q := udpProbe(0, client, server)
	for _, c := range []struct {
		probe probe
		want  string
	}{
		{q.back(1), `group "outside" of port p1 denies it`},
		{q, `10.0.0.1:1234 > 10.0.0.2:80 protocol 17, begun from p0: unanswered, permitted by group "inside"`},
		{q.back(1), `10.0.0.1:1234 > 10.0.0.2:80 protocol 17, begun from p0: answered, an answer`},
		{errorProbe(1, "10.9.9.9", q), `an error about a packet of 10.0.0.1:1234 > 10.0.0.2:80 protocol 17, begun from p0: answered`},
		{tcpProbe(1, server, client, flagSYN|flagACK, 1, 1, 0), "belongs to no connection"},
	} {
		if got := explain(c.probe); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

func TestValidate(t *testing.T) {
	c := DefaultConfig()
	c.Connections, c.Invalid = 10, "log"
	c.Timeouts.UDP = time.Millisecond
	c.Groups = []Group{
		{Name: "a", Ports: []string{"p0", "p9"}, Default: Permit, Share: 11, Rules: []Rule{{Action: "allow", Src: "10.0.0.0/8", Dst: "::/0", Protocol: "foo", SrcPort: "x", DstPort: "9-1"}}},
		{Name: "a", Ports: []string{"p0"}, Default: "", Zone: -1},
	}
	err := c.Validate([]string{"p0", "p1"})
	for _, want := range []string{
		"connections = 10: choose 64", `invalid = "log"`, "timeouts.udp = 1ms", `group[0].ports: port "p9"`, `group[0].rule[0].action: "allow"`,
		"group[0].rule[0].dst: ::/0 is of another IP version", "group[0].rule[0].protocol", "group[0].rule[0].src_port", "group[0].rule[0].dst_port",
		`group[1].name: group[0] is called "a"`, `group[1].ports: port "p0" is in group "a"`, "group[1].default", "group[1].zone", "group: the shares of ports",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	good := DefaultConfig()
	if err := good.Validate([]string{"p0"}); err != nil {
		t.Error(err)
	}
}

func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(entry{}); n != 128 {
		t.Errorf("a connection has %d bytes, want two cache lines", n)
	}
	if n := unsafe.Offsetof(entry{}.tcp); n != 64 {
		t.Errorf("TCP begins at byte %d, want the second line", n)
	}
}

func TestProcessAllocatesNothing(t *testing.T) {
	r := newRig(t, guarded())
	n := 0
	if got := testing.AllocsPerRun(200, func() {
		for i := range packet.BatchSize {
			n++
			b := r.batch.Append()
			b.Addr, b.InPort = r.addrs[i], uint16(n&1)
			b.Len, b.WireLen = 60, 60
		}
		r.now += 1e9
		r.batch.Now = r.now
		r.parse.Process(r.batch)
		r.stage.Process(r.batch)
		r.batch.Reset()
	}); got != 0 {
		t.Errorf("%v allocations per batch", got)
	}
}
