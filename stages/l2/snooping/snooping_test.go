package snooping

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline/header"
)

const second = int64(time.Second)

// everyPort carries all VLANs.
func everyPort(uint16, uint16) bool { return true }

func newTable(limit, ports int) *Table {
	t := New(limit, 1)
	t.Configure(limit, Ports{Always: make([]bool, ports), FastLeave: make([]bool, ports)}, everyPort, second)
	return t
}

// report4 is an IGMPv3 report of one record.
func report4(kind byte, group uint32, sources ...uint32) []byte {
	b := []byte{igmpReport3, 0, 0, 0, 0, 0, 0, 1, kind, 0, 0, byte(len(sources))}
	b = binary.BigEndian.AppendUint32(b, group)
	for _, s := range sources {
		b = binary.BigEndian.AppendUint32(b, s)
	}
	return b
}

func (t *Table) hear(at int64, port uint16, kind Kind, body []byte) {
	var e Event
	e.Set(at, 0, port, kind, false, Address{0, 0x0a000001}, body)
	t.Take(&e)
}

var generalQuery = []byte{igmpQuery, 10, 0, 0, 0, 0, 0, 0}

// listeners names the ports that want a group's packets of a source.
func (t *Table) listeners(group, source uint32) string {
	var all []uint16
	for _, l := range t.Look(0, Address{0, uint64(group)}) {
		if l.Wants(Address{0, uint64(source)}) {
			all = append(all, l.Port)
		}
	}
	return fmt.Sprint(all)
}

// check compares the books with what is there.
func (t *Table) check(test testing.TB) {
	test.Helper()
	used, byPort := 0, make([]int, len(t.ports))
	for k, all := range t.groups {
		if len(all) == 0 {
			test.Errorf("%+v has no membership", k)
		}
		for i, m := range all {
			if m.charged != m.cost() || i > 0 && all[i-1].port >= m.port || len(m.sources) > MaxSources {
				test.Errorf("%+v", m)
			}
			used += m.cost()
			byPort[m.port] += m.cost()
		}
		if len(t.Look(k.vlan, k.group)) != len(all) {
			test.Errorf("workers see %d of %d listeners", len(t.Look(k.vlan, k.group)), len(all))
		}
	}
	nodes := 0
	for i := range t.buckets {
		for n := t.buckets[i].Load(); n != nil; n = n.next {
			nodes++
		}
	}
	if nodes != len(t.groups) || used != t.used || used > t.limit {
		test.Errorf("%d groups are %d for workers; %d used, %d in the books, of %d", len(t.groups), nodes, used, t.used, t.limit)
	}
	for p := range t.ports {
		if t.ports[p].used != byPort[p] {
			test.Errorf("port %d: %d used, %d in the books", p, byPort[p], t.ports[p].used)
		}
	}
}

// TestShares: a port that joins without end takes what others do not need, and gives it back to them; what others have stays. A port whose
// memberships went gets all groups, and that ends once its hosts have reported anew.
func TestShares(t *testing.T) {
	const limit, ports = 120, 3
	x := newTable(limit, ports)
	now := 100 * second
	x.hear(now, 2, Query, generalQuery)
	for i := range uint32(20) {
		x.hear(now, 0, Report, report4(isExclude, 0xef000000+i))
	}
	for i := range uint32(5000) {
		x.hear(now, 1, Report, report4(isExclude, 0xef100000+i, 1, 2))
	}
	x.check(t)
	if x.ports[0].used != 20 || x.ports[1].used > limit-20 || x.ports[1].used < limit-23 {
		t.Fatalf("used: %d and %d", x.ports[0].used, x.ports[1].used)
	}
	if c := x.Counters(); c.Refused == 0 || c.Displaced != 0 {
		t.Errorf("%+v", c)
	}
	if v := x.View(0, false); fmt.Sprint(v.All, v.Routers) != "[1 2] [2]" {
		t.Errorf("%+v", v)
	}
	// The first port wants more: it comes out of what the second one has.
	for i := range uint32(30) {
		x.hear(now, 0, Report, report4(isExclude, 0xef200000+i))
	}
	x.check(t)
	if x.ports[0].used != 50 || x.Counters().Displaced == 0 {
		t.Errorf("used: %d and %d, %+v", x.ports[0].used, x.ports[1].used, x.Counters())
	}
	for i := range uint32(20) {
		if got := x.listeners(0xef000000+i, 9); got != "[0]" {
			t.Errorf("listeners %s", got)
		}
	}
	x.Age(now + membershipInterval + second)
	x.check(t)
	if v := x.View(0, false); v != nil || x.used != 0 {
		t.Errorf("%+v, %d used", v, x.used)
	}
}

