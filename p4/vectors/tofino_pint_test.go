package vectors

import (
	"encoding/binary"
	"hash/crc32"
	"math/big"
	"math/bits"
	"slices"
	"testing"

	"github.com/weirswitch/weir/pipeline/header"
	stagepint "github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// frameCheck is the checksum of a frame, which a Tofino's lengths have too.
const frameCheck = 4

// codeBits is CODE_BITS of p4/tna/include/pint.p4: bits behind the leading one that a code looks at.
const codeBits = 10

// exactly are the keys of an entry that has a value for each.
func exactly(values ...uint64) (keys [][2]*big.Int) {
	for _, v := range values {
		keys = append(keys, [2]*big.Int{new(big.Int).SetUint64(v), nil})
	}
	return keys
}

// prefixes are the masks of 32 bits that together match from one value to another.
func prefixes(from, to uint64) (keys [][2]*big.Int) {
	for from <= to {
		size := 32
		if from != 0 {
			size = bits.TrailingZeros64(from)
		}
		for from+1<<size-1 > to {
			size--
		}
		keys = append(keys, [2]*big.Int{new(big.Int).SetUint64(from), new(big.Int).SetUint64((1<<32 - 1) &^ (1<<size - 1))})
		from += 1 << size
	}
	return keys
}

func (r *tofinoRun) entry(table string, keys [][2]*big.Int, action string, args ...uint64) {
	r.target.entries[table] = append(r.target.entries[table], tableEntry{keys, action, args})
}

// pintTables fills the tables of PINT, as p4/tna/include/pint.p4 says, and measures the use of links as the Go stage does:
// the target's filters are others. Ingress writes headers of the types named in front of the packet.
func (r *tofinoRun) pintTables(t *testing.T, bridged ...string) {
	t.Helper()
	overhead := uint64(frameCheck)
	for _, name := range bridged {
		overhead += uint64(r.target.width(r.target.types[name])+7) / 8
	}
	config, _ := stageConfig[stagepint.Config](r.setup.Switch, "pint")
	plan := r.setup.Plan
	e, err := plan.Compile()
	if err != nil {
		t.Fatal(err)
	}
	interval := new(big.Int).SetUint64(1 << config.IntervalBits)
	r.entry("ingress.interval", [][2]*big.Int{{interval, interval}}, "ingress.odd")
	r.pintHashes(e)

	const digest = "egress.digest."
	for i := range r.setup.Switch.Ports {
		limit := uint64(r.setup.Switch.Ports[i].MaxFrame) + 1 + overhead
		r.entry(digest+"port", exactly(uint64(i)), digest+"set_port", r.edge(i), limit, limit-uint64(header.ShimLen(2)))
		r.entry(digest+"use.rates", exactly(uint64(i)), digest+"use.filter_rate")
	}
	r.entry(digest+"plan", exactly(1, uint64(plan.ID)), digest+"known")
	r.target.defaults[digest+"new_plan"] = tableEntry{action: digest + "newest", args: []uint64{uint64(plan.ID)}}
	for _, set := range e.Sets() {
		for _, step := range set.Steps {
			if step.Query.Aggregation == pint.Quantiles {
				r.codec(digest+"encode.", 0, step.Codec.Table())
			} else if step.Query.Aggregation == pint.Maximum {
				r.codec(digest+"encode.", 1, step.Codec.Table())
			}
		}
	}
}

// pintHashes fills the tables of the control pint_hashes.
func (r *tofinoRun) pintHashes(e *encode.Encoder) {
	const hashes = "ingress.hashes."
	r.key(hashes+"writer_key", hashes+"set_writer_key", hash.Key(e.Seeds().Writer))
	r.key(hashes+"set_key", hashes+"add_set_key", hash.Key(e.Seeds().Set))
	of := func(words ...uint64) (p, q uint64) {
		var m []byte
		for _, w := range words {
			m = binary.LittleEndian.AppendUint64(m, w)
		}
		return uint64(crc32.ChecksumIEEE(m)), uint64(crc32.Checksum(m, crc32.MakeTable(crc32.Castagnoli)))
	}
	withP, withQ := of(uint64(r.setup.Switch.ID), 0)
	p, q := of(0)
	r.target.defaults[hashes+"switch_id"] = tableEntry{action: hashes + "begin_with_switch", args: []uint64{withP ^ p, withQ ^ q}}
	from := uint64(0)
	for _, set := range e.Sets() {
		asked := map[pint.Aggregation]uint64{}
		for _, step := range set.Steps {
			asked[step.Query.Aggregation] = 1
			if step.Static != nil {
				r.path(hashes, step.Static.Table())
			}
		}
		for _, k := range prefixes(from, set.Below-1) {
			r.entry(hashes+"query_set", [][2]*big.Int{k}, hashes+"set_queries", asked[pint.Path], asked[pint.Quantiles], asked[pint.Maximum])
		}
		from = set.Below
	}
	for hop, most := range e.Reservoir() {
		if hop > 0 {
			r.entry(hashes+"sample", exactly(uint64(hop)), hashes+"sample_up_to", most>>32)
		}
	}
}

// path fills the tables of a path's layers, once.
func (r *tofinoRun) path(hashes string, path *encode.PathTable) {
	if r.target.entries[hashes+"layer"] != nil {
		return
	}
	r.key(hashes+"value_key", hashes+"add_value_key", hash.Key(path.ValueSeed))
	from := uint64(0)
	for number, l := range path.Layers {
		to := uint64(1<<32 - 1)
		if number == 0 && len(path.Layers) > 1 {
			to = path.UpTo >> 32
		}
		for _, k := range prefixes(from, to) {
			r.entry(hashes+"layer", [][2]*big.Int{k}, hashes+"set_layer", uint64(number), bit(l.Overwrites).Uint64())
		}
		from = to + 1
		for hop := 1; hop <= pint.MaxHops; hop++ {
			r.entry(hashes+"path_writes", exactly(uint64(number), uint64(hop)), hashes+"path_up_to", l.Accept[hop]>>32)
		}
	}
}

// codec fills the tables of a code of values: 0 is the latency's, 1 the congestion's.
func (r *tofinoRun) codec(encoder string, of uint64, c encode.CodecTable) {
	if slices.ContainsFunc(r.target.entries[encoder+"part"], func(e tableEntry) bool { return e.keys[0][0].Uint64() == of }) {
		return
	}
	number := func(logarithm int64) uint64 { return uint64(uint32(max(logarithm, -1<<30))) }
	for place := codeBits; place < 32; place++ {
		mask := uint64(1<<32-1) &^ (1<<place - 1)
		r.entry(encoder+"whole", [][2]*big.Int{{new(big.Int).SetUint64(of), big.NewInt(1)}, {new(big.Int).SetUint64(1 << place), new(big.Int).SetUint64(mask)}},
			encoder+"at_"+big.NewInt(int64(place)).String(), number(c.Whole[place+1]))
	}
	least := codeBits - (bits.Len(uint(len(c.Part))) - 1)
	for fraction := range 1 << codeBits {
		r.entry(encoder+"part", exactly(of, 0, uint64(fraction)), encoder+"part_of", uint64(c.Part[fraction>>least]))
		n := bits.Len(uint(fraction))
		behind := fraction << (codeBits + 1 - n) & (1<<codeBits - 1)
		r.entry(encoder+"part", exactly(of, 1, uint64(fraction)), encoder+"part_of", number(c.Whole[n]+int64(c.Part[behind>>least])))
	}
}

// stay makes packets leave some time after they came, but in the same interval, as this target goes by the arrival.
func (r *tofinoRun) stay(t *testing.T) {
	t.Helper()
	config, _ := stageConfig[stagepint.Config](r.setup.Switch, "pint")
	d := draws{seed: 9}
	for i := range r.packets {
		p := &r.packets[i]
		p.Now = p.Arrival + int64(d.next(1<<d.next(18)))
		if i > 0 {
			p.Now = max(p.Now, r.packets[i-1].Now)
		}
		if p.Now>>config.IntervalBits != p.Arrival>>config.IntervalBits {
			p.Now = p.Arrival
			if i > 0 {
				p.Now = max(p.Now, r.packets[i-1].Now)
				p.Arrival = p.Now
			}
		}
	}
	var err error
	if r.want, err = RunGo(r.setup, r.packets); err != nil {
		t.Fatal(err)
	}
}

// uses are the moving averages of the links' use, by port.
func (r *tofinoRun) uses(t *testing.T) (all []*encode.Utilisation) {
	t.Helper()
	config, _ := stageConfig[stagepint.Config](r.setup.Switch, "pint")
	for i := range r.setup.Switch.Ports {
		u, err := encode.NewUtilisation(r.setup.Switch.Ports[i].BitsPerSecond/8, uint64(config.RoundTrip))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, u)
	}
	return all
}

