package tables

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	stage "github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// code is the control pint_codec.
func (t *target) code(instance string, value, round, top uint64) uint64 {
	_, whole := t.apply(instance+".whole", value)
	fraction := value << whole["zeros"] << 1 >> 48
	_, part := t.apply(instance+".part", fraction)
	sum := int64(whole["logarithm"] + part["logarithm"] + round)
	return min(uint64(max(sum>>16, 0)), top)
}

// encode is a control pint_encoder.
func (t *target) encode(encoder string, id uint64, hop int, digest uint64, v *pint.Observed) uint64 {
	_, k := t.apply(encoder + ".keys")
	q := t.hash(k["of_set"], little(id, 8))
	g := t.hash(k["of_writer"], little(id, 8), little(uint64(hop), 8))
	h := t.hash(k["of_path"], little(k["of_switch"], 8), little(id, 8))
	_, set := t.apply(encoder+".query_set", uint64(q.a))
	_, layer := t.apply(encoder+".layer", q.turned())
	_, path := t.apply(encoder+".path_writes", layer["number"], uint64(hop))
	_, sample := t.apply(encoder+".sample", uint64(hop))
	round := uint64(q.b & 0xffff)
	latency := t.code(encoder+".latency_code", v[pint.HopLatency], round, set["of_latency"])
	congestion := t.code(encoder+".congestion_code", v[pint.EgressUtilisation], round, set["of_congestion"])

	at := func(name string) (mask, shift uint64) { return set["of_"+name], set[name+"_at"] }
	if mask, shift := at("path"); g.whole() <= path["most"] {
		if layer["overwriting"] == 1 {
			digest &^= mask << shift
		}
		digest ^= uint64(h.b) & mask << shift
	}
	if mask, shift := at("latency"); g.turned() <= sample["most"] {
		digest = digest&^(mask<<shift) | latency<<shift
	}
	if mask, shift := at("congestion"); congestion > digest>>shift&mask {
		digest = digest&^(mask<<shift) | congestion<<shift
	}
	return digest
}

// values are random numbers of all lengths, and the edges of lengths.
func values(r *rand.Rand, n int) (all []uint64) {
	for i := range 64 {
		all = append(all, 1<<i-1, 1<<i, 1<<i+1)
	}
	for range n {
		all = append(all, r.Uint64()>>r.IntN(64))
	}
	return append(all, 0, 1<<64-1)
}

// TestEncoder: over random packets, all hops and values of all sizes, what the
// tables say is what the Go encoder of each plan does.
func TestEncoder(t *testing.T) {
	for name, next := range map[string]string{"switch.toml": "../testdata/setups/plan-ttl.toml", "bridge.toml": ""} {
		eachFamily(t, name, func(t *testing.T, s *Switch) {
			config := s.Stages["pint"].(*stage.Config)
			if config.NextPlan = next; next != "" && s.Hash == hash.XX {
				config.NextPlan = planOfXXHash(t, next)
			}
			x := build(t, s)
			plans, err := config.LivePlans()
			if err != nil {
				t.Fatal(err)
			}
			for i, plan := range plans {
				encodes(t, s, x, planTables[i].encoder, plan)
			}
		})
	}
}

func encodes(t *testing.T, s *Switch, x *target, encoder string, plan *pintplan.Plan) {
	t.Helper()
	e, err := plan.Compile()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	v := values(r, 8000)
	for i, value := range v {
		id, hop, digest := r.Uint64(), 1+i%pint.MaxHops, r.Uint64()&0xffff
		if i%2 == 0 {
			hop = 1 + i/2%5 // where most packets are
		}
		seen := pint.Observed{pint.SwitchID: uint64(s.ID), pint.HopLatency: value, pint.EgressUtilisation: v[len(v)-1-i]}
		if got, want := x.encode(pintControl+"."+encoder, id, hop, digest, &seen), e.Encode(id, hop, digest, &seen); got != want {
			t.Fatalf("%s of switch %d: packet %#x, hop %d, digest %#x, values %d and %d: the tables give %#x, the encoder %#x",
				encoder, s.ID, id, hop, digest, value, v[len(v)-1-i], got, want)
		}
	}
}

