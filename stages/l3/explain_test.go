package l3

import (
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline"
)

// TestTrace: the packet's way in words.
func TestTrace(t *testing.T) {
	c := testConfig()
	c.Routes[0] = Route{Prefix: "10.9.0.0/16", Via: []string{"10.0.2.2", "10.0.3.2"}}
	b := newBench(t, c)
	tracer := pipeline.NewTracer(10, nil)
	b.graph.SetTracer(tracer)
	for _, data := range [][]byte{
		udp(t, "10.0.1.2", "10.9.8.7", 9, 10), udp(t, "fd00:1::2", "fd09::1", 9, 10), udp(t, "10.0.1.2", "10.0.3.2", 9, 10),
		udp(t, "10.0.1.2", "10.9.8.7", 1, 10), arpFrame(t, broadcastMAC, hostMAC, 1, "10.0.1.2", make([]byte, 6), "10.0.1.1"),
	} {
		b.run(in{0, data})
	}
	for i, want := range []string{
		"10.0.1.2 to 10.9.8.7: 10.9.0.0/16, via 10.0.", "fd00:1::2 to fd09::1: fd09::/32, via fd00:2::2, leaves by p1 to 02:aa:00:00:02:02 with TTL 8",
		"10.0.1.2 to 10.0.3.2: on link, leaves by p2", "10.0.1.2 to 10.9.8.7; dropped: ttl_expired", "ARP of 10.0.1.2 about 10.0.1.1; consumed",
	} {
		steps := tracer.Traces()[i].Steps
		if len(steps) != 2 || !strings.HasPrefix(steps[1].Text, want) {
			t.Errorf("%+v, want %q", steps, want)
		}
	}
	if text := tracer.Traces()[0].Steps[1].Text; !strings.Contains(text, " of 2), leaves by p") {
		t.Error(text)
	}
}
