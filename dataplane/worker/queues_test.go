package worker

import (
	"fmt"
	"testing"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// TestCheckQueues: what is said before the start is what the start says, for ports of one to five queues.
func TestCheckQueues(t *testing.T) {
	refused := 0
	for workers := 1; workers <= 5; workers++ {
		for _, queues := range [][]int{{1}, {1, 1}, {2, 1}, {1, 1, 1}, {5, 1}, {3, 3}, {2, 2, 2}, {1, 3}} {
			pool, err := packet.NewPool(packet.PoolConfig{Frames: 1024, FrameSize: 2048})
			if err != nil {
				t.Fatal(err)
			}
			var ports []port.Port
			for i, n := range queues {
				ports = append(ports, port.NewMemory(fmt.Sprintf("p%d", i), n, nil, 0))
			}
			c := DefaultConfig()
			c.Count, c.Pin = workers, false
			s, started := New(c, Parts{Name: "test", Pool: pool, Ports: ports, Chain: []pipeline.Named{
				{Name: "mark", Module: mark{}}, {Name: "cross", Module: &cross{ports: len(ports)}},
			}})
			if s != nil {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			pool.Close()
			checked := CheckQueues(workers, queues)
			if fmt.Sprint(checked) != fmt.Sprint(started) {
				t.Errorf("%d workers, queues %v: checked: %v; started: %v", workers, queues, checked, started)
			}
			if checked != nil {
				refused++
			}
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}