// TestLost: a port whose messages were lost gets all groups for as long as its hosts may take to report anew.
func TestLost(t *testing.T) {
	x := newTable(100, 2)
	now := 100 * second
	x.hear(now, 0, Query, generalQuery)
	x.Lose(1)
	x.TakeLosses(now)
	if v := x.View(0, false); fmt.Sprint(v.All, v.Routers) != "[0 1] [0]" || x.Counters().Lost != 1 {
		t.Errorf("%+v", v)
	}
	x.hear(now+200*second, 0, Query, generalQuery)
	x.Age(now + membershipInterval)
	if v := x.View(0, false); fmt.Sprint(v.All) != "[0]" {
		t.Errorf("%+v", v)
	}
	// A message that is longer than an event has room for is applied as far as it goes.
	long := report4(isExclude, 0xef000001)
	for i := range uint32(300) {
		long = append(long, report4(isExclude, 0xef100000+i)[8:]...)
	}
	binary.BigEndian.PutUint16(long[6:], 301)
	x.hear(now+300*second, 1, Report, long)
	if v := x.View(0, false); fmt.Sprint(v.All) != "[0 1]" || x.listeners(0xef000001, 1) != "[1]" || x.Counters().Lost != 2 {
		t.Errorf("%+v, %+v", v, x.Counters())
	}
	x.check(t)
}

// TestManySources: with more sources than are kept, a port gets a group of all sources.
func TestManySources(t *testing.T) {
	x := newTable(1000, 2)
	now := 100 * second
	for i := range uint32(MaxSources) {
		x.hear(now, 0, Report, report4(isInclude, 0xef000001, i+1))
	}
	if got := x.listeners(0xef000001, MaxSources+1); got != "[]" || x.listeners(0xef000001, 3) != "[0]" {
		t.Errorf("listeners %s", got)
	}
	x.hear(now, 0, Report, report4(allowNew, 0xef000001, 1000))
	if got := x.listeners(0xef000001, MaxSources+1); got != "[0]" || x.Counters().TooManySources != 1 {
		t.Errorf("listeners %s", got)
	}
	x.check(t)
}

// TestSetBack: a clock that is set back makes nothing last longer.
func TestSetBack(t *testing.T) {
	x := newTable(1000, 2)
	now := 1_000_000 * second
	x.hear(now, 0, Query, generalQuery)
	x.hear(now, 1, Report, report4(isExclude, 0xef000001))
	now = 100 * second
	x.Age(now)
	if v := x.View(0, false); v == nil || !v.Active(now+2*second) || x.listeners(0xef000001, 1) != "[1]" {
		t.Errorf("%+v", v)
	}
	x.Age(now + membershipInterval)
	if v := x.View(0, false); v.Active(now+membershipInterval) || x.listeners(0xef000001, 1) != "[]" {
		t.Errorf("%+v", v)
	}
	x.check(t)
}

