package store

import (
	"testing"

	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/status"
)

// TestTraffic: the newest record that counted a packet is known, whatever came after it without one, and in which order.
func TestTraffic(t *testing.T) {
	const interval = 1 << 30
	l, err := NewLive(LiveConfig{Bytes: 1 << 24})
	if err != nil {
		t.Fatal(err)
	}
	if at := l.Traffic(); at != 0 {
		t.Errorf("without a record: %d", at)
	}
	for _, r := range []struct {
		number  int64
		packets int
	}{{1, 3}, {3, 1}, {2, 5}, {4, 0}} {
		p, err := lds.NewPoint(lds.Config{Rows: 1, Columns: 8, Virtual: 1, IntervalNs: interval})
		if err != nil {
			t.Fatal(err)
		}
		p.Begin(r.number)
		for i := range r.packets {
			p.Add(uint64(i), uint64(i), r.number*interval, 100)
		}
		body, err := p.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Add(record.Header{Kind: record.LDS, Switch: 1, Start: r.number * interval, Span: interval}, body); got != Taken {
			t.Fatalf("interval %d: %v", r.number, got)
		}
	}
	body, err := (&status.Status{}).AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Add(record.Header{Kind: record.Status, Switch: 1, Start: 9 * interval, Span: interval}, body); got != Taken {
		t.Fatalf("a status: %v", got)
	}
	if at := l.Traffic(); at != 4*interval {
		t.Errorf("the last traffic ended at %d, want %d", at, 4*interval)
	}
}
