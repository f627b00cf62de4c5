package tunnel

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/clock"
)

// taken is a module with an underlay, a tunnel with two remotes, one of any remote, and one for copies. port names its ports in order.
func taken(t testing.TB, ports string, more func(*Config)) *Module {
	t.Helper()
	c := DefaultConfig()
	c.TableSize = 64
	c.Underlays = []Underlay{{Port: "up", Addresses: []string{"192.0.2.1/24", "2001:db8::1/64"}, Gateways: []string{"192.0.2.254"}}}
	c.Tunnels = []Tunnel{
		{Port: "v1", Kind: KindVXLAN, VNI: 1, Remotes: []string{"192.0.2.2", "2001:db8::2"}, Static: []Station{{MAC: "02:00:00:00:00:99", Remote: "192.0.2.2"}}},
		{Port: "v2", Kind: KindGeneve, VNI: 2, LearnRemotes: true},
		{Port: "e1", Kind: KindERSPAN, Session: 5, Remotes: []string{"203.0.113.5"}},
	}
	if more != nil {
		more(&c)
	}
	env := pipeline.Env{Workers: 2}
	for _, name := range strings.Fields(ports) {
		env.Ports = append(env.Ports, pipeline.Port{Name: name})
	}
	m, err := New(c, env)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// see has a station seen at an end of a tunnel's port.
func (m *Module) see(port uint16, mac uint64, at string, age uint32) {
	a := netip.MustParseAddr(at)
	m.learn(&event{stationKey(port, mac), addrKey(a), a.Is6(), stampOf(clock.Kernel.TAI()) - age})
}

// known lists the stations: port's name, MAC address's last byte, end and age.
func (m *Module) known() map[string]bool {
	all, t, now := map[string]bool{}, m.tables.Load(), stampOf(clock.Kernel.TAI())
	m.fdb.each(func(key, v uint64) {
		age := fmt.Sprint((now - uint32(v)) / 10 * 10)
		if v&staticBit != 0 {
			age = "static"
		}
		mac := macBytes(key)
		all[fmt.Sprintf("%s %x %s %s", t.names[key>>48], mac[5], t.ends[valueEnd(v)].addr, age)] = true
	})
	return all
}

func (m *Module) hopTo(addr string) (h *hop) {
	t := m.tables.Load()
	for i := range t.ends {
		if t.ends[i].hop != nil && t.ends[i].addr == netip.MustParseAddr(addr) {
			return t.ends[i].hop
		}
	}
	return nil
}

const (
	one   = 0x010000000002
	two   = 0x020000000002
	three = 0x030000000002
	old   = 0x040000000002
)

// learned is such a module that knows stations and next hops.
func learned(t testing.TB) *Module {
	m := taken(t, "vm up v1 v2 e1", nil)
	m.see(2, one, "192.0.2.2", 0)
	m.see(2, two, "2001:db8::2", 100)
	m.see(3, three, "198.51.100.3", 20)
	m.see(3, one, "192.0.2.9", 20)
	m.see(3, old, "192.0.2.9", 301)
	for _, forged := range []string{"0.0.0.0", "224.0.0.1", "255.255.255.255"} { // sources that no host has: they teach nothing
		m.see(3, 0x050000000002, forged, 0)
	}
	for addr, mac := range map[string]uint64{"192.0.2.2": 0x22, "198.51.100.3": 0xfe, "2001:db8::2": 0x62} {
		h := m.hopTo(addr)
		h.mac.Store(mac<<40 | 2 | macKnown)
		h.confirmed.Store(clock.Kernel.TAI() - 1e9)
	}
	return m
}

// TestStateAfterReload: where a reload left a remote end out, and stations of a tunnel that learns are at it, the state is one that another process takes.
func TestStateAfterReload(t *testing.T) {
	remotes := func(all ...string) func(*Config) {
		return func(c *Config) {
			c.Tunnels = []Tunnel{{Port: "v2", Kind: KindGeneve, VNI: 2, LearnRemotes: true, Remotes: all}}
		}
	}
	m := taken(t, "vm up v1 v2 e1", remotes("192.0.2.2", "192.0.2.3"))
	m.see(3, one, "192.0.2.2", 0)
	m.see(3, two, "192.0.2.3", 0)
	c := m.config
	remotes("192.0.2.2")(&c)
	commit, err := m.Prepare(c, m.ports)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	names := pipeline.PortNames(m.ports)
	text, err := m.AppendState(nil, names)
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]uint16{}
	for i, name := range names {
		numbers[name] = uint16(i)
	}
	n := taken(t, "vm up v1 v2 e1", remotes("192.0.2.2"))
	if err := n.TakeState(text, names, numbers); err != nil {
		t.Fatal(err)
	}
	if got := n.known(); len(got) != 1 || !got["v2 1 192.0.2.2 0"] {
		t.Errorf("stations %v", got)
	}
}