// TestForgedQueries: a query that hosts would not take for one lowers no timer, and a querier with a short interval has no one forgotten sooner.
func TestForgedQueries(t *testing.T) {
	const group = 0xef010203
	good := func() []byte { // a group-specific query, from its IP header on
		l3 := []byte{0x45, 0, 0, 32, 0, 0, 0, 0, 1, 2, 0, 0, 10, 0, 0, 1, 0xef, 1, 2, 3, igmpQuery, 1, 0, 0, 0xef, 1, 2, 3, 125, 1, 0, 0}
		return l3
	}
	mac := [6]byte{1, 0, 0x5e, 1, 2, 3}
	for _, tt := range []struct {
		name  string
		mac   [6]byte
		spoil func(l3 []byte)
		want  Kind
	}{
		{"as it should be", mac, func([]byte) {}, Query},
		{"to another Ethernet address", [6]byte{1, 0, 0x5e, 1, 2, 4}, func([]byte) {}, Invalid},
		{"to another group", [6]byte{1, 0, 0x5e, 1, 2, 4}, func(b []byte) { b[19] = 4 }, Invalid},
		{"to all hosts", [6]byte{1, 0, 0x5e, 0, 0, 1}, func(b []byte) { copy(b[16:], []byte{224, 0, 0, 1}) }, Query},
		{"from afar", mac, func(b []byte) { b[8] = 2 }, Invalid},
		{"a fragment", mac, func(b []byte) { b[7] = 1 }, Invalid},
		{"of ten bytes", mac, func(b []byte) { b[3] = 30 }, Invalid},
		{"of a station", mac, func(b []byte) { b[24] = 10 }, Invalid},
		{"general, to a group", mac, func(b []byte) { clear(b[24:28]) }, Invalid},
	} {
		l3 := good()
		tt.spoil(l3)
		binary.BigEndian.PutUint16(l3[10:], header.Checksum(l3[:20]))
		end := int(l3[3])
		binary.BigEndian.PutUint16(l3[22:], header.Checksum(l3[20:end]))
		if kind, _, _ := Read(tt.mac, false, l3); kind != tt.want {
			t.Errorf("a query %s is %d, want %d", tt.name, kind, tt.want)
		}
	}
	x := newTable(100, 2)
	now := 100 * second
	x.hear(now, 1, Report, report4(isExclude, group))
	x.hear(now, 0, Query, []byte{igmpQuery, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0}) // each second, robustness 1
	x.hear(now, 1, Report, report4(isExclude, group))
	x.Age(now + membershipInterval - second)
	if got := x.listeners(group, 1); got != "[1]" {
		t.Errorf("listeners %s", got)
	}
}

// TestAlways: groups that are flooded take no room.
func TestAlways(t *testing.T) {
	for text, want := range map[string]bool{
		"224.0.0.0": true, "224.0.0.255": true, "224.0.1.0": false, "239.0.0.1": false,
		"ff02::1": true, "ff02::2": false, "ff02::1:ff00:1": false, "ff01::1": true, "ff00::1": true, "ff05::1": false, "ff11::1": true, "ff12::1": false,
	} {
		ip := netip.MustParseAddr(text)
		a := address6(append(make([]byte, 16-len(ip.AsSlice())), ip.AsSlice()...))
		if got := a.Always(ip.Is6()); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
		if back := a.IP(ip.Is6()); back != ip {
			t.Errorf("%s became %s", ip, back)
		}
	}
}

// TestLookDoesNotAllocate, nor does reading.
func TestLookDoesNotAllocate(t *testing.T) {
	x := newTable(1000, 4)
	x.hear(second, 0, Query, generalQuery)
	for port := range uint16(4) {
		x.hear(second, port, Report, report4(isInclude, 0xef000001, 1, 2, 3))
	}
	l3 := append([]byte{0x45, 0, 0, 36, 0, 0, 0, 0, 1, 2, 0, 0, 10, 0, 0, 1, 224, 0, 0, 22}, report4(isExclude, 0xef000001)...)
	binary.BigEndian.PutUint16(l3[10:], header.Checksum(l3[:20]))
	binary.BigEndian.PutUint16(l3[22:], header.Checksum(l3[20:]))
	wanted := 0
	var e Event
	if n := testing.AllocsPerRun(100, func() {
		kind, source, body := Read([6]byte{1, 0, 0x5e, 0, 0, 22}, false, l3)
		if kind != Report {
			t.Fatal("no report")
		}
		e.Set(1, 2, 3, kind, false, source, body)
		for _, l := range x.Look(0, Address{0, 0xef000001}) {
			if l.Wants(Address{0, 2}) && x.View(0, false).Active(2*second) {
				wanted++
			}
		}
		x.Lose(1)
	}); n != 0 || wanted != 4*101 {
		t.Errorf("%v allocations, %d listeners", n, wanted)
	}
}

