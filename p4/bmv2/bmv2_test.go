package bmv2

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	m.Run()
}

// reflector has one of each thing that this package configures: tables of all matches, a
// register, a counter, a custom CRC, a multicast group, a clone session, a digest.
const reflector = `
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header crc_t { bit<32> value; }
header clone_t { bit<16> port; }
struct headers { clone_t copy; ethernet_t ethernet; crc_t crc; }
struct learn_t { bit<48> src; bit<16> port; }
struct metadata { bit<16> mark; }

parser parse(packet_in p, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start { p.extract(h.ethernet); transition accept; }
}
control no_verify(inout headers h, inout metadata m) { apply {} }
control no_compute(inout headers h, inout metadata m) { apply {} }
control ingress(inout headers h, inout metadata m, inout standard_metadata_t s) {
    register<bit<64>>(16) seen;
    counter(8, CounterType.packets_and_bytes) arrived;
    action to(bit<9> port) { s.egress_spec = port; }
    action flood(bit<16> group) { s.mcast_grp = group; }
    action drop() { mark_to_drop(s); }
    action mark(bit<16> value) { m.mark = value; }
    table stations { key = { h.ethernet.dst: exact; } actions = { to; flood; drop; } default_action = drop(); support_timeout = true; }
    table prefixes { key = { h.ethernet.src: lpm; } actions = { mark; NoAction; } default_action = NoAction(); }
    table types { key = { h.ethernet.type: ternary; s.ingress_port: exact; } actions = { mark; NoAction; } default_action = NoAction(); }
    apply {
        arrived.count((bit<32>)s.ingress_port);
        bit<64> n;
        seen.read(n, (bit<32>)s.ingress_port);
        seen.write((bit<32>)s.ingress_port, n + 0x100000001);
        h.crc.setValid();
        hash(h.crc.value, HashAlgorithm.crc32_custom, 32w0, { h.ethernet.dst, h.ethernet.src }, 64w0x100000000);
        prefixes.apply();
        types.apply();
        stations.apply();
        h.ethernet.type = h.ethernet.type + m.mark;
        if (m.mark == 0x100) { clone(CloneType.I2E, 7); }
        if (m.mark == 0x200) { digest<learn_t>(1, { h.ethernet.src, (bit<16>)s.ingress_port }); }
    }
}
control egress(inout headers h, inout metadata m, inout standard_metadata_t s) {
    apply {
        if (s.instance_type == 1) { h.copy.setValid(); h.copy.port = (bit<16>)s.ingress_port; }
        if (s.instance_type == 5 && s.egress_port == s.ingress_port) { mark_to_drop(s); }
    }
}
control deparse(packet_out p, in headers h) { apply { p.emit(h.copy); p.emit(h.ethernet); p.emit(h.crc); } }
V1Switch(parse(), no_verify(), ingress(), egress(), no_compute(), deparse()) main;
`

