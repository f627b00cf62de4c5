package worker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// TestRestLetsGo: what stages keep between two batches leaves when the workers come to rest, so that all frames are in queues or free, and they go on afterwards.
func TestRestLetsGo(t *testing.T) {
	for workers := range 2 {
		workers++
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			pool, err := packet.NewPool(packet.PoolConfig{Frames: 4096, FrameSize: 2048, Audit: true})
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			var ports []port.Port
			for i := range 2 {
				m := port.NewMemory(fmt.Sprintf("p%d", i), workers, [][]byte{make([]byte, 60)}, 0)
				m.Stamp(numberAt)
				ports = append(ports, m)
			}
			log := &passed{finished: map[string]uint64{}, running: map[string]int{}}
			hold := &piece{name: "hold", role: pipeline.RoleEgress, log: log, ports: 2, large: true, do: holdSome}
			chain := []pipeline.Named{
				{Name: "parse", Module: &piece{name: "parse", role: pipeline.RoleParse, log: log, ports: 2, large: true}},
				{Name: "forward", Module: &piece{name: "forward", role: pipeline.RoleForward, log: log, ports: 2, large: true, do: forwardAll}},
				{Name: "hold", Module: hold},
			}
			c := DefaultConfig()
			c.Count, c.Pin = workers, false
			s, err := New(c, Parts{Name: "test", Pool: pool, Ports: ports, Chain: chain})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended, ready := make(chan error, 1), make(chan struct{})
			go func() { ended <- s.Run(ctx, func() { close(ready) }) }()
			<-ready
			kept := func(times int) {
				t.Helper()
				for deadline := time.Now().Add(time.Minute); log.held.Load() < int64(times*workers*mostHeld); time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("stages have kept %d packets", log.held.Load())
					}
				}
			}
			const times = 3
			for i := range times {
				kept(i + 1)
				release, err := s.Hold()
				if err != nil {
					t.Fatal(err)
				}
				rest, err := s.Rest(time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				for w, stage := range hold.stages {
					if len(stage.held) != 0 {
						t.Errorf("the stage of worker %d keeps %d packets at rest", w, len(stage.held))
					}
				}
				rest.End()
				release()
			}
			kept(times + 1)
			cancel()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			r := s.Report()
			if n := r.Copies.Dropped["shutdown"]; n != uint64(workers*mostHeld) || r.Copies.Forwarded != uint64(times*workers*mostHeld) {
				t.Errorf("%d packets that were kept have left, and %d were dropped at the end", r.Copies.Forwarded, n)
			}
			if !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
				t.Errorf("balanced %v, frames %+v, copies %+v", r.Balanced, r.Frames, r.Copies)
			}
		})
	}
}
