package fabric

import (
	"math"
	"testing"

	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/intmd"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// pintConfig is a small tree with the plan's telemetry.
func pintConfig(t testing.TB, p *pintplan.Plan) (Config, *Reader) {
	t.Helper()
	r, err := NewReader(p, "congestion")
	if err != nil {
		t.Fatal(err)
	}
	c := testConfig(t, smallTree)
	c.PFC = true
	c.Telemetry.PINT, c.Telemetry.RoundTrip = r.Encoder(), 13*event.Microsecond
	return c, r
}

// What a packet brings is the largest of what its switches saw, within the random rounding of the
// value's code, and right on average.
func TestDigestIsTheLargestUse(t *testing.T) {
	c, reader := pintConfig(t, congestionPlan(t, 1))
	largest := map[uint64]uint64{}
	hops := 0
	c.Telemetry.Observed = func(p *Packet, v *pint.Observed) {
		largest[p.ID] = max(largest[p.ID], v[pint.EgressUtilisation])
		hops++
	}
	n := newNetwork(t, c)
	const packets = 40_000
	sum, squares, worst := 0.0, 0.0, 0.0
	s := incast(t, n, packets)
	s.bytes = func(int, int) uint32 { return 1049 } // shorter ones may be less than the smallest value
	s.drain(func(_ int, packet uint32) {
		p := n.At(packet)
		got, ok := reader.Read(p.ID, p.Digest)
		if !ok {
			t.Fatal("no value")
		}
		off := math.Log(got / float64(largest[p.ID]))
		sum, squares, worst = sum+off, squares+off*off, max(worst, math.Abs(off))
	})
	step := 2 * math.Log(1.025)
	t.Logf("%d hops, worst error %.4f, a step is %.4f, mean %.6f", hops, worst, step, sum/packets)
	if worst > step*(1+1./32) {
		t.Errorf("an error of %v, a step is %v", worst, step)
	}
	// 6 standard errors, and the bias that the codec's table may have.
	if bias := math.Abs(sum / packets); bias > 6*math.Sqrt(squares)/packets+step/64 {
		t.Errorf("a bias of %v", bias)
	}
}

// A link that is sent at a constant rate has that use, without a queue; within the estimate's own error and
// a packet's part of it, since the estimate is taken just behind one.
func TestUseOfASteadyLink(t *testing.T) {
	for _, use := range []float64{0.1, 0.5, 0.9} {
		c, _ := pintConfig(t, congestionPlan(t, 1))
		var seen float64 // of the link to the receiver, the last of 5 hops
		c.Telemetry.Observed = func(p *Packet, v *pint.Observed) {
			if p.Hops == 5 {
				seen = float64(v[pint.EgressUtilisation]) / pint.UtilisationOne
			}
		}
		n := newNetwork(t, c)
		id, err := n.Route(0, 12, 1)
		if err != nil {
			t.Fatal(err)
		}
		const bytes = 1000
		gap := event.Time(float64(bytes*80*event.Picosecond) / use)
		for i := range 2000 {
			n.SetTimer(event.Time(i)*gap, 0)
		}
		for {
			h := n.Next(event.Second)
			if h.What == Until {
				break
			}
			switch h.What {
			case Timer:
				i := n.New()
				p := n.At(i)
				p.Route, p.Bytes = id, bytes
				n.Send(i)
			case Delivered:
				n.Free(h.Packet)
			}
		}
		part := bytes / (12.5 * 13_000) // of a full link in T
		if math.Abs(seen-use) > 3./1024*use+part {
			t.Errorf("the use is %.4f, the switch says %.4f", use, seen)
		}
	}
}

// Reader finds the query wherever the plan puts it, on the share of packets that the plan chooses.
func TestReaderInASharedDigest(t *testing.T) {
	p, err := pintplan.New(pintplan.Config{ID: 3, Seed: 5, Bits: 16, Queries: []pint.Query{
		{Name: "path", Value: pint.SwitchID, Aggregation: pint.Path, Bits: 8, Frequency: 1,
			Static: &pint.StaticQuery{Code: pint.Hashed, Layers: encode.Hybrid(5)}},
		{Name: "latency", Value: pint.HopLatency, Aggregation: pint.Quantiles, Bits: 8, Frequency: 15. / 16,
			Numeric: &pint.NumericQuery{Multiplicative: true, Min: 100, Max: 100_000_000}},
		congestionQuery(1. / 16),
	}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(p, "congestion")
	if err != nil {
		t.Fatal(err)
	}
	if r.Bytes() != 2 {
		t.Errorf("%d bytes", r.Bytes())
	}
	const packets = 32_000
	carry := 0
	for i := range uint64(packets) {
		id, digest := hash.Uint64(1, i), uint64(0)
		most := 0.0
		for hop := 1; hop <= 5; hop++ {
			use := pint.UtilisationOne>>9 + hash.Uint64x2(2, i, uint64(hop))%(2*pint.UtilisationOne)
			most = max(most, float64(use))
			digest = r.Encoder().Encode(id, hop, digest, &pint.Observed{pint.SwitchID: uint64(hop), pint.HopLatency: 2000, pint.EgressUtilisation: use})
		}
		got, ok := r.Read(id, digest)
		if !ok {
			continue
		}
		carry++
		if off := math.Abs(math.Log(got / most)); off > 2*math.Log(1.025)*(1+1./32) {
			t.Fatalf("%v is read, the largest is %v", got, most)
		}
	}
	// 6 standard deviations of a binomial.
	if want := packets / 16.; math.Abs(float64(carry)-want) > 6*math.Sqrt(want) {
		t.Errorf("%d of %d packets carry the query, want one of 16", carry, packets)
	}
	for _, name := range []string{"latency", "nothing"} {
		if _, err := NewReader(p, name); err == nil {
			t.Errorf("query %q was accepted", name)
		}
	}
}

// INT's records are those of the switches on the way, in order.
func TestRecordsOfINT(t *testing.T) {
	c := testConfig(t, smallTree)
	c.PFC, c.Telemetry.INT = true, true
	n := newNetwork(t, c)
	s := incast(t, n, 20_000)
	last := map[uint32]HopRecord{} // by link
	s.drain(func(host int, packet uint32) {
		p := n.At(packet)
		links, records := n.routeLinks(p.Route), n.HopRecords(packet)
		if len(records) != len(links)-1 {
			t.Fatalf("%d records of %d links", len(records), len(links))
		}
		for i, r := range records {
			if r.Link != links[i+1] || i > 0 && r.At < records[i-1].At+event.Microsecond {
				t.Fatalf("record %d is %+v, on the way %v", i, r, links)
			}
		}
		// At the last link packets arrive in the order in which they left.
		r := records[len(records)-1]
		if l := last[r.Link]; r.At <= l.At || r.Sent != l.Sent+uint64(p.Bytes) {
			t.Fatalf("%+v behind %+v, with %d bytes", r, l, p.Bytes)
		}
		last[r.Link] = r
	})
}

// Stacks of INT-MD say what switches saw, in order, each packet is as much longer on the links behind them, and arrives with the bytes
// that were sent.
func TestStacksOfINTMD(t *testing.T) {
	c := testConfig(t, smallTree)
	c.PFC = true
	c.Telemetry.INTMD = &intmd.Config{Instructions: intmd.NodeID | intmd.HopLatency | intmd.Utilisation, MaxHops: MaxRoute}
	c.Telemetry.RoundTrip = 13 * event.Microsecond
	type saw struct{ node, latency, use uint64 }
	seen := map[uint64][]saw{} // by packet
	c.Telemetry.Observed = func(p *Packet, v *pint.Observed) {
		at := seen[p.ID]
		if int(p.Hops) != len(at)+1 || p.grown != uint32(intmd.FixedLen+int(p.Hops)*12) {
			t.Fatalf("hop %d behind %d, %d bytes more", p.Hops, len(at), p.grown)
		}
		seen[p.ID] = append(at, saw{v[pint.SwitchID], v[pint.HopLatency], v[pint.EgressUtilisation]})
	}
	n := newNetwork(t, c)
	sent := map[uint64]uint32{}
	s := incast(t, n, 20_000)
	length := s.bytes
	s.bytes = func(host, i int) uint32 {
		b := length(host, i)
		sent[hash.Uint64x2(9, uint64(host), uint64(i))] = b
		return b
	}
	packets := 0
	s.drain(func(_ int, packet uint32) {
		p := n.At(packet)
		hops, ok := n.Stack(packet).Hops(nil, 0)
		if !ok || len(hops) != len(n.routeLinks(p.Route))-1 || p.Bytes != sent[p.ID] {
			t.Fatalf("%d hops of %d, %d bytes of %d", len(hops), p.Hops, p.Bytes, sent[p.ID])
		}
		for i, h := range hops {
			if (saw{uint64(h.Node), uint64(h.Latency), uint64(h.Utilisation)}) != seen[p.ID][i] {
				t.Fatalf("hop %d says %+v, the switch saw %+v", i+1, h, seen[p.ID][i])
			}
		}
		delete(seen, p.ID)
		packets++
	})
	if k := n.Counts(); packets != 20_000 || k.InjectedBytes != k.DeliveredBytes || k.Dropped != 0 {
		t.Errorf("%d packets, %+v", packets, k)
	}
	c.Telemetry.INTMD = &intmd.Config{}
	if _, err := New(c); err == nil {
		t.Error("a configuration without instructions was accepted")
	}
}