// TestThresholds: the tables' thresholds are the encoder's numbers.
func TestThresholds(t *testing.T) { eachFamily(t, "switch.toml", testThresholds) }

func testThresholds(t *testing.T, s *Switch) {
	x := build(t, s)
	plan, err := s.Stages["pint"].(*stage.Config).SourcePlan()
	if err != nil {
		t.Fatal(err)
	}
	e, err := plan.Compile()
	if err != nil {
		t.Fatal(err)
	}
	path := e.Sets()[0].Steps[0].Static.Table()
	for hop, want := range e.Reservoir() {
		if hop == 0 {
			continue
		}
		_, sample := x.apply(pintControl+".encoder.sample", uint64(hop))
		same(t, "sample", hop, sample["most"], want)
		for number, layer := range path.Layers {
			_, p := x.apply(pintControl+".encoder.path_writes", uint64(number), uint64(hop))
			same(t, "path", hop, p["most"], layer.Accept[hop])
		}
	}
}

func same(t *testing.T, what string, hop int, most, threshold uint64) {
	t.Helper()
	if most != threshold {
		t.Errorf("%s, hop %d: the table says %#x, the encoder %#x", what, hop, most, threshold)
	}
}

// use is the control pint_utilisation.
type use struct {
	x       *target
	u, last uint64
}

func (s *use) log2(v uint64) uint64 {
	n := bits.Len64(v)
	return uint64(n-1)<<24 + s.x.registers[pintControl+".utilisation.logarithm"][int(v<<(65-n)>>54)]
}

func (s *use) product(x, y, factor uint64) uint64 {
	if x == 0 || y == 0 {
		return 0
	}
	e := s.log2(x) + factor
	if e>>63 != 0 {
		return 0
	}
	entry, n := s.x.registers[pintControl+".utilisation.exponential"][int(e>>14&1023)], e>>24
	switch {
	case n > 60:
		return 1 << 60
	case n <= 32:
		return entry >> (32 - n)
	}
	return min(entry<<(n-32), 1<<60)
}

func (s *use) update(link params, now, queue, bytes uint64) uint64 {
	tau := uint64(0)
	if now > s.last {
		tau, s.last = now-s.last, now
	}
	t := link["round_trip"]
	tau = min(tau, t)
	if logTau := s.log2(tau); tau <= t>>1 {
		s.u -= min(s.u, s.product(s.u, tau, logTau-link["log_round_trip"]))
	} else {
		s.u = s.product(s.u, t-tau, s.log2(t-tau)-link["log_round_trip"])
	}
	s.u += s.product(queue, tau, s.log2(tau)-link["log_bytes"]-link["log_round_trip"]+32<<24)
	s.u += s.product(bytes, 1, 32<<24-link["log_bytes"])
	return s.u >> 16
}

// TestUtilisation: the registers and the ports' entries give the estimates of
// pint.Utilisation, packet by packet.
func TestUtilisation(t *testing.T) {
	s := load(t, "switch.toml")
	s.Ports[1].BitsPerSecond = 1_000_000_000
	x := build(t, s)
	r := rand.New(rand.NewPCG(3, 4))
	for port, rate := range []uint64{10_000_000_000, 1_000_000_000} {
		_, link := x.apply(pintControl+".port", uint64(port))
		got := use{x: x}
		want, err := encode.NewUtilisation(rate/8, 100_000)
		if err != nil {
			t.Fatal(err)
		}
		now := uint64(1_800_000_000_000_000_000)
		for i := range 20_000 {
			now += r.Uint64() >> (64 - r.IntN(20))
			queue, bytes := r.Uint64N(100)*1500, 60+r.Uint64N(1455)
			want.Update(now, queue, bytes)
			if g := got.update(link, now, queue, bytes); g != want.Value() {
				t.Fatalf("port %d, packet %d: the tables give %d, the estimate is %d", port, i, g, want.Value())
			}
		}
	}
}