// tools skips the test where the programs are missing, or fails it where they were asked for, as bmv2test.Missing does.
func tools(t *testing.T) Tools {
	t.Helper()
	found, err := Find()
	if asked := os.Getenv("WEIR_REQUIRE_BMV2") == "1" || os.Getenv(CompilerVariable) != "" || os.Getenv(SwitchVariable) != ""; err != nil && asked {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	return found
}

func start(t *testing.T, source string) *Switch {
	t.Helper()
	programs := tools(t)
	netnstest.Require(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "program.p4")
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := programs.Compile(ctx, path, filepath.Join(dir, "program.json")); err != nil {
		t.Fatal(err)
	}
	s, err := Start(ctx, Config{Binary: programs.Switch, Program: filepath.Join(dir, "program.json"), Namespace: netnstest.New(t, "wbm")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// frame is a packet to a station, with some content behind the header.
func frame(dst, src byte, kind uint16, content string) []byte {
	f := append([]byte{2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src}, byte(kind>>8), byte(kind))
	return append(f, content...)
}

// reflected is the packet as the program sends it.
func reflected(f []byte, kind uint16) []byte {
	out := slices.Clone(f[:12])
	out = append(out, byte(kind>>8), byte(kind))
	out = binary.BigEndian.AppendUint32(out, crc32.Checksum(f[:12], crc32.MakeTable(crc32.Castagnoli)))
	return append(out, f[14:]...)
}

func TestSwitch(t *testing.T) {
	s := start(t, reflector)
	calculations := s.Program().CustomCRC32()
	if len(calculations) != 1 {
		t.Fatalf("the program has custom CRCs %v, want one", calculations)
	}
	err := s.Load(`
# stations
table_add stations to 02:00:00:00:00:01 => 1
table_add ingress.stations ingress.to 0x020000000002 => 2
table_add stations flood 02:00:00:00:00:ff => 3
table_add prefixes mark 02:00:00:00:00:10/44 => 0x1
table_add types mark 0x0800&&&0xff00 5 => 0x100 10
table_add types mark 0x0806&&&0xffff 5 => 0x200 1
table_set_default types NoAction
mc_mgrp_create 3
mc_node_create 9 1 2 5
mc_node_associate 3 0
mirroring_add 7 6
register_write seen 3 -1
set_crc32_parameters ` + calculations[0] + ` 0x1edc6f41 0xffffffff 0xffffffff true true
`)
	if err != nil {
		t.Fatal(err)
	}
	arp := frame(1, 4, 0x0806, "")
	for _, c := range []struct {
		name string
		in   Packet
		want []Packet
	}{
		{"by address", Packet{3, frame(1, 0x20, 0x1234, "abc")}, []Packet{{1, reflected(frame(1, 0x20, 0x1234, "abc"), 0x1234)}}},
		{"by number", Packet{4, frame(2, 0x20, 0x1234, "")}, []Packet{{2, reflected(frame(2, 0x20, 0x1234, ""), 0x1234)}}},
		{"default", Packet{4, frame(9, 0x20, 0x1234, "")}, nil},
		{"prefix", Packet{4, frame(2, 0x11, 0x1234, "")}, []Packet{{2, reflected(frame(2, 0x11, 0x1234, ""), 0x1235)}}},
		{"ternary and clone", Packet{5, frame(1, 2, 0x08aa, "x")}, []Packet{
			{1, reflected(frame(1, 2, 0x08aa, "x"), 0x09aa)},
			{6, append([]byte{0, 0}, frame(1, 2, 0x08aa, "x")...)},
		}},
		{"priority and digest", Packet{5, arp}, []Packet{{1, reflected(arp, 0x0a06)}}},
		{"multicast", Packet{2, frame(0xff, 2, 1, "")}, []Packet{
			{1, reflected(frame(0xff, 2, 1, ""), 1)}, {5, reflected(frame(0xff, 2, 1, ""), 1)},
		}},
		{"large", Packet{3, frame(1, 0x20, 0x1234, strings.Repeat("large", 13000))}, []Packet{
			{1, reflected(frame(1, 0x20, 0x1234, strings.Repeat("large", 13000)), 0x1234)},
		}},
	} {
		if err := s.Send(c.in); err != nil {
			t.Fatal(err)
		}
		var got []Packet
		for {
			p, err := s.Receive(quiet)
			if errors.Is(err, ErrQuiet) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, p)
		}
		slices.SortFunc(got, func(a, b Packet) int { return int(a.Port) - int(b.Port) })
		if len(got) != len(c.want) {
			t.Errorf("%s: %d packets, want %d", c.name, len(got), len(c.want))
			continue
		}
		for i, p := range got {
			if p.Port != c.want[i].Port || !bytes.Equal(p.Data, c.want[i].Data) {
				t.Errorf("%s: packet %d by port %d: % x\nwant by port %d: % x", c.name, i, p.Port, p.Data, c.want[i].Port, c.want[i].Data)
			}
		}
	}
	learned, err := s.Learned(10 * time.Second)
	if err != nil || len(learned.Samples) != 1 || !bytes.Equal(learned.Samples[0], []byte{2, 0, 0, 0, 0, 4, 0, 5}) {
		t.Errorf("learned %v, %v", learned, err)
	}
	seen, err := s.Registers("seen")
	if want := []uint64{0, 0, 1<<32 + 1, 2<<32 + 1, 3<<32 + 3, 2<<32 + 2}; err != nil || len(seen) != 16 || !slices.Equal(seen[:6], want) {
		t.Errorf("register seen: %x, %v, want it to begin with %x", seen, err, want)
	}
	if packets, octets, err := s.Counter("arrived", 4); packets != 3 || octets != 3*14 || err != nil {
		t.Errorf("counter: %d packets, %d bytes, %v; want 3 and 42", packets, octets, err)
	}
	if _, within, err := s.Started(func() int64 { return time.Now().UnixNano() }); err != nil || within <= 0 {
		t.Errorf("the clock is known within %v, %v", within, err)
	}
}

// quiet is how long nothing comes from a switch that has sent all.
const quiet = 300 * time.Millisecond

func TestRefusals(t *testing.T) {
	s := start(t, reflector)
	for _, c := range []struct{ command, says string }{
		{"shuffle", "unknown runtime command"},
		{"table_add nowhere to 1 => 1", `no table "nowhere"`},
		{"table_add stations fly 1 => 1", "no action"},
		{"table_add stations to => 1", "1 keys"},
		{"table_add stations to 1 1", "no =>"},
		{"table_add stations to 1 => 512", "no number of 9 bits"},
		{"table_add stations to 1 =>", "1 parameters"},
		{"table_add prefixes mark 02:00:00:00:00:00/49 => 1", "prefix length"},
		{"table_add types mark 1&&&1 2 => 1 x", "priority"},
		{"table_add types mark 1 2 => 1 1", "&&&"},
		{"register_write seen 16 1", "no cell 16"},
		{"register_write unseen 0 1", `no register "unseen"`},
		{"mc_node_create 1 511", "port 511"},
		{"mc_mgrp_create one", "invalid syntax"},
	} {
		if err := s.Load(c.command); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want it to say %q", c.command, err, c.says)
		}
	}
	// What only the switch knows.
	if err := s.Load("table_add stations to 1 => 1\ntable_add stations to 1 => 2"); err == nil || !strings.Contains(err.Error(), "line 2") ||
		!strings.Contains(err.Error(), "the entry is there already") {
		t.Errorf("an entry twice: %v", err)
	}
}

// TestWindow sends many packets at once: none is lost, and each port's stay in order.
func TestWindow(t *testing.T) {
	s := start(t, reflector)
	if err := s.Load("table_add stations to 1 => 1\ntable_add stations to 2 => 2"); err != nil {
		t.Fatal(err)
	}
	const n = 2000
	for i := range n {
		f := make([]byte, 18)
		f[5] = byte(i%2 + 1)
		binary.BigEndian.PutUint32(f[14:], uint32(i))
		if err := s.Send(Packet{0, f}); err != nil {
			t.Fatal(err)
		}
	}
	next := [3]uint32{0, 0, 1}
	for range n {
		p, err := s.Receive(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if got := binary.BigEndian.Uint32(p.Data[18:]); got != next[p.Port] {
			t.Fatalf("port %d sends packet %d, want %d", p.Port, got, next[p.Port])
		}
		next[p.Port] += 2
	}
}

func TestFind(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(CompilerVariable, "")
	t.Setenv(SwitchVariable, "/nowhere/simple_switch")
	_, err := Find()
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "p4c-bm2-ss is not installed: put it on PATH") ||
		!strings.Contains(err.Error(), "SIMPLE_SWITCH names /nowhere/simple_switch") {
		t.Errorf("Find: %v", err)
	}
}

func TestStartFails(t *testing.T) {
	programs := tools(t)
	netnstest.Require(t)
	path := filepath.Join(t.TempDir(), "program.json")
	if err := os.WriteFile(path, []byte(`{"no": "program"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(context.Background(), Config{Binary: programs.Switch, Program: path, Namespace: netnstest.New(t, "wbm")})
	if err == nil || !strings.Contains(err.Error(), "has ended; it said:") {
		t.Errorf("Start: %v", err)
	}
}
