package vectors

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/disketch"
	"github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/stages/oblivious"
	"github.com/weirswitch/weir/stages/parse"
	"github.com/weirswitch/weir/stages/patch"
	stagepint "github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/hash"
)

// The programs of p4/tna are run as p4c has understood them (ir_test.go), and compared with the Go stages: packets, copies for
// the control plane, registers, counters. Left out of the inputs is what the README lists as what the target does otherwise:
// what Go finds malformed, IP options and extension headers, DCCP, a second shim of another length, bytes behind the IP packet.

// tofinoRun is what both sides are given.
type tofinoRun struct {
	setup   *Setup
	packets []Packet
	want    *Run
	target  *tofino
	outcome *outcome

	portMetadata int // bits that the target puts in front of a packet, which nothing reads

	// Of the control plane: what it has yet to write, the cells of a fragment's schedules, and the epochs that it has
	// written, by their number; how many epochs there were by log n.
	writes []Write
	cells  map[string]uint64
	epochs map[uint64]tableEntry
	logs   map[uint64]int
	limit  string // the register of the sample's limit
}

// newTofinoRun makes a run of a program: of the cross-connect's ports, with one stage between parse and patch, or behind it.
func newTofinoRun(t *testing.T, program string, graph []string, change func(*Setup), defines ...string) *tofinoRun {
	t.Helper()
	r := &tofinoRun{
		target: newTofino(loadProgram(t, program, defines...)), cells: map[string]uint64{}, epochs: map[uint64]tableEntry{}, logs: map[uint64]int{},
		limit: "ingress.sampler.limit", portMetadata: 64,
	}
	if program == "weir" { // of Tofino 2
		r.portMetadata = 192
	}
	var err error
	if r.setup, err = LoadSetup(setupDir, "patch"); err != nil {
		t.Fatal(err)
	}
	r.setup.Switch.Graph = graph
	change(r.setup)
	left := 0
	captures := append(slices.Clone(committed), cornerCapture, malformedCapture)
	if testing.Short() {
		captures = []string{cornerCapture}
	}
	for i, capture := range captures {
		all, n := r.follows(t, packets(t, r.setup, capture, vectorPackets, uint64(i+1)))
		r.packets, left = append(r.packets, all...), left+n
	}
	all, n := r.follows(t, r.hosts())
	r.packets, left = append(r.packets, all...), left+n
	// Packets leave when they arrive: an interval by the clock is that of the arrival on this target.
	for i := range r.packets {
		p := &r.packets[i]
		p.Arrival = begin + int64(i)*lasting/int64(len(r.packets))
		p.Now = p.Arrival
	}
	if r.want, err = RunGo(r.setup, r.packets); err != nil {
		t.Fatal(err)
	}
	for in, out := range r.pairs() { // without PINT nothing depends on the edge
		r.entry("ingress.forward.pairs", exactly(uint64(in)), "ingress.forward.patch_to", uint64(out), r.edge(in))
	}
	r.outcome = ran(t, "tna/"+program+".p4", "p4test "+irVersion(t), "p4c's IR, interpreted", len(r.packets))
	t.Logf("%s: %d packets; left out: %d that the target does not follow", program, len(r.packets), left)
	return r
}

// pairs are the ports that are connected.
func (r *tofinoRun) pairs() map[int]int {
	pairs := map[int]int{}
	number := func(name string) int {
		return slices.IndexFunc(r.setup.Switch.Ports, func(p pipeline.Port) bool { return p.Name == name })
	}
	for _, p := range r.setup.Switch.Stages["patch"].(*patch.Config).Pairs {
		pairs[number(p[0])], pairs[number(p[1])] = number(p[1]), number(p[0])
	}
	return pairs
}

// edge is 1 for a port to hosts, in PINT's sense.
func (r *tofinoRun) edge(port int) uint64 {
	c := r.setup.Switch.Stages["pint"].(*stagepint.Config)
	return bit(slices.Contains(c.Edge, r.setup.Switch.Ports[port].Name)).Uint64()
}

