package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/telemetry/lds"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

const members = 4

// divided are the stores of collectors that share the digests of a store.
func divided(whole *store.Store) (list [members]*store.Store) {
	for i := range list {
		own := *whole
		own.Batches = slices.DeleteFunc(slices.Clone(whole.Batches), func(b *store.Batch) bool { return int(b.Instance)%members != i })
		own.Freeze()
		list[i] = &own
	}
	return list
}

// joined is what a member of a set asks: its own store with what the others have of what the question needs, on their way in pages; those
// of dead members cannot be had.
func joinedView(t testing.TB, all [members]*store.Store, own int, e *Engine, q *Question, dead ...int) *Engine {
	t.Helper()
	u := *e
	u.Store = all[own]
	needs := u.Needs(q)
	var parts []store.Elsewhere
	for _, p := range needs.Partitions {
		holder := p % members
		if holder == own {
			continue
		}
		x := store.Elsewhere{Part: store.Part{Partition: p}, Holder: fmt.Sprint(holder)}
		if slices.Contains(dead, holder) {
			x.Unreached = "it was killed"
			parts = append(parts, x)
			continue
		}
		text, err := json.Marshal(all[holder].Part(p, needs.Window, needs.Sinks))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &x.Part); err != nil {
			t.Fatal(err)
		}
		if err := x.Validate(); err != nil {
			t.Fatal(err)
		}
		of := store.PartQuery{Partition: p, Window: needs.Window, Most: 5000, Only: needs.Only}
		if needs.Flows != nil {
			if of.Has, err = needs.Flows.Has(); err != nil {
				t.Fatal(err)
			}
		}
		for more := needs.Batches; more; {
			var page []byte
			page, of.After, more = all[holder].AppendPart(nil, of)
			if _, err := x.Add(page); err != nil {
				t.Fatal(err)
			}
		}
		parts = append(parts, x)
	}
	u.Store = u.Store.With(parts)
	return &u
}

// setNetwork is traffic with all kinds of records: of digests a record is lost, and some packets loop.
func setNetwork(t testing.TB) *sinks {
	n := newTraffic(t)
	s := newSinks(t, pintplan.Default())
	s.store = n.store
	for i := range 24 * testFlows {
		k := key(i % testFlows)
		s.send(k, int64(i)*(3<<epochBits)/(24*testFlows), way(k)...)
	}
	for i := range 400 {
		o := *s.send(key(i%7), int64(i)*(3<<epochBits)/400, 1, 2, 3)
		s.loops = append(s.loops, o)
	}
	const interval = 1 << epochBits
	config := lds.Config{Rows: 4, Columns: 500, Virtual: 5, IntervalNs: interval, Seed: 2}
	for number := int64(0); number < 3; number++ {
		for i, at := range []struct {
			sw       uint32
			instance uint16
		}{{1, 1}, {2, 0}, {2, 3}, {3, 0}} {
			p, err := lds.NewPoint(config)
			if err != nil {
				t.Fatal(err)
			}
			p.Begin(number)
			for k := range int64(2000) {
				p.Add(Hash(0, key(2), 5), uint64(k)+7, number*interval+k*200_000+int64(i)*1000, 100)
			}
			add(t, n.store, record.Header{Kind: record.LDS, Switch: at.sw, Instance: at.instance, Start: number * interval, Span: interval}, p.AppendBinary)
		}
	}
	s.flush(t, func(slice int64, partition int) bool { return slice == 4 && partition == 6 })
	return s
}

// setQuestions are of each kind.
func setQuestions() (list []Question) {
	const second = 1 << epochBits
	for _, k := range Kinds() {
		for _, w := range []Question{{}, {Start: second, End: 2 * second}, {Last: time.Second}} {
			q := Question{Kind: k, Last: w.Last, Start: w.Start, End: w.End}
			flow := FormatKey(key(2))
			switch k {
			case KindFrequency:
				q.Flow = flow
			case KindDelay, KindLoss:
				q.From, q.To = "b", "d"
				list = append(list, q)
				q.Flow, q.Segments = flow, true
			case KindPath, KindLatency, KindCongestion, KindLoops:
				list = append(list, q)
				q.Src = "10.0.0.16/28"
				list = append(list, q)
				for _, i := range []int{2, 9, 31, 1000} {
					q.Src, q.Flow = "", FormatKey(key(i))
					list = append(list, q)
				}
			case KindHeavyHitters:
				list = append(list, q)
				q.By, q.Theta = BySketch, 0.01
			}
			list = append(list, q)
			if k.HasSeries() && k != KindNetwork {
				q.Step, q.Segments = 700*time.Millisecond, false
				list = append(list, q)
			}
		}
	}
	return list
}

// TestSetAnswersAsOne: each member of a set gives the answer of a collector that has all records, to each question.
func TestSetAnswersAsOne(t *testing.T) {
	n := setNetwork(t)
	condensed := newSinks(t, pintplan.Default())
	for i := range 20_000 {
		f := i % 60
		condensed.send(key(f), int64(i)*(3<<epochBits)/20_000, route3(f)...)
	}
	for name, whole := range map[string]*store.Store{"all digests": n.store, "condensed": condensed.condensed(t, 2, 40).store} {
		whole.Freeze()
		e := &Engine{Store: whole, Plans: []*pintplan.Plan{n.plan}, FlowSeed: 5, Now: 3<<epochBits + 1}
		all, answered := divided(whole), map[Kind]int{}
		for i, q := range setQuestions() {
			if testing.Short() && i%3 != 0 {
				continue
			}
			want, wantErr := e.Ask(context.Background(), &q)
			own := i % members
			got, err := joinedView(t, all, own, e, &q).Ask(context.Background(), &q)
			if fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("%s, member %d: %+v: %v, one collector says %v", name, own, q, err, wantErr)
				continue
			}
			if wantErr != nil {
				continue
			}
			answered[q.Kind]++
			a, b := asText(t, got), asText(t, want)
			if a != b && !fewerPaths(got, want) {
				at := 0
				for at < min(len(a), len(b)) && a[at] == b[at] {
					at++
				}
				t.Errorf("%s, member %d: %+v: answers differ at %q, one collector says %q", name, own, q, a[at:min(at+300, len(a))], b[at:min(at+300, len(b))])
			}
		}
		t.Logf("%s: answers by kind: %v", name, answered)
		for _, k := range Kinds() {
			if answered[k] == 0 && k != KindNetwork && name == "all digests" && !testing.Short() {
				t.Errorf("%s: no question of kind %s has an answer", name, k)
			}
		}
	}
}

