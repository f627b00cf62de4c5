package lacp

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// handOver has another aggregator go on in the place of a rig's a, as another process would.
func (r *rig) handOver(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(r.a.State(r.now))
	if err != nil {
		t.Fatal(err)
	}
	var s AggregatorState
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	a, err := Restore(s, r.a.Fast, r.now)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	r.a = a
	for i, c := range r.cables {
		c.a = a.Ports[i]
	}
}

// TestHandOver: an aggregator that is handed over all the time does what one does that is not, through losses, cuts, and partners that come and go.
func TestHandOver(t *testing.T) {
	twins := [2]*rig{newRig(3), newRig(3)}
	random := rand.New(rand.NewPCG(7, 8))
	joined := uint64(0)
	for step := range 4_000 {
		act, cable, loss := random.IntN(120), random.IntN(3), random.Float64()/2
		for i, r := range twins {
			c := r.cables[cable]
			switch act {
			case 0:
				c.cut = !c.cut
			case 1:
				c.deaf = !c.deaf
			case 2:
				up := c.a.Rx == PortDisabled
				c.a.SetUp(up, r.now)
				c.b.SetUp(up, r.now)
			case 3:
				r.loss = loss
			case 4, 5:
				r.loss, c.cut, c.deaf = 0, false, false
			case 6:
				c.a.Receive(append([]byte{SubtypeMarker, 1, 1, 16}, make([]byte, Length-4)...), r.now)
			case 7:
				c.a.Receive((&PDU{Actor: Participant{System: System{1, [6]byte{2, 3}}, Key: uint16(step), State: 0xff}, Partner: c.a.Actor}).Append(nil), r.now)
			}
			if i == 1 {
				r.handOver(t)
			}
			r.run(tick)
		}
		var texts [2]string
		for i, r := range twins {
			text, err := json.Marshal([]AggregatorState{r.a.State(r.now), r.b.State(r.now)})
			if err != nil {
				t.Fatal(err)
			}
			texts[i] = string(text)
		}
		if texts[0] != texts[1] {
			t.Fatalf("step %d:\n%s, handed over\n%s", step, texts[0], texts[1])
		}
	}
	for _, c := range twins[1].cables {
		joined += c.a.Joined
	}
	if joined < 20 {
		t.Errorf("ports came to carry packets %d times alone", joined)
	}
}

// TestRestoreRefuses: what no aggregator can be in is refused.
func TestRestoreRefuses(t *testing.T) {
	r := newRig(2)
	r.run(3 * AggregateWait)
	long := 2 * LongTime
	for _, c := range []struct {
		what, want string
		do         func(*AggregatorState)
	}{
		{"as it is", "", func(*AggregatorState) {}},
		{"no address", "no system's identity", func(s *AggregatorState) { s.System.MAC = [6]byte{} }},
		{"a group's address", "no system's identity", func(s *AggregatorState) { s.System.MAC[0] = 1 }},
		{"another system", "it is system", func(s *AggregatorState) { s.System.Priority++ }},
		{"another key", "it is system", func(s *AggregatorState) { s.Ports[0].Actor.Key++ }},
		{"no number", "it is system", func(s *AggregatorState) { s.Ports[0].Actor.Port = 0 }},
		{"numbers that are alike", "two ports have the number 1", func(s *AggregatorState) { s.Ports[1].Actor.Port = 1 }},
		{"no receive machine", "the states 4 and 4", func(s *AggregatorState) { s.Ports[0].Rx = Current + 1 }},
		{"no mux machine", "the states 3 and 5", func(s *AggregatorState) { s.Ports[0].Mux = MuxDistributing + 1 }},
		{"flags of another state", "states CURRENT and ATTACHED", func(s *AggregatorState) { s.Ports[0].Mux = Attached }},
		{"flags of another rate", "it is system", func(s *AggregatorState) { s.Ports[0].Actor.State &^= ShortTimeout }},
		{"a time to come", "current_while_timer has", func(s *AggregatorState) { s.Ports[0].Current = long }},
		{"a time that is negative", "wait_while_timer has -1ns", func(s *AggregatorState) { s.Ports[0].Wait = -1 }},
		{"a period", "periodic_timer has", func(s *AggregatorState) { s.Ports[0].Periodic = &long }},
		{"too many LACPDUs", "at most 3 can be", func(s *AggregatorState) { s.Ports[0].Sends = make([]time.Duration, 4) }},
		{"LACPDUs to come", "out of their second", func(s *AggregatorState) { s.Ports[0].Sends = []time.Duration{-1} }},
		{"LACPDUs out of order", "out of order", func(s *AggregatorState) { s.Ports[0].Sends = []time.Duration{1, 2} }},
	} {
		s := r.a.State(r.now)
		c.do(&s)
		_, err := Restore(s, r.a.Fast, r.now)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, and not %q", c.what, err, c.want)
		}
	}
}