// follows leaves out what the target's parser does not follow as Go's does, and fills frames up to what Ethernet has at least.
func (r *tofinoRun) follows(t *testing.T, all []Packet) (kept []Packet, left int) {
	t.Helper()
	g, err := newGoSwitch(&tables.Switch{
		Hash: hash.CRC, Graph: []string{"parse", "patch"}, Ports: r.setup.Switch.Ports,
		Stages: map[string]any{"patch": r.setup.Switch.Stages["patch"], "parse": &parse.Config{Malformed: "drop"}},
	}, nothing{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.close(); err != nil {
			t.Error(err)
		}
	}()
	for _, p := range all {
		p.Data = slices.Clone(p.Data)
		for len(p.Data) < 60 {
			p.Data = append(p.Data, 0)
		}
		if _, err := g.step(p); err != nil || !g.seen.alive || !g.seen.plain {
			left++
			continue
		}
		kept = append(kept, p)
	}
	return kept, left
}

// plain reports whether a parsed packet is one that the parser of p4/tna follows.
func plain(p *packet.Packet, data []byte) bool {
	if p.Flags.Has(packet.FlagIPOptions) || p.Flags.Has(packet.FlagIPv4|packet.FlagIPv6) && p.Proto == header.ProtoDCCP {
		return false
	}
	if p.Flags.Has(packet.FlagShim) && !followsShims(string(data[:p.L3])) {
		return false
	}
	if !p.Flags.Has(packet.FlagIPv4 | packet.FlagIPv6) {
		return len(data) >= int(p.L3)+32 // which the parser takes
	}
	end := int(p.L3)
	if p.Flags.Has(packet.FlagIPv4) {
		end += int(binary.BigEndian.Uint16(data[p.L3+2:]))
	} else {
		end += header.IPv6Len + int(binary.BigEndian.Uint16(data[p.L3+4:]))
	}
	return len(data) == max(end, 60)
}

// followsShims reports whether the parser follows the shims of a link header: one of any length, and behind it one with the
// network's.
func followsShims(link string) bool {
	if n := strings.Count(link, shimType); n < 2 {
		return true
	} else if n > 2 {
		return false
	}
	second := link[strings.LastIndex(link, shimType)+len(shimType):]
	return len(second) > 0 && second[0]>>4 == header.ShimVersion && second[0]&7 == digestLen-1
}

const (
	shimType  = "\x88\xb5"
	digestLen = 2 // DIGEST_LEN of p4/include/telemetry.p4
)

// hosts are packets with shims as hosts forge them, and as they are behind the network's: at each port, with a bit
// of either parity, at an edge with no room for another, in the network longer than the link.
func (r *tofinoRun) hosts() (all []Packet) {
	shim := func(odd, plan byte, next uint16) []byte {
		return []byte{header.ShimVersion<<4 | odd<<3 | digestLen - 1, 1, 0, plan, 0, 0, byte(next >> 8), byte(next)}
	}
	for _, n := range []int{80, 590, 1290} {
		for port := range r.setup.Switch.Ports {
			for odd := range byte(4) {
				d := usual()
				d.id, d.payload = uint16(n)<<4|uint16(port), udpBytes(n-header.IPv4Len-header.UDPLen)
				alone := shim(odd&1, 10, header.TypeIPv4)
				two := slices.Concat(shim(odd>>1, 10, header.TypeShim), alone)
				all = append(all, Packet{Port: uint16(port), Data: frame(header.TypeShim, slices.Concat(alone, d.bytes()))},
					Packet{Port: uint16(port), Data: frame(header.TypeShim, slices.Concat(two, d.bytes()))})
			}
		}
	}
	return all
}

// ingress runs a packet through the first half; out is what it sends to the second one.
func (r *tofinoRun) ingress(t *testing.T, p Packet) *gress {
	t.Helper()
	r.target.length, r.target.mirrors = uint64(len(p.Data)+4), nil // with the frame's checksum
	front := pack([]field{{new(big.Int), 7}, {big.NewInt(int64(p.Port)), 9}, {big.NewInt(p.Arrival & (1<<48 - 1)), 48}, {new(big.Int), r.portMetadata}})
	g, err := r.target.run("ingress", slices.Concat(front, p.Data), map[string]uint64{
		"from_parser.global_tstamp": uint64(p.Arrival) & (1<<48 - 1),
	})
	if err != nil {
		t.Fatalf("% x: %v", p.Data, err)
	}
	return g
}

// egress runs what ingress sent through the second half.
func (r *tofinoRun) egress(t *testing.T, p Packet, in *gress) *gress {
	t.Helper()
	r.target.length = uint64(len(in.out) + 4)
	header := r.target.types["egress_intrinsic_metadata_t"]
	var front []field
	for _, f := range r.target.list(header, "fields") {
		v := new(big.Int)
		switch f.text("name") {
		case "egress_port":
			v = in.read("tm.ucast_egress_port")
		case "pkt_length":
			v.SetUint64(r.target.length)
		}
		front = append(front, field{v, r.target.width(r.target.irProgram.at(f, "type"))})
	}
	g, err := r.target.run("egress", slices.Concat(pack(front), in.out), map[string]uint64{
		"from_parser.global_tstamp": uint64(p.Now) & (1<<48 - 1),
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return g
}

// key sets the default action of a table to the key of a seed.
func (r *tofinoRun) key(table, action string, keys ...uint64) {
	e := tableEntry{action: action}
	for _, k := range keys {
		e.args = append(e.args, k>>32, k&(1<<32-1))
	}
	r.target.defaults[table] = e
}

// output compares what leaves: the port, and the bytes.
func (r *tofinoRun) output(t *testing.T, i int, g *gress, data []byte) {
	t.Helper()
	var got []Output
	if g.read("deparser.drop_ctl").Sign() == 0 {
		got = []Output{{uint16(g.read("tm.ucast_egress_port").Uint64()), data}}
	}
	c := comparison{packet: i}
	c.outputs(r.want.Results[i].Out, got)
	r.outcome.differences += len(c.list)
	report(t, c.list)
}

func (r *tofinoRun) parseKey() uint64 {
	c, ok := stageConfig[parse.Config](r.setup.Switch, "parse")
	if !ok {
		d := parse.DefaultConfig()
		c = &d
	}
	return hash.Key(c.Seed)
}

// TestTofinoOblivious: the packets that the switch admits, their ranks' ids, and what arrived.
func TestTofinoOblivious(t *testing.T) {
	r := newTofinoRun(t, "oblivious", []string{"parse", "oblivious", "patch"}, func(s *Setup) {
		c := *s.Switch.Stages["oblivious"].(*oblivious.Config)
		c.Size, c.EpochBits = 8, 27 // the limit falls in each epoch
		s.Switch.Stages["oblivious"] = &c
	})
	r.key("ingress.id.id_key", "ingress.id.set_key", r.parseKey())
	r.key("ingress.sampler.key", "ingress.sampler.set_key", r.rankKey(t))
	r.writes = r.want.Writes
	copies := 0
	for i, in := range r.packets {
		r.advance(i)
		g := r.ingress(t, in)
		r.output(t, i, g, g.out)
		copies += len(r.target.mirrors)
		r.reports(t, i, r.target.mirrors)
	}
	if r.compareTotals(t, "ingress.sampler.totals"); copies == 0 || copies == len(r.packets) {
		t.Error("none or all of the packets were admitted")
	}
	t.Logf("%d copies", copies)
}

// rankKey is the key of the sampler's hash.
func (r *tofinoRun) rankKey(t *testing.T) uint64 {
	t.Helper()
	c, ok := stageConfig[oblivious.Config](r.setup.Switch, "oblivious")
	if !ok {
		t.Fatal("no stage oblivious")
	}
	main, _ := c.Samplers(hash.CRC)
	return hash.Key(main.RankSeed())
}

// advance writes what the control plane has written when a packet comes: the sample's limit, and the schedules of epochs.
func (r *tofinoRun) advance(i int) {
	for ; len(r.writes) > 0 && r.writes[0].Before <= i; r.writes = r.writes[1:] {
		w := r.writes[0]
		if strings.HasSuffix(w.Register, ".threshold") {
			r.target.registers[r.limit] = [][]*big.Int{{new(big.Int).SetUint64(w.Value)}}
		}
		if _, name, ok := strings.Cut(w.Register, "fragment_0."); ok {
			r.cells[name+fmt.Sprint(w.Index)] = w.Value
			if name == "schedule_epoch" {
				r.schedule(w.Value, w.Index)
			}
		}
	}
}

// reports compares the copies for the control plane with the messages of a packet.
func (r *tofinoRun) reports(t *testing.T, i int, mirrors [][]byte) {
	t.Helper()
	var want []byte
	for _, m := range r.want.Results[i].Messages {
		want = append(want, m.report()...)
	}
	if got := slices.Concat(mirrors...); string(got) != string(want) {
		r.outcome.differences++
		t.Errorf("packet %d: a copy with % x, want % x", i, got, want)
	}
}

// report is a message as a report_t of p4/tna/include/headers.p4.
func (m *Message) report() (b []byte) {
	record := Message{Kind: m.Kind, InPort: m.InPort, ID: m.ID, Arrival: m.Arrival}
	if m.Kind == MessageRecord {
		record = *m
	}
	b = append(b, record.Kind, record.Hop)
	b = binary.BigEndian.AppendUint16(b, record.Plan)
	b = binary.BigEndian.AppendUint16(b, record.InPort)
	b = binary.BigEndian.AppendUint16(b, record.OutPort)
	b = binary.BigEndian.AppendUint16(b, uint16(record.Digest))
	b = binary.BigEndian.AppendUint64(b, record.ID)
	return append(b, binary.BigEndian.AppendUint64(nil, uint64(record.Arrival))[2:]...)
}

// compareTotals compares the counter of what arrived.
func (r *tofinoRun) compareTotals(t *testing.T, counter string) {
	t.Helper()
	total := r.target.counters[counter][0]
	count, size := r.want.State["oblivious_ingress.packets"], r.want.State["oblivious_ingress.bytes"]
	if total == nil || total[0] != count[0]+count[1] || total[1] != size[0]+size[1] {
		r.outcome.differences++
		t.Errorf("%v packets and bytes, want %d and %d", total, count[0]+count[1], size[0]+size[1])
	}
}

// TestTofinoDisketch: cells, and what they are of, of a Count Sketch of packets and a Count-Min of bytes, in epochs of one
// subepoch and of many.
func TestTofinoDisketch(t *testing.T) {
	// 128 KiB are the cells that the program has: 2^FRAGMENT_COLUMN_BITS.
	for _, fragment := range []disketch.Fragment{
		{Kind: "countsketch", Memory: 128 << 10, Target: 2, Candidates: -1},
		{Kind: "countsketch", Unit: "bytes", Memory: 128 << 10, Target: 0.004, Candidates: -1},
		{Kind: "countmin", Unit: "bytes", Memory: 128 << 10, Target: 20, Candidates: -1},
		{Kind: "countmin", Unit: "bytes", Memory: 128 << 10, Target: 0.05, Candidates: -1, OneSubepoch: true},
	} {
		t.Run(fmt.Sprintf("%s of %g", fragment.Kind, fragment.Target), func(t *testing.T) { testTofinoDisketch(t, fragment) })
	}
}

func testTofinoDisketch(t *testing.T, fragment disketch.Fragment) {
	r := newTofinoRun(t, "disketch", []string{"parse", "patch", "disketch"}, func(s *Setup) {
		c := *s.Switch.Stages["disketch"].(*disketch.Config)
		c.EpochBits, c.Fragments = epochBits, []disketch.Fragment{fragment}
		c.HostPorts = []string{"h0", "h1", "h2"}
		s.Switch.Stages["disketch"] = &c
	}, fmt.Sprintf("DISKETCH_EPOCH_BITS=%d", epochBits))
	r.key("ingress.hash_flow.flow_key", "ingress.hash_flow.set_key", r.parseKey())
	r.fragmentTables("ports", fragment)
	r.writes = r.want.Writes
	for i, in := range r.packets {
		r.advance(i)
		g := r.ingress(t, in)
		if g.read("deparser.drop_ctl").Sign() != 0 {
			r.output(t, i, g, nil)
			continue
		}
		r.output(t, i, g, r.egress(t, in, g).out)
	}
	r.compareFragment(t, fragment)
}

// The length of epochs, when the programs are compiled.
const (
	epochBits     = 24
	epochBitsMask = 1<<(32-epochBits) - 1
)

// fragmentTables fills the tables of DiSketch; ports is the name of what knows the hosts' ports.
func (r *tofinoRun) fragmentTables(ports string, fragment disketch.Fragment) {
	for i := range r.setup.Switch.Ports {
		if strings.HasPrefix(r.setup.Switch.Ports[i].Name, "h") {
			for _, gress := range []string{"ingress.", "egress."} {
				r.entry(gress+ports+".hosts", exactly(uint64(i)), gress+ports+".host")
			}
		}
	}
	if fragment.Unit == "bytes" {
		r.target.defaults["egress.fragment.unit"] = tableEntry{action: "egress.fragment.bytes"}
	}
	r.target.entries["egress.fragment.count"] = countEntries(fragment.Kind == "countsketch", !fragment.OneSubepoch)
}

// schedule writes the one of an epoch, whose cells have an index, and removes that of the epoch before the last.
func (r *tofinoRun) schedule(epoch uint64, index int) {
	of := func(name string) uint64 { return r.cells[name+fmt.Sprint(index)] }
	number := epoch & epochBitsMask
	r.logs[of("schedule_log")]++
	flip := of("schedule_flip")
	if of("schedule_log") == 0 {
		flip ^= epoch & 1
	}
	halves := func(k uint64) []uint64 { return []uint64{k >> 32, k & (1<<32 - 1)} }
	r.epochs[number] = tableEntry{
		exactly(number), fmt.Sprintf("egress.fragment.begin_%d", of("schedule_log")),
		slices.Concat(halves(of("schedule_key")), halves(of("cell_key")), []uint64{flip}),
	}
	delete(r.epochs, (number-2)&epochBitsMask)
	r.target.entries["egress.fragment.schedule"] = slices.Collect(maps.Values(r.epochs))
}

// compareFragment compares a fragment's cells and what they are of.
func (r *tofinoRun) compareFragment(t *testing.T, fragment disketch.Fragment) {
	t.Helper()
	control := fragmentControl(0)
	var got []uint64
	for _, c := range r.target.registers["egress.fragment.cells"] {
		got = append(got, c[0].Uint64())
	}
	c := comparison{packet: -1}
	c.state(State{control + "cells": r.want.State[control+"cells"]}, State{control + "cells": got})
	r.outcome.differences += len(c.list)
	report(t, c.list)
	for bank := range uint64(2) {
		counted, seen := new([2]uint64), new([2]uint64)
		if x := r.target.counters["egress.fragment.counted"][bank]; x != nil {
			counted = x
		}
		if x := r.target.counters["egress.fragment.seen"][bank]; x != nil {
			seen = x
		}
		value := counted[0]
		if fragment.Unit == "bytes" && fragment.Kind == "countmin" {
			value = 0
			for _, cell := range got[bank*uint64(len(got))/2:][:len(got)/2] {
				value += cell
			}
		} else if fragment.Unit == "bytes" {
			value = counted[1]
		}
		want := [3]uint64{r.want.State[control+"packets"][bank], r.want.State[control+"value"][bank], r.want.State[control+"seen"][bank]}
		if got := [3]uint64{counted[0], value, seen[0]}; got != want || want[0] == 0 {
			r.outcome.differences++
			t.Errorf("bank %d: packets, value and seen are %v, want %v", bank, got, want)
		}
	}
	t.Logf("epochs by log n: %v", r.logs)
}

// countEntries are those of the table count, as p4/tna/include/disketch_control.p4 says.
func countEntries(signs, twice bool) (all []tableEntry) {
	exact := func(v int) [2]*big.Int { return [2]*big.Int{big.NewInt(int64(v)), nil} }
	masked := func(v, mask int) [2]*big.Int { return [2]*big.Int{big.NewInt(int64(v)), big.NewInt(int64(mask))} }
	for log := range 11 {
		for sign := range 2 {
			action := "egress.fragment.add"
			if signs && sign == 1 {
				action = "egress.fragment.subtract"
			}
			if n := 1 << log; twice {
				all = append(all, tableEntry{[][2]*big.Int{exact(log), exact(sign), masked(1, 1), masked(1, 1), masked(0, n/2-min(n/2, 1))}, action, nil})
			}
			all = append(all, tableEntry{[][2]*big.Int{exact(log), exact(sign), masked(0, 0), masked(0, 0), masked(0, 1<<log-1)}, action, nil})
		}
	}
	return all
}

// The length of intervals, when the programs are compiled.
const intervalBits = 25

// twoRows makes a side of LDS one that the target has.
func twoRows(s *Setup, side string, byShim bool) {
	c := *s.Switch.Stages[side].(*lds.Config)
	c.Rows, c.Columns, c.Virtual, c.IntervalBits, c.IntervalBit, c.Banks = 2, 1<<ldsColumnBits, 1, intervalBits, byShim, []float64{0.3, 1}
	s.Switch.Stages[side] = &c
}

// pointTables fills the tables of LDS' measurement points, but for the keys of hashes.
func (r *tofinoRun) pointTables(byShim bool) {
	for i, accept := range r.setup.Switch.Stages["lds_ingress"].(*lds.Config).Sketch(hash.CRC).Accepts() {
		r.target.registers[fmt.Sprintf("ingress.points.rates.limit%d", i)] = [][]*big.Int{{new(big.Int).SetUint64(accept - 1)}}
	}
	if byShim {
		r.entry("ingress.points.mark", exactly(1), "ingress.points.by_shim")
	}
	for side, gress := range []string{"ingress", "egress"} {
		r.target.defaults[gress+".points.clock.clock"] = tableEntry{action: gress + ".points.clock.shift", args: []uint64{1 << intervalBits / 2}}
		for port, number := range points(r.setup.Switch.Stages[sides[side]].(*lds.Config), r.setup.Switch) {
			r.entry(gress+".points.point_of.points", exactly(uint64(port)), gress+".points.point_of.set_point", uint64(number))
		}
	}
}

// TestTofinoLDS: cells of both sides, made of the registers as p4/tna/include/lds_control.p4 says, and packets.
func TestTofinoLDS(t *testing.T) {
	for _, byShim := range []bool{false, true} {
		t.Run(fmt.Sprintf("by the shim: %v", byShim), func(t *testing.T) { testTofinoLDS(t, byShim) })
	}
}

func testTofinoLDS(t *testing.T, byShim bool) {
	r := newTofinoRun(t, "lds", []string{"parse", "lds_ingress", "patch", "lds_egress"}, func(s *Setup) {
		for _, side := range sides {
			twoRows(s, side, byShim)
		}
	}, fmt.Sprintf("LDS_INTERVAL_BITS=%d", intervalBits), fmt.Sprintf("TNA_LDS_COLUMN_BITS=%d", ldsColumnBits))
	sketch := r.setup.Switch.Stages["lds_ingress"].(*lds.Config).Sketch(hash.CRC)
	r.key("ingress.id.id_key", "ingress.id.set_key", r.parseKey())
	r.key("ingress.digest.digest_key", "ingress.digest.set_key", hash.Key(sketch.PacketSeed(0)))
	r.key("ingress.columns.columns_key", "ingress.columns.set_key", hash.Key(sketch.FlowSeed(0)))
	r.key("ingress.name.flow_key", "ingress.name.set_key", hash.Key(0))
	r.pointTables(byShim)
	for i, in := range r.packets {
		g := r.ingress(t, in)
		if g.read("deparser.drop_ctl").Sign() != 0 {
			r.output(t, i, g, nil)
			continue
		}
		r.output(t, i, g, r.egress(t, in, g).out)
	}
	for side, gress := range []string{"ingress", "egress"} {
		r.compareSide(t, sides[side]+".side.", gress, 1<<intervalBits)
	}
}

// compareSide compares the cells of a side with those of Go.
func (r *tofinoRun) compareSide(t *testing.T, name, gress string, interval uint64) {
	t.Helper()
	counted := uint64(0)
	number := func(register string, index int) uint64 {
		cells := r.target.registers[gress+".points."+register]
		if cells == nil {
			return 0
		}
		return cells[index][1].Uint64()<<32 | cells[index][0].Uint64()
	}
	faults := 0
	for bank := range 2 << ldsPointBits {
		for row := range 2 {
			for column := range 1 << ldsColumnBits {
				at, index := (bank<<ldsRowBits|row)<<ldsColumnBits|column, bank<<ldsColumnBits|column
				times, bytes := number(fmt.Sprintf("lengths%d.times", row), index), number(fmt.Sprintf("lengths%d.bytes", row), index)
				digests, counts := number(fmt.Sprintf("digests%d.digests", row), index), number(fmt.Sprintf("digests%d.counts", row), index)
				n := counts >> 32
				got := [4]uint64{-times - n*interval/2, n, -bytes, uint64(uint32(-digests))}
				var want [4]uint64
				for i, register := range []string{"cell_sum", "cell_count", "cell_bytes", "cell_digest"} {
					if cells := r.want.State[name+register]; cells != nil {
						want[i] = cells[at]
					}
				}
				if counted += n; got != want {
					r.outcome.differences++
					if faults++; faults < 5 {
						t.Errorf("%s bank %d, row %d, column %d: sum, count, bytes and digest are %x, want %x", gress, bank, row, column, got, want)
					}
				}
			}
		}
	}
	for bank, want := range r.want.State[name+"packets"] {
		got := uint64(0)
		if c := r.target.counters[gress+".points.packets"][uint64(bank)]; c != nil {
			got = c[0]
		}
		if outside := r.want.State[name+"outside"][bank]; got != want || outside != 0 {
			r.outcome.differences++
			t.Errorf("%s bank %d: %d packets, want %d; %d outside, which the target has none of", gress, bank, got, want, outside)
		}
	}
	if counted == 0 || faults >= 5 {
		t.Errorf("%s: %d packets in cells, %d cells differ", gress, counted, faults)
	}
	t.Logf("%s: %d packets in cells", gress, counted)
}

// TestTofinoCompiles: p4test takes all programs of p4/tna.
func TestTofinoCompiles(t *testing.T) {
	for _, name := range []string{"pint", "disketch", "oblivious", "lds", "weir"} {
		p := loadProgram(t, name)
		for _, part := range []string{"ingress_parser", "ingress", "ingress_deparser", "egress_parser", "egress", "egress_deparser"} {
			if p.parts[part] == nil {
				t.Errorf("%s has no %s", name, part)
			}
		}
	}
}