// FuzzRead reads any bytes as packets of both families: what it finds lies within them, and the table takes it and keeps its books.
func FuzzRead(f *testing.F) {
	v4 := append([]byte{0x45, 0, 0, 40, 0, 0, 0, 0, 1, 2, 0, 0, 10, 0, 0, 1, 224, 0, 0, 22}, report4(isInclude, 0xef000001, 1)...)
	f.Add(v4, uint8(0))
	v6 := append([]byte{0x60, 0, 0, 0, 0, 36, 0, 1}, make([]byte, 32)...)
	v6[8], v6[9], v6[24], v6[25], v6[39] = 0xfe, 0x80, 0xff, 2, 0x16
	v6 = append(v6, 58, 0, 5, 2, 0, 0, 1, 0, mldReport2, 0, 0, 0, 0, 0, 0, 1, isExclude, 0, 0, 0, 0xff, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)
	f.Add(v6, uint8(1))
	f.Add(append([]byte{0x46, 0, 0, 36, 0, 0, 0, 0, 1, 2, 0, 0, 10, 0, 0, 1, 224, 0, 0, 1, 0x94, 4, 0, 0}, igmpQuery, 10, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0), uint8(2))
	x := newTable(50, 4)
	now := second
	f.Fuzz(func(t *testing.T, ip []byte, flags uint8) {
		v6 := flags&1 != 0
		ip = append([]byte(nil), ip...)
		if flags&2 == 0 {
			fix(ip, v6)
		}
		_, group, ok := Addresses([6]byte{1, 0, 0x5e}, v6, ip)
		if !ok {
			_, group, _ = Addresses([6]byte{0x33, 0x33}, v6, ip)
		}
		kind, source, body := Read(group.mac(v6), v6, ip)
		if len(body) > len(ip) || kind == Query && (len(body) < 8 || !group.isGroup(v6)) || kind == Report && len(body) < 8 {
			t.Fatalf("kind %d, body % x", kind, body)
		}
		if kind == Query || kind == Report || kind == Router {
			var e Event
			now += int64(flags) << 24
			e.Set(now, uint16(flags>>6), uint16(flags>>2&3), kind, v6, source, body)
			x.Take(&e)
			x.check(t)
			x.Snooped(now)
			x.Memberships(now)
		}
	})
}

// fix gives a packet right checksums, so that what is behind them is tried.
func fix(ip []byte, v6 bool) {
	if v6 {
		if len(ip) >= 60 && ip[6] == 0 && ip[41] == 0 {
			ip[50], ip[51] = 0, 0
			if end := 40 + int(binary.BigEndian.Uint16(ip[4:])); end <= len(ip) && end >= 52 {
				binary.BigEndian.PutUint16(ip[50:], ^header.Sum(ip[48:end], header.PseudoSum6(header.IPv6At(ip, 0), header.ProtoICMPv6, end-48)))
			}
		}
		return
	}
	if len(ip) < 28 {
		return
	}
	length, end := int(ip[0]&15)*4, int(binary.BigEndian.Uint16(ip[2:]))
	if length < 20 || end < length+4 || end > len(ip) {
		return
	}
	ip[10], ip[11], ip[length+2], ip[length+3] = 0, 0, 0, 0
	binary.BigEndian.PutUint16(ip[10:], header.Checksum(ip[:length]))
	binary.BigEndian.PutUint16(ip[length+2:], header.Checksum(ip[length:end]))
}
