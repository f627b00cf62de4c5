// Package traffictest sends numbered packets through what a test runs, and counts them at
// the other side.
package traffictest

import (
	"net/netip"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/traffic"
)

// Load is numbered packets from one host to others, from 198.18.0.0/16 to 198.19.0.0/16.
type Load struct {
	Sinks []*traffic.PacketSink // by receiving host
	ended chan struct{}
	sent  traffic.Sent
}

// Start sends count packets of a size, in bytes with FCS, at a rate per second.
func Start(t testing.TB, from *netnstest.Host, to []*netnstest.Host, size int, rate float64, count uint64) *Load {
	t.Helper()
	w := traffic.DefaultWorkload()
	w.Sizes = traffic.Fixed(size)
	w.Source.Net, w.Destination.Net = netip.MustParsePrefix("198.18.0.0/16"), netip.MustParsePrefix("198.19.0.0/16")
	l := &Load{ended: make(chan struct{})}
	for _, host := range to {
		sink, err := traffic.NewPacketSink(traffic.Port{Namespace: host.NS, Interface: host.Interface}, w, traffic.DefaultSinkOptions())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sink.Close() })
		l.Sinks = append(l.Sinks, sink)
	}
	source, err := traffic.NewPacketSource(traffic.Port{Namespace: from.NS, Interface: from.Interface}, w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	go func() {
		defer close(l.ended)
		var err error
		if l.sent, err = source.Run(t.Context(), traffic.Load{Rate: rate, Count: count}); err != nil {
			t.Error(err)
		}
	}()
	return l
}

// Ended reports whether all packets were sent.
func (l *Load) Ended() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// Wait waits until all packets were sent, and returns how many.
func (l *Load) Wait() (sent uint64) {
	<-l.ended
	return l.sent.Packets
}

// Received waits until all packets were sent and have arrived, and returns how many
// arrived at each receiving host, each packet once. It does not wait for packets that lost
// counts.
func (l *Load) Received(t testing.TB, lost ...func() uint64) (sent uint64, at []uint64) {
	t.Helper()
	sent = l.Wait()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		at = nil
		sum := uint64(0)
		for _, sink := range l.Sinks {
			report, err := sink.Report()
			if err != nil {
				t.Fatal(err)
			}
			if report.Overflow != 0 {
				t.Skipf("the sink itself lost %d packets: the machine is too busy", report.Overflow)
			}
			at = append(at, report.Unique())
			sum += report.Unique()
		}
		for _, f := range lost {
			sum += f()
		}
		if sum >= sent || time.Now().After(deadline) {
			return sent, at
		}
	}
}
