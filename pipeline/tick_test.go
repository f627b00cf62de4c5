package pipeline

import (
	"slices"
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
)

// ticker is a stage that wants to be called every period.
type ticker struct {
	module
	period   int64
	calls    []int64
	finished []int64
}

func (k *ticker) Stage(int) Stage { return k }
func (k *ticker) Tick(now int64) int64 {
	k.calls = append(k.calls, now)
	return now + k.period
}
func (k *ticker) Finish(now int64) { k.finished = append(k.finished, now) }

func TestTickers(t *testing.T) {
	often, seldom := &ticker{period: 10}, &ticker{period: 100}
	often.process, seldom.process = nothing, nothing
	often.role, seldom.role = RoleIngress, RoleEgress
	g := NewGraph([]Named{
		{"parse", module{role: RoleParse, process: nothing}}, {"often", often},
		{"patch", module{role: RoleForward, process: nothing}}, {"seldom", seldom},
	}, 0)
	var rounds []int64
	g.OnTick(func(now int64) { rounds = append(rounds, now) })
	b := &packet.Batch{}
	for _, now := range []int64{5, 6, 14, 15, 104, 105, 50, 55, 60} {
		b.Now = now
		g.Run(b)
	}
	if want := []int64{5, 15, 104, 50, 60}; !slices.Equal(often.calls, want) {
		t.Errorf("the ticker of 10 was called at %v, want %v", often.calls, want)
	}
	if want := []int64{5, 105, 50}; !slices.Equal(seldom.calls, want) {
		t.Errorf("the ticker of 100 was called at %v, want %v", seldom.calls, want)
	}
	if want := []int64{5, 15, 104, 105, 50, 60}; !slices.Equal(rounds, want) {
		t.Errorf("rounds at %v, want %v", rounds, want)
	}
	if g.NextTick() != 70 {
		t.Errorf("next at %d", g.NextTick())
	}
	g.Finish(61)
	if !slices.Equal(often.finished, []int64{61}) || !slices.Equal(seldom.finished, []int64{61}) {
		t.Errorf("finished %v and %v", often.finished, seldom.finished)
	}
}

func TestNoTickers(t *testing.T) {
	g := NewGraph([]Named{{"patch", module{role: RoleForward, process: nothing}}}, 0)
	if g.NextTick() != never {
		t.Fatalf("next at %d", g.NextTick())
	}
	g.OnTick(func(int64) { t.Error("a round without tickers") })
	g.Tick(5)
	g.Finish(6)
}