// TestState: stations pass with their ends and ages, and next hops with their MAC addresses, to a module whose ports have other numbers and whose ends have others; not what the new configuration
// has no place for. Afterwards the writer goes on as before.
func TestState(t *testing.T) {
	m := learned(t)
	names := pipeline.PortNames(m.ports)
	text, err := m.AppendState(nil, names)
	if err != nil {
		t.Fatal(err)
	}
	const ports = "up e1 v2 vm v1"
	numbers := map[string]uint16{}
	for i, name := range strings.Fields(ports) {
		numbers[name] = uint16(i)
	}
	all := []string{"v1 99 192.0.2.2 static", "v1 1 192.0.2.2 0", "v1 2 2001:db8::2 100", "v2 3 198.51.100.3 20", "v2 1 192.0.2.9 20"}
	for _, c := range []struct {
		name string
		more func(*Config)
		want []string
	}{
		{"same", nil, all},
		{"more ends", func(c *Config) { c.Tunnels[0].Remotes = []string{"192.0.2.7", "2001:db8::2", "192.0.2.2"} }, all},
		{"an end less", func(c *Config) { c.Tunnels[0].Remotes = c.Tunnels[0].Remotes[:1] }, append(append([]string{}, all[:2]...), all[3:]...)},
		{"another VNI", func(c *Config) { c.Tunnels[0].VNI = 7 }, append(append([]string{}, all[:1]...), all[3:]...)},
		{"another kind", func(c *Config) { c.Tunnels[1].Kind = KindVXLAN }, all[:3]},
		{"no learned ends", func(c *Config) { c.Tunnels[1].LearnRemotes, c.Tunnels[1].Remotes = false, []string{"192.0.2.9"} }, append(append([]string{}, all[:3]...), all[4])},
		{"a station became static", func(c *Config) { c.Tunnels[0].Static[0].MAC = "02:00:00:00:00:01" }, append([]string{"v1 1 192.0.2.2 static"}, all[2:]...)},
		{"another size", func(c *Config) { c.TableSize = 1024 }, all},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := taken(t, ports, c.more)
			if err := n.TakeState(text, names, numbers); err != nil {
				t.Fatal(err)
			}
			got := n.known()
			for _, w := range c.want {
				if !got[w] {
					t.Errorf("no station %q of %v", w, got)
				}
			}
			if len(got) != len(c.want) || int(n.fdb.entries.Load()) != len(c.want) {
				t.Errorf("%d stations, %d counted: %v", len(got), n.fdb.entries.Load(), got)
			}
			h := n.hopTo("192.0.2.2")
			if h.mac.Load() != 0x22<<40|2|macKnown || clock.Kernel.TAI()-h.confirmed.Load() < 1e9 {
				t.Errorf("the next hop has %x, confirmed %d", h.mac.Load(), h.confirmed.Load())
			}
			if h := n.hopTo("198.51.100.3"); h != nil && (h.addr.String() != "192.0.2.254" || h.mac.Load() != 0xfe<<40|2|macKnown) {
				t.Errorf("the gateway is %v with %x", h.addr, h.mac.Load())
			}
			n.see(numbers["v1"], two, "192.0.2.2", 0)
			if !n.known()["v1 2 192.0.2.2 0"] {
				t.Errorf("a station does not move: %v", n.known())
			}
		})
	}
}

// TestStateFull: all stations of a full table have room in one of the same size.
func TestStateFull(t *testing.T) {
	m := taken(t, "vm up v1 v2 e1", nil)
	for i := range uint64(1000) {
		m.see(2, i<<24|2, "192.0.2.2", 0)
	}
	names := pipeline.PortNames(m.ports)
	text, err := m.AppendState(nil, names)
	if err != nil {
		t.Fatal(err)
	}
	n := taken(t, "vm up v1 v2 e1", nil)
	if err := n.TakeState(text, names, map[string]uint16{"up": 1, "v1": 2}); err != nil {
		t.Fatal(err)
	}
	if a, b := m.fdb.entries.Load(), n.fdb.entries.Load(); a < 60 || a != b || n.fdb.evicted.Load() != 0 {
		t.Errorf("%d stations pass as %d, %d evicted", a, b, n.fdb.evicted.Load())
	}
}

