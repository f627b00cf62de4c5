package ttlguard

import (
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

func TestProcess(t *testing.T) {
	m, err := New(Config{MinTTL: 64}, pipeline.Env{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 1, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	stage, batch := m.Stage(0), packet.NewBatch(pool.NewCache(), 64)
	for ttl := range 64 {
		p := batch.Append()
		p.Flags, p.TTL = packet.FlagIPv4, uint8(32+ttl)
	}
	stage.Process(batch)
	for i := range batch.Pkts {
		p := &batch.Pkts[i]
		if dropped := p.Reason == ReasonTTL; dropped != (p.TTL < 64) {
			t.Errorf("TTL %d: dropped %v", p.TTL, dropped)
		}
	}
	if n := testing.AllocsPerRun(100, func() { stage.Process(batch) }); n != 0 {
		t.Errorf("%v allocations per batch", n)
	}
}