// TestTofinoPINT: digests of paths, latencies and the most used link, at sources, between switches and at sinks; records; what
// becomes of packets.
func TestTofinoPINT(t *testing.T) {
	r := newTofinoRun(t, "pint", []string{"parse", "patch", "pint"}, func(s *Setup) {
		s.port("c0").MaxFrame, s.port("c2").MaxFrame = 1300, 600
	})
	r.stay(t)
	r.key("ingress.id.id_key", "ingress.id.set_key", r.parseKey())
	r.pintTables(t, "pint_bridge_t")
	r.through(t)
	r.compareFates(t)
}

// through takes the packets through both halves, of which egress may drop them, too.
func (r *tofinoRun) through(t *testing.T) {
	t.Helper()
	r.writes = r.want.Writes
	uses, copies := r.uses(t), map[uint8]int{}
	for i, in := range r.packets {
		r.advance(i)
		g := r.ingress(t, in)
		out := uses[g.read("tm.ucast_egress_port").Uint64()]
		r.target.filter = func(string) uint64 {
			out.Update(uint64(in.Now), uint64(in.Depth)*uint64(len(in.Data)), uint64(len(in.Data)))
			return out.Value()
		}
		after := r.egress(t, in, g)
		g.values["deparser.drop_ctl"] = after.read("deparser.drop_ctl")
		r.output(t, i, g, after.out)
		for _, m := range r.target.mirrors {
			copies[m[0]]++
		}
		r.reports(t, i, r.target.mirrors)
	}
	t.Logf("copies by kind: %v", copies)
	for kind := range uint8(MessageRecord + 1) {
		if asked := kind == MessageRecord || kind == MessageSample && r.setup.has("oblivious"); asked && copies[kind] == 0 {
			t.Errorf("no copy of kind %d", kind)
		}
	}
}

// compareFates compares the counts of what became of packets.
func (r *tofinoRun) compareFates(t *testing.T) {
	t.Helper()
	t.Logf("fates: %v", r.target.direct)
	fates := r.want.State[pintCounter]
	compare := func(names string, got, want uint64) {
		if got != want || got == 0 {
			r.outcome.differences++
			t.Errorf("%s: %d packets, want %d", names, got, want)
		}
	}
	of := func(name string) uint64 { return r.target.direct["egress.digest."+name] }
	compare("sourced", of("sourced"), fates[0])
	compare("local", of("local"), fates[3])
	compare("left_forged", of("left_forged"), fates[11])
	// stripped are those that go to an edge with another plan's digest, which Go counts as sunk, and those that are too long for a link.
	compare("sunk, left_mtu and stripped", of("sunk")+of("left_mtu")+of("stripped"), fates[2]+fates[5])
}
