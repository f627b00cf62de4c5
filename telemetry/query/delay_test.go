package query

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// TestBetween measures two classes of flows of different delays over a link that
// loses packets.
func TestBetween(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testBetween(t, family) })
	}
}

func testBetween(t *testing.T, family hash.Family) {
	const interval, flows = 1 << 30, 40
	s := &store.Store{}
	r := rand.New(rand.NewPCG(5, 6))
	delays, counts, lost := make([]float64, flows), make([]float64, flows), make([]float64, flows)
	for number := int64(1); number <= 3; number++ {
		config := lds.Config{Rows: 4, Columns: 2000, Virtual: 5, IntervalNs: interval, Seed: 2, Hash: family}
		out, _ := lds.NewPoint(config)
		in, _ := lds.NewPoint(config)
		other, _ := lds.NewPoint(config)
		for _, p := range []*lds.Point{out, in, other} {
			p.Begin(number)
		}
		for i := range 20_000 {
			f := r.IntN(flows)
			id, at := r.Uint64(), number*interval+int64(i)*20_000
			delay := int64(5e6) * int64(1+f%2) * int64(90+r.IntN(20)) / 100
			out.Add(Hash(family, key(f), 0), id, at, 100)
			if f < 4 && r.IntN(500) == 0 {
				lost[f]++
				continue
			}
			in.Add(Hash(family, key(f), 0), id, at+delay, 100)
			delays[f] += float64(delay)
			counts[f]++
		}
		for _, p := range []struct {
			sw       uint32
			instance uint16
			*lds.Point
		}{{1, 3, out}, {2, 0, in}, {2, 2, other}} {
			add(t, s, record.Header{Kind: record.LDS, Switch: p.sw, Instance: p.instance, Start: number * interval, Span: interval, Hash: family}, p.AppendBinary)
		}
	}
	s.Sort()
	e := &Engine{Store: s, Confidence: 0.999999}
	from, err1 := e.ParsePlace("b")
	to, err2 := e.ParsePlace("c:0")
	if _, err := e.ParsePlace("nobody"); err == nil || err1 != nil || err2 != nil {
		t.Fatal(err, err1, err2)
	}
	// What an answer calls its points names them again, with their directions.
	named, err := e.Between(from, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err1 := e.ParsePlace(named.From)
	back, err2 := e.ParsePlace(named.To)
	if err1 != nil || err2 != nil || !strings.HasSuffix(named.From, " out") || again.only != Out || back.only != In {
		t.Fatalf("%q to %q: %+v, %v, %+v, %v", named.From, named.To, again, err1, back, err2)
	}
	if same, err := e.Between(again, back, nil); err != nil || same.From != named.From || same.To != named.To || same.Delay != named.Delay {
		t.Errorf("%v, %+v, want %+v", err, same, named)
	}
	if wrong, err := e.ParsePlace(strings.TrimSuffix(named.From, "out") + "in"); err != nil {
		t.Error(err)
	} else if _, err := e.Between(wrong, to, nil); err == nil {
		t.Error("a point that is not there has an answer")
	}
	for f := range flows {
		k := key(f)
		b, err := e.Between(from, to, &k)
		if err != nil {
			t.Fatal(err)
		}
		truth := delays[f] / counts[f]
		if !b.HasDelay || math.Abs(b.Delay.Value-truth) > 0.02*truth || !b.Delay.Holds(truth) {
			t.Errorf("flow %d: delay %+v, truth %g", f, b.Delay, truth)
		}
		if !b.HasLoss || b.Lost != lost[f] || b.Packets < counts[f]+lost[f] || b.Whole != 3 || b.Bytes < 100*b.Packets || b.CountTrust < 0.8 || b.CountTrust > 1 {
			t.Errorf("flow %d: lost %g of %g, truth %g of %g", f, b.Lost, b.Packets, lost[f], counts[f]+lost[f])
		}
	}
	// Several flows in one question have the same answers, and one that never came says so.
	q := &Question{Kind: KindDelay, From: "b", To: "c:0", Flows: []string{FormatKey(key(1000))}}
	for f := range flows {
		q.Flows = append(q.Flows, FormatKey(key(f)))
	}
	several := ask[*Between](t, e, q)
	if len(several.Flows) != flows+1 || several.Flow != "" || several.Lost != named.Lost || several.Delay != named.Delay {
		t.Fatalf("%+v, of all flows %+v", several, named)
	}
	for f, got := range several.Flows[1:] {
		k := key(f)
		one, err := e.Between(from, to, &k)
		if want := (FlowBetween{one.Flow, one.HasDelay, one.Delay, one.HasLoss, one.Packets, one.Lost, one.Why}); err != nil || got != want {
			t.Errorf("flow %d of several: %+v, alone %+v, %v", f, got, want, err)
		}
	}
	all, err := e.Between(from, Place{Switch: 2, Port: -1}, nil)
	if err != nil || all.Lost != lost[0]+lost[1]+lost[2]+lost[3] || all.Intervals != 3 || all.To != "c:0 in" || all.From != "b:1 out" || all.Refused == 0 {
		t.Errorf("all flows: %+v, %v", all, err)
	}
	sent := counts[0] + counts[1] + counts[2] + counts[3] + all.Lost
	if !all.HasPackets || all.Packets < sent || all.HasBytes {
		t.Errorf("%g packets (%t), bytes %t, of %g that left", all.Packets, all.HasPackets, all.HasBytes, sent)
	}
}

// TestIdleIntervals: intervals in which nothing passed are not among those that an answer covers, whether both points counted them whole or not; one in
// which the sender alone counted is.
func TestIdleIntervals(t *testing.T) {
	const interval = 1 << 30
	s := &store.Store{}
	for number, packets := range [][2]int{{0, 0}, {100, 98}, {0, 0}, {50, 50}, {7, 0}, {0, 0}} {
		for sw := range 2 {
			p, _ := lds.NewPoint(lds.Config{Rows: 2, Columns: 64, Virtual: 1, IntervalNs: interval})
			at := int64(number+1) * interval
			p.Begin(int64(number + 1))
			if number == 0 || number == 3 { // the points began and stopped within these
				p.Mark(lds.Partial)
			}
			for i := range packets[sw] {
				p.Add(Hash(0, key(1), 0), uint64(i), at+int64(i)*1000+int64(sw)*500, 100)
			}
			add(t, s, record.Header{Kind: record.LDS, Switch: uint32(sw + 1), Instance: uint16(1 - sw), Start: at, Span: interval}, p.AppendBinary)
		}
	}
	s.Sort()
	for _, flow := range []string{"", FormatKey(key(1))} {
		b := ask[*Between](t, &Engine{Store: s}, &Question{Kind: KindLoss, From: "b", To: "c", Flow: flow})
		if b.Intervals != 3 || b.Whole != 2 || b.Idle != 3 || !b.HasLoss || b.Lost != 9 {
			t.Errorf("flow %q: %d intervals, %d of them whole, and %d idle, %g lost of %+v", flow, b.Intervals, b.Whole, b.Idle, b.Lost, b)
		}
	}
	// Where nothing passed at all there is no answer.
	e := &Engine{Store: s, Window: s.Range(3*interval, 4*interval)}
	for _, flow := range []string{"", FormatKey(key(1))} {
		if b, err := e.Ask(t.Context(), &Question{Kind: KindLoss, From: "b", To: "c", Flow: flow}); !errors.Is(err, ErrNoRecords) && !errors.Is(err, ErrUnknownFlow) {
			t.Errorf("flow %q where nothing passed: %+v, %v", flow, b, err)
		}
	}
}

// TestImpossibleSum: a cell whose sum no packets can have is refused.
func TestImpossibleSum(t *testing.T) {
	const interval = 1 << 30
	config := lds.Config{Rows: 1, Columns: 1, Virtual: 1, IntervalNs: interval}
	s := &store.Store{}
	for sw := range 2 {
		p, _ := lds.NewPoint(config)
		p.Begin(7)
		p.Add(1, 2, 7*interval, 100)
		if sw == 1 {
			cell := p.Cell(0, 0)
			cell.Sum = 2*interval + 1
			if err := p.Load(7, 1, 0, []lds.Cell{cell}); err != nil {
				t.Fatal(err)
			}
		}
		add(t, s, record.Header{Kind: record.LDS, Switch: uint32(sw + 1), Instance: uint16(1 - sw), Start: 7 * interval, Span: interval}, p.AppendBinary)
	}
	b, err := (&Engine{Store: s}).Between(Place{Switch: 1, Port: -1}, Place{Switch: 2, Port: -1}, nil)
	if err != nil || b.HasDelay || b.Refused != 1 {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestWeight: packets and losses of a flow that counts more are told by its weight.
func TestWeight(t *testing.T) {
	const interval, weight = 1 << 30, 100
	config := lds.Config{Rows: 2, Columns: 64, Virtual: 1, IntervalNs: interval}
	s := &store.Store{}
	for sw, sent := range []uint64{1000, 990} {
		p, _ := lds.NewPoint(config)
		p.Begin(7)
		for i := range sent {
			p.AddWeighted(Hash(hash.XX, key(1), 0), i, 7*interval+int64(i), 100, weight)
		}
		add(t, s, record.Header{Kind: record.LDS, Switch: uint32(sw + 1), Instance: uint16(1 - sw), Start: 7 * interval, Span: interval}, p.AppendBinary)
	}
	e, k := &Engine{Store: s, Weight: weight}, key(1)
	b, err := e.Between(Place{Switch: 1, Port: -1}, Place{Switch: 2, Port: -1}, &k)
	if err != nil || b.Packets != 1000 || b.Lost != 10 || b.Bytes != 100_000 {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestRestartedPoint: a switch that restarts makes two records of an interval. They
// add up, in whatever order and however often they come, so that only what passed in
// between is missing.
func TestRestartedPoint(t *testing.T) {
	const interval = 1 << 30
	config := lds.Config{Rows: 2, Columns: 64, Virtual: 1, IntervalNs: interval}
	var pieces [2]*lds.Point
	out, _ := lds.NewPoint(config)
	out.Begin(7)
	for i := range pieces {
		pieces[i], _ = lds.NewPoint(config)
		pieces[i].Begin(7)
		pieces[i].Mark(lds.Partial)
	}
	for i := range uint64(1000) {
		f, at := key(int(i%10)), int64(7*interval+i*100_000)
		out.Add(Hash(hash.XX, f, 0), i, at, 100)
		if i != 500 { // of flow 0
			pieces[i/500].Add(Hash(hash.XX, f, 0), i, at+2000, 100)
		}
	}
	s := &store.Store{}
	add(t, s, record.Header{Kind: record.LDS, Switch: 1, Instance: 1, Start: 7 * interval, Span: interval}, out.AppendBinary)
	for _, i := range []int{0, 1, 0, 1} {
		add(t, s, record.Header{Kind: record.LDS, Switch: 2, Start: 7 * interval, Span: interval, Partial: true}, pieces[i].AppendBinary)
	}
	s.Sort()
	if c := s.Counts(); c.Records != 3 || c.Duplicates != 2 {
		t.Fatalf("%+v", c)
	}
	e := &Engine{Store: s}
	all, err := e.Between(Place{Switch: 1, Port: -1}, Place{Switch: 2, Port: -1}, nil)
	if err != nil || all.Intervals != 1 || all.Whole != 0 || all.HasLoss || all.Refused == 0 || all.Refused > 2 || all.Delay.Value != 2000 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestClocks: two switches whose clocks differ, or move, through the real records of
// both directions; the answers say by how much, and warn.
func TestClocks(t *testing.T) {
	const interval, least = 1 << 30, 200_000
	for _, x := range []struct {
		name   string
		offset [3]int64 // of the second switch's clock, by interval
		back   bool     // the way back is measured
		warns  string
	}{
		{"equal", [3]int64{}, true, ""},
		{"one way", [3]int64{}, false, ""},
		{"near", [3]int64{5000, 5000, 5000}, true, ""},
		{"a third", [3]int64{90_000, 90_000, 90_000}, true, "may differ by"},
		{"ahead", [3]int64{7e6, 7e6, 7e6}, true, "differ by 6."},
		{"behind", [3]int64{-7e6, -7e6, -7e6}, true, "differ by 6."},
		{"behind, one way", [3]int64{-7e6, -7e6, -7e6}, false, "differ by 6."},
		{"moved", [3]int64{-7e6, 7e6, 0}, true, "moved against each other"},
	} {
		s := &store.Store{}
		r := rand.New(rand.NewPCG(8, 9))
		config := lds.Config{Rows: 4, Columns: 500, Virtual: 2, IntervalNs: interval, Seed: 1}
		for number := int64(1); number <= 3; number++ {
			// Points by switch: what leaves and what arrives.
			var points [2][2]*lds.Point
			for i := range points {
				for j := range points[i] {
					points[i][j], _ = lds.NewPoint(config)
					points[i][j].Begin(number)
				}
			}
			clock := [2]int64{0, x.offset[number-1]}
			for i := range 4000 {
				from := i & 1
				id, at := r.Uint64(), number*interval+1e8+int64(i)*10_000
				points[from][0].Add(Hash(hash.XX, key(i%40), 0), id, at+clock[from], 100)
				points[1-from][1].Add(Hash(hash.XX, key(i%40), 0), id, at+least+r.Int64N(least/10)+clock[1-from], 100)
			}
			for i := range points {
				for j, p := range points[i] {
					if forth := i == j; !forth && !x.back {
						continue
					}
					add(t, s, record.Header{Kind: record.LDS, Switch: uint32(1 + i), Instance: uint16(1 - j), Start: number * interval, Span: interval}, p.AppendBinary)
				}
			}
		}
		s.Sort()
		e := &Engine{Store: s}
		b, err := e.Between(Place{Switch: 1, Port: -1}, Place{Switch: 2, Port: -1}, nil)
		if err != nil {
			t.Fatal(x.name, err)
		}
		truth := float64(x.offset[2])
		c := b.Clocks
		if c == nil || c.HasOffset != x.back || (c.Warning == "") != (x.warns == "") || !strings.Contains(c.Warning, x.warns) {
			t.Errorf("%s: %+v", x.name, c)
			continue
		}
		if x.back && x.name != "moved" && (math.Abs(c.OffsetNs.Value-truth) > least/10 || !c.OffsetNs.Holds(truth)) {
			t.Errorf("%s: offset %+v, want %g", x.name, c.OffsetNs, truth)
		}
		if !x.back && c.OffsetNs.High < truth {
			t.Errorf("%s: at most %g, truth %g", x.name, c.OffsetNs.High, truth)
		}
	}
}

// TestUnlikeRows: of three intervals, in which a receiver and its sender have four rows, different ones, and one, that of different ones is counted, and not compared.
func TestUnlikeRows(t *testing.T) {
	const interval, delay = 1 << 30, 3_000_000
	s := &store.Store{}
	r := rand.New(rand.NewPCG(5, 7))
	for number, rows := range map[int64][2]int{1: {4, 4}, 2: {4, 1}, 3: {1, 1}} {
		config := lds.Config{Rows: 4, Columns: 2000, Virtual: 1, IntervalNs: interval, Seed: 2}
		out, _ := lds.NewPoint(config)
		in, _ := lds.NewPoint(config)
		for i, p := range []*lds.Point{out, in} {
			p.Begin(number)
			p.SetRows(rows[i])
		}
		for i := range 1000 {
			id, at := r.Uint64(), number*interval+int64(i)*20_000
			out.Add(Hash(hash.XX, key(i%7), 0), id, at, 100)
			in.Add(Hash(hash.XX, key(i%7), 0), id, at+delay, 100)
		}
		for _, p := range []struct {
			sw       uint32
			instance uint16
			*lds.Point
		}{{1, 3, out}, {2, 0, in}} {
			add(t, s, record.Header{Kind: record.LDS, Switch: p.sw, Instance: p.instance, Start: number * interval, Span: interval}, p.AppendBinary)
		}
	}
	s.Sort()
	e := &Engine{Store: s}
	from, err1 := e.ParsePlace("b")
	to, err2 := e.ParsePlace("c:0")
	b, err3 := e.Between(from, to, nil)
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	if b.Intervals != 3 || b.Unlike != 1 || b.Whole != 2 || b.Lost != 0 || !b.HasDelay || math.Abs(b.Delay.Value-delay) > 1 || math.Abs(b.Sampled-2000) > 1e-6 {
		t.Errorf("%+v", b)
	}
}

// TestPortsOfFlow: a question about one flow is answered by the ports that it took, those about all by all ports that have packets in common.
func TestPortsOfFlow(t *testing.T) {
	const interval = 1 << 30
	s := &store.Store{}
	r := rand.New(rand.NewPCG(5, 8))
	delays := []int64{1_000_000, 4_000_000}
	sum := int64(0)
	for number := int64(1); number <= 3; number++ {
		var out, in [2]*lds.Point
		for way := range 2 {
			for _, p := range []**lds.Point{&out[way], &in[way]} {
				*p, _ = lds.NewPoint(lds.Config{Rows: 4, Columns: 2000, Virtual: 1, IntervalNs: interval, Seed: 2})
				(*p).Begin(number)
			}
		}
		for i := range 4000 {
			f := r.IntN(40)
			way := 0 // of flows 0 to 29
			if f >= 30 {
				way = 1
			}
			id, at := r.Uint64(), number*interval+int64(i)*20_000
			out[way].Add(Hash(hash.XX, key(f), 0), id, at, 100)
			in[way].Add(Hash(hash.XX, key(f), 0), id, at+delays[way], 100)
			sum += delays[way]
		}
		for way := range 2 {
			add(t, s, record.Header{Kind: record.LDS, Switch: 1, Instance: uint16(2*way + 1), Start: number * interval, Span: interval}, out[way].AppendBinary)
			add(t, s, record.Header{Kind: record.LDS, Switch: 2, Instance: uint16(2 * way), Start: number * interval, Span: interval}, in[way].AppendBinary)
		}
	}
	s.Sort()
	e := &Engine{Store: s}
	from, err1 := e.ParsePlace("b")
	to, err2 := e.ParsePlace("c")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for f, way := range map[int]int{3: 0, 29: 0, 30: 1, 39: 1} {
		k := key(f)
		b, err := e.Between(from, to, &k)
		if err != nil || !b.HasDelay || math.Abs(b.Delay.Value-float64(delays[way])) > 1 {
			t.Errorf("flow %d: %+v, %v", f, b, err)
		}
	}
	if b, err := e.Between(from, to, nil); err != nil || math.Abs(b.Delay.Value-float64(sum)/12000) > 1 || len(b.Ways) != 2 {
		t.Errorf("all flows: %+v, %v", b, err)
	}
}

// TestMissingOfAskedPoints: an answer about two points lists what these lack, by the names that the answer has for them, and nothing of others.
func TestMissingOfAskedPoints(t *testing.T) {
	const interval = 1 << 30
	config := lds.Config{Rows: 2, Columns: 64, Virtual: 1, IntervalNs: interval}
	s := &store.Store{}
	for _, p := range []struct {
		sw       uint32
		instance uint16
	}{{1, 2}, {1, 3}, {1, 5}, {2, 2}, {2, 4}, {2, 5}, {3, 2}, {3, 3}} {
		point, _ := lds.NewPoint(config)
		point.Begin(7)
		for i := range uint64(100) {
			point.Add(Hash(hash.XX, key(int(i%10)), 0), i, int64(7*interval+i*100_000), 100)
		}
		add(t, s, record.Header{Kind: record.LDS, Switch: p.sw, Instance: p.instance, Start: 7 * interval, Span: interval, Missed: 7}, point.AppendBinary)
	}
	s.Sort()
	e := &Engine{Store: s}
	names := func(list []store.Missing) (names []string) {
		for _, m := range list {
			names = append(names, m.Point)
		}
		return names
	}
	for _, c := range []struct {
		from, to Place
		want     string
	}{
		{Place{Switch: 1, Port: 1}, Place{Switch: 2, Port: 2}, "[b:1 out c:2 in]"},
		{Place{Switch: 1, Port: -1}, Place{Switch: 2, Port: 1}, "[b:1 out b:2 out c:1 in]"},
		{Place{Switch: 1, Port: 1}, Place{Switch: 1, Port: 2}, "[b:1 in b:2 out]"},
	} {
		if b, err := e.Between(c.from, c.to, nil); err != nil || fmt.Sprint(names(b.Missing)) != c.want {
			t.Errorf("%v to %v: %v, %+v, want %s", c.from, c.to, err, b, c.want)
		}
	}
	h, err := e.HeavyHittersAt(At{Place{Switch: 2, Port: 1}, 0}, oblivious.Packets, 0.01, 0, []Key{key(1)})
	if err != nil || fmt.Sprint(names(h.Missing)) != "[c:1 in]" {
		t.Errorf("%v, %+v", err, h)
	}
	if all := s.Missing(store.OfPoints, s.All()); len(all) != 8 || all[7].Point != "d:1 out" {
		t.Errorf("%+v", all)
	}
}

// TestUnknownClass: a class that a switch does not measure is refused with those that it does; without any, the answer says what makes some.
func TestUnknownClass(t *testing.T) {
	s := &store.Store{}
	for i, name := range []string{"blue", ""} {
		p, err := lds.NewPoint(lds.Config{Rows: 1, Columns: 10, Virtual: 1, IntervalNs: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		p.SetClass(lds.Class{Name: name, From: netip.MustParsePrefix("10.0.1.0/24"), To: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(2 + i)}), 24)})
		p.Begin(1)
		add(t, s, record.Header{Kind: record.LDS, Switch: 1, Instance: uint16(1<<15 | 2*i), Start: 1 << 30, Span: 1 << 30}, p.AppendBinary)
	}
	s.Sort()
	e := &Engine{Store: s}
	for text, want := range map[string]string{"b": "", "b/blue": "", "b/10.0.1.0/24 > 10.0.3.0/24": "", "b/blue out": "", "b/green": `switch b has no class "green": those that it measured are "10.0.1.0/24 > 10.0.3.0/24", "blue"`} {
		if _, err := e.ParsePlace(text); (want == "") != (err == nil) || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