// TestStateWrong: a state that is cut off, or out of range, is refused, and nothing of it is taken.
func TestStateWrong(t *testing.T) {
	m := learned(t)
	names := pipeline.PortNames(m.ports)
	text, err := m.AppendState(nil, names)
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]uint16{"up": 1, "v1": 2, "v2": 3}
	refused := func(state []byte, names []string, want string) {
		t.Helper()
		n := taken(t, "vm up v1 v2 e1", nil)
		if err := n.TakeState(state, names, numbers); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, and nothing of %q", err, want)
		}
		if got := n.known(); len(got) != 1 {
			t.Errorf("of a state that is refused: %v", got)
		}
	}
	stations := len(text) - 5*stationSize
	for cut := range text {
		if cut < stations || (cut-stations)%stationSize != 0 {
			refused(text[:cut], names, "cut off")
		}
	}
	refused(text, names[:2], "port 2 of 2")
	change := func(at int, b ...byte) []byte {
		s := append([]byte{}, text...)
		copy(s[at:], b)
		return s
	}
	const tunnels, ends = 9, 9 + 2 + 3*6
	refused(change(0, 9), names, "version 9")
	refused(change(tunnels, 0xff, 0xff), names, "65535 tunnels")
	refused(change(ends, 0xff, 0xff), names, "65535 remote ends")
	refused(change(ends+2, 5), names, "an address of 5 bytes")
	refused(change(ends+3, 224, 0, 0, 1), names, "224.0.0.1 is not the address of a host")
	refused(change(stations, 3), names, "tunnel 3 of 3")
	refused(change(stations+2, 99), names, "at end 99 of")
	refused(change(stations+4, 1), names, "not the address of a station")
	refused(change(stations+4, 0, 0, 0, 0, 0, 0), names, "not the address of a station")
}

// TestRest: the sequence numbers of copies go on, and the ICMP errors that wait, by ports whose numbers may be others.
func TestRest(t *testing.T) {
	m := learned(t)
	m.sequences.of(4).Store(1<<32 - 3)
	for i, w := range m.workers {
		w.tooBig = w.tooBig[:i+1]
		for k := range w.tooBig {
			e := &w.tooBig[k]
			e.port, e.n = 2, 60+k
			e.data[59] = byte(10*i + k)
		}
	}
	text, err := m.AppendRest(nil)
	if err != nil {
		t.Fatal(err)
	}
	n := taken(t, "e1 v1 up v2 vm", nil)
	if err := n.Enter(text); err != nil {
		t.Fatal(err)
	}
	if next := n.sequences.of(0).Load(); next != 1<<32-3 {
		t.Errorf("the next copy has number %d", next)
	}
	for i, w := range n.workers {
		if len(w.tooBig) != i+1 || w.tooBig[i].port != 1 || w.tooBig[i].n != 60+i || w.tooBig[i].data[59] != byte(11*i) {
			t.Errorf("worker %d has %d errors", i, len(w.tooBig))
		}
	}
	short, long := tooBigText{"v1", make([]byte, 20)}, tooBigText{"v1", make([]byte, 2000)}
	good := tooBigText{"v1", make([]byte, 60)}
	for want, s := range map[string]restState{
		"of version 0":              {},
		"of 1 workers":              {Version: 1, TooBig: make([][]tooBigText, 1)},
		"4097 tunnels":              {Version: 1, Sequences: make([]sequenceText, 4097), TooBig: make([][]tooBigText, 2)},
		"has 20 bytes":              {Version: 1, TooBig: [][]tooBigText{{short}, {}}},
		"has 2000 bytes":            {Version: 1, TooBig: [][]tooBigText{{}, {long}}},
		"9 ICMP errors of worker 0": {Version: 1, TooBig: [][]tooBigText{{good, good, good, good, good, good, good, good, good}, {}}},
	} {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := taken(t, "vm up v1 v2 e1", nil).Enter(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, and nothing of %q", err, want)
		}
	}
	if err := taken(t, "vm up v1 v2 e1", nil).Enter(nil); err == nil {
		t.Error("nothing was taken")
	}
}

// FuzzState: no state makes the module know what cannot be, or more than has room.
func FuzzState(f *testing.F) {
	m := learned(f)
	names := pipeline.PortNames(m.ports)
	text, err := m.AppendState(nil, names)
	if err != nil {
		f.Fatal(err)
	}
	rest, err := m.AppendRest(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, rest)
	many := append([]byte{}, text...)
	for i := range uint32(200) {
		many = binary.LittleEndian.AppendUint32(append(many, 1, 0, byte(i%5), 0, 2, 0, 0, 0, 0, byte(i)), stampOf(clock.Kernel.TAI()))
	}
	f.Add(many, []byte("{}"))
	f.Fuzz(func(t *testing.T, text, rest []byte) {
		n := taken(t, "vm up v1 v2 e1", nil)
		_ = n.TakeState(text, names, map[string]uint16{"vm": 0, "up": 1, "v1": 2, "v2": 3, "e1": 4})
		_ = n.Enter(rest)
		tables, stations := n.tables.Load(), 0
		n.fdb.each(func(key, v uint64) {
			port, end := key>>48, valueEnd(v)
			if stations++; port != 2 && port != 3 || key&1 != 0 || int(end) >= len(tables.ends) || tables.ends[end].hop == nil || port == 2 && !tables.tunnels[0].allowed(end) {
				t.Fatalf("station %x at %x", key, v)
			}
		})
		if stations > 64 || int64(stations) != n.fdb.entries.Load() || len(n.numbers) > maxEnds || len(n.learned) > maxEnds/2 {
			t.Fatalf("%d stations, %d counted, %d ends, %d of them learned", stations, n.fdb.entries.Load(), len(n.numbers), len(n.learned))
		}
	})
}