// fewerPaths reports whether an answer of fragments differs from another one by paths of flows whose digests are of other times alone:
// members fetch those of the window.
func fewerPaths(got, want any) bool {
	switch a := got.(type) {
	case *HeavyHitters:
		b := want.(*HeavyHitters)
		few := *a
		few.Unlocated = b.Unlocated
		return a.Unlocated > b.Unlocated && reflect.DeepEqual(&few, b)
	case *Entropy:
		b := want.(*Entropy)
		return a.Candidates == b.Candidates && a.Unlocated > b.Unlocated && a.Bits.Holds(b.Bits.Value) && a.F2.Holds(b.F2.Value)
	case *Target:
		b := want.(*Target)
		few := *a
		few.Paths = b.Paths
		return a.Paths < b.Paths && reflect.DeepEqual(&few, b)
	case *Series:
		b := want.(*Series)
		return a.Of == KindEntropy && len(a.Points) == len(b.Points) && slices.EqualFunc(a.Points, b.Points, func(x, y SeriesPoint) bool {
			return x.Window == y.Window && x.Fault == y.Fault && (len(x.Values) == 0 || x.Values[0].Holds(y.Values[0].Value))
		})
	}
	return false
}

func asText(t testing.TB, a any) string {
	t.Helper()
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSetMemberDead: what a member that cannot be asked has is named, answers say of which flows they are, flows of its partitions
// have none, and bounds hold what all records say.
func TestSetMemberDead(t *testing.T) {
	n := setNetwork(t)
	n.store.Freeze()
	all := divided(n.store)
	e := &Engine{Store: n.store, Plans: []*pintplan.Plan{n.plan}, FlowSeed: 5}
	const dead = 2
	askDead := func(q *Question) (any, error) { return joinedView(t, all, 0, e, q, dead).Ask(context.Background(), q) }
	lacks := func(missing []store.Missing) (list []int) {
		for _, m := range missing {
			if m.Unreached != "" {
				list = append(list, int(m.Instance))
			}
		}
		return list
	}
	theirs := []int{2, 6, 10, 14}
	for _, q := range []Question{{Kind: KindPath}, {Kind: KindLatency}, {Kind: KindCongestion}, {Kind: KindLoops}} {
		a, err := askDead(&q)
		if err != nil {
			t.Fatalf("%s: %v", q.Kind, err)
		}
		var b *Basis
		of := ""
		switch a := a.(type) {
		case *PathAnswer:
			b, of = &a.Basis, a.Of
			one := ask[*PathAnswer](t, e, &q)
			for _, f := range a.Flows {
				i := slices.IndexFunc(one.Flows, func(o FlowPath) bool { return o.Flow == f.Flow })
				if i < 0 || asText(t, one.Flows[i]) != asText(t, f) {
					t.Errorf("flow %s: %+v", f.Flow, f)
				}
			}
			if len(a.Flows) == 0 || len(a.Flows) >= len(one.Flows) {
				t.Errorf("%d of %d flows", len(a.Flows), len(one.Flows))
			}
		case *LatencyAnswer:
			b, of = &a.Basis, a.Of
		case *CongestionAnswer:
			b, of = &a.Basis, a.Of
		case *LoopsAnswer:
			b, of = &a.Basis, a.Of
		}
		if !slices.Equal(lacks(b.Missing), theirs) || of != "all flows, but those of partitions 2, 6, 10, 14" {
			t.Errorf("%s: missing %+v, of %q", q.Kind, b.Missing, of)
		}
	}
	for i := range 40 {
		q := Question{Kind: KindPath, Flow: FormatKey(key(i))}
		partition, _ := e.partition(&q)
		_, err := askDead(&q)
		if lost := partition%members == dead; lost != errors.Is(err, ErrUnreached) || lost && !strings.Contains(err.Error(), fmt.Sprintf("partition %d: it was killed", partition)) {
			t.Errorf("flow %d of partition %d: %v", i, partition, err)
		}
	}
	whole := ask[*Entropy](t, e, &Question{Kind: KindEntropy})
	a, err := askDead(&Question{Kind: KindEntropy})
	if err != nil {
		t.Fatal(err)
	}
	h := a.(*Entropy)
	if !slices.Equal(lacks(h.Missing), theirs) || h.Unlocated == 0 || !h.Bits.Holds(whole.Bits.Value) || !h.Flows.Holds(whole.Flows.Value) || !h.F2.Holds(whole.F2.Value) {
		t.Errorf("%+v, with all records %+v", h, whole)
	}
	if v, err := askDead(&Question{Kind: KindVolume}); err != nil || asText(t, v) != asText(t, ask[*Volume](t, e, &Question{Kind: KindVolume})) {
		t.Errorf("a question that needs no digests: %+v, %v", v, err)
	}
}
