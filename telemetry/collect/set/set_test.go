package set

import (
	"fmt"
	"math"
	"testing"

	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// TestAssign: each member finds the same plan, none has more than its share, and few partitions move when a member comes.
func TestAssign(t *testing.T) {
	moved, least := 0, 0
	for n := 1; n <= 2*record.Partitions; n++ {
		var names, reversed []string
		for i := range n {
			names = append(names, fmt.Sprint("collector-", i))
			reversed = append([]string{names[i]}, reversed...)
		}
		owners, load := assign(names), map[string]int{}
		if owners != assign(reversed) {
			t.Fatalf("%d members: the plan depends on their order", n)
		}
		for _, name := range owners {
			load[name]++
		}
		for name, k := range load {
			if name == "" || k > (record.Partitions+n-1)/n {
				t.Errorf("%d members: %q has %d partitions", n, name, k)
			}
		}
		if n <= record.Partitions/2 {
			for i, name := range assign(append(names, "another")) {
				if name != owners[i] {
					moved++
				}
			}
			least += record.Partitions / (n + 1)
		}
	}
	if moved > 2*least {
		t.Errorf("%d partitions move where members come, %d would be enough", moved, least)
	}
	if owners := assign(nil); owners[0] != "" {
		t.Errorf("no member has %q", owners[0])
	}
}

// TestKeepUntilServed: a member gives a partition up only to an owner that answers for it and knows of the same members. What the owner
// said before it knew that this member leaves may be of a time when it was about to give the partition to this one.
func TestKeepUntilServed(t *testing.T) {
	all := collect.Mask(1<<record.Partitions - 1)
	a, b := hello{Name: "a", Boot: 1, Holds: all}, hello{Name: "b", Boot: 2}
	of := func(self hello, others ...hello) (list []*member, view uint64) {
		for i := range others {
			list = append(list, &member{hello: others[i]})
		}
		return list, viewOf(list, &self)
	}
	_, a.View = of(a, b)
	leaving := b
	leaving.Leaving = true
	owners := assign([]string{"a"}) // as b leaves
	others, view := of(leaving, a)
	if got := toRead("b", &owners, all, servedBy(others, view)); got != all {
		t.Errorf("gives up %v to an owner that does not know that it leaves", all&^got)
	}
	_, a.View = of(a, leaving)
	others, view = of(leaving, a)
	if got := toRead("b", &owners, all, servedBy(others, view)); got != 0 {
		t.Errorf("keeps %v that their owner answers for", got)
	}
	a.Holds = 1
	others, view = of(leaving, a)
	if got := toRead("b", &owners, all, servedBy(others, view)); got != all&^1 {
		t.Errorf("keeps %v of all but one that the owner does not answer for", got)
	}
	if _, again := of(hello{Name: "b", Boot: 3}, a); again == view {
		t.Error("a member that began anew is in the same view")
	}
}

// TestAnswers: an answer is read as it was written, and what is none is refused.
func TestAnswers(t *testing.T) {
	h := &head{Version: version, Collector: "c1", Part: &store.Part{Partition: 3, Gaps: []store.PartGap{{Switch: 1, Boot: math.MaxUint64}}}, After: store.Mark{Set: true, From: -5, Boot: math.MaxUint64}, More: true}
	b, err := appendHead(nil, h)
	if err != nil {
		t.Fatal(err)
	}
	got, records, err := parseAnswer(append(b, "records"...), 3)
	if err != nil || string(records) != "records" || got.After != h.After || got.Part.Gaps[0] != h.Part.Gaps[0] || !got.More {
		t.Errorf("%+v, %q, %v", got, records, err)
	}
	for i := range b {
		if _, _, err := parseAnswer(b[:i], 3); err == nil {
			t.Fatalf("%d of %d bytes are an answer", i, len(b))
		}
	}
	if _, _, err := parseAnswer(b, 4); err == nil {
		t.Error("the answer is of another partition")
	}
	for subject, want := range map[string]int{jetstream.Digests(15): 15, jetstream.Digests(16): -1, "weir.digests.-1": -1, "weir.digests.01": -1, "weir.records.1": -1, "weir.digests.": -1} {
		if n, ok := partitionOf(subject); ok != (want >= 0) || ok && n != want {
			t.Errorf("%s: %d, %v", subject, n, ok)
		}
	}
}

// FuzzRequest: whatever comes is a request within bounds, or refused.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"v":1,"window":{"from_ns":1,"to_ns":2},"after":{"set":true},"batches":true,"sinks":true,"flows":{"prefix":"10.0.0.0/8"},"only":true}`))
	f.Add([]byte(`{"v":1,"flows":{"kind":"path","limit":7,"quantiles":[0.5]}}{`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRequest(data)
		if err != nil {
			return
		}
		if r.Version != version || r.Window.From > r.Window.To {
			t.Errorf("%+v", r)
		}
		if r.Flows != nil {
			if len(r.Flows.Quantiles) != 0 || r.Flows.Kind != "" {
				t.Errorf("fields that say nothing of flows: %+v", r.Flows)
			}
			_, _ = r.Flows.Has()
		}
	})
}

// FuzzAnswer: whatever comes, a part is valid or there is none.
func FuzzAnswer(f *testing.F) {
	b, _ := appendHead(nil, &head{Version: version, Part: &store.Part{Partition: 2}})
	f.Add(b)
	f.Fuzz(func(t *testing.T, data []byte) {
		h, records, err := parseAnswer(data, 2)
		if err == nil && (h.Part != nil && (h.Part.Validate() != nil || h.Part.Partition != 2) || len(records) >= len(data)) {
			t.Errorf("%+v", h)
		}
	})
}
