package main

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/traffic"
)

// connectionsVariable is how many connections are taken over in TestTakeoverManyConnections, which measures with a million.
const connectionsVariable = "WEIR_TAKEOVER_CONNECTIONS"

// flows are packets of UDP, of so many flows from one host to the other, or, reversed, their answers.
func flows(n int, order traffic.Order, reversed bool) traffic.Workload {
	w := traffic.DefaultWorkload()
	w.Sizes = traffic.Fixed(128)
	w.Source.Net, w.Destination.Net = netip.MustParsePrefix("10.16.0.0/12"), netip.MustParsePrefix("198.18.0.0/15")
	w.Flows, w.Order, w.Reversed = n, order, reversed
	return w
}

// sendFlows sends a workload, and waits until all has arrived, or no more comes.
func sendFlows(t *testing.T, w traffic.Workload, from, to *netnstest.Host, rate float64, count uint64, during func(sending func() bool)) (sent, received uint64) {
	t.Helper()
	sink, err := traffic.NewPacketSink(traffic.Port{Namespace: to.NS, Interface: to.Interface}, w, traffic.DefaultSinkOptions())
	must(t, err)
	defer sink.Close()
	source, err := traffic.NewPacketSource(traffic.Port{Namespace: from.NS, Interface: from.Interface}, w)
	must(t, err)
	defer source.Close()
	done := make(chan error, 1)
	go func() {
		s, err := source.Run(t.Context(), traffic.Load{Rate: rate, Count: count})
		sent = s.Packets
		done <- err
	}()
	if during != nil {
		during(func() bool { return len(done) == 0 })
	}
	must(t, <-done)
	for quiet := 0; quiet < 20 && received < sent; time.Sleep(50 * time.Millisecond) {
		r, err := sink.Report()
		must(t, err)
		if r.Overflow != 0 {
			t.Skipf("the sink itself lost %d packets: the machine is too busy", r.Overflow)
		}
		if quiet++; r.Unique() != received {
			quiet, received = 0, r.Unique()
		}
	}
	return sent, received
}

// TestTakeoverManyConnections: a switch follows many connections from inside, and permits to the inside what belongs to one alone, while processes take it over from each other. Answers of
// connections at random pass before, meanwhile and afterwards, and other packets do not.
func TestTakeoverManyConnections(t *testing.T) {
	n, sample, rate := 20_000, uint64(2_000), 1e3
	if text := os.Getenv(connectionsVariable); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		must(t, err)
		sample, rate = 20_000, 2e3
	}
	if testing.Short() && n == 20_000 {
		t.Skip("it takes many seconds")
	}
	b := newTestbed(t, 0)
	config := b.config(t, "s1", append(slices.Clone(takeable), "audit = true", "audit = false", `"parse", "patch"`, `"parse", "conntrack", "patch"`, "[stages.patch]", fmt.Sprintf(`[stages.conntrack]
connections = %d
[stages.conntrack.timeouts]
udp = "2h"
udp_stream = "2h"
[[stages.conntrack.group]]
name = "inside"
ports = ["p0"]
default = "permit"
share = %d
[[stages.conntrack.group]]
name = "outside"
ports = ["p1"]
default = "deny"
[stages.patch]`, n+n/2, n+n/4))...)
	p := b.start(t, config)
	inside, outside := b.hosts[0], b.hosts[1]
	have := func() int { return int(b.connections(t)) }
	begun := time.Now()
	for rate := 40e3; have() < n; rate /= 2 { // once more what was lost, for want of the processor
		if rate < 1e3 {
			t.Fatalf("%d of %d connections have begun", have(), n)
		}
		sendFlows(t, flows(n, traffic.RoundRobin, false), inside, outside, rate, uint64(n), nil)
	}
	filled := time.Since(begun)
	if have() != n {
		t.Fatalf("%d connections, and not %d", have(), n)
	}
	answers := flows(n, traffic.Uniform, true)
	others := flows(n, traffic.Uniform, true)
	others.Source.Net = netip.MustParsePrefix("10.32.0.0/12")
	check := func(when string) {
		t.Helper()
		if sent, received := sendFlows(t, answers, outside, inside, rate, sample, nil); received != sent {
			t.Errorf("%s: %d of %d answers of connections at random arrive", when, received, sent)
		}
		if sent, received := sendFlows(t, others, outside, inside, rate, 500, nil); received != 0 {
			t.Errorf("%s: %d of %d packets of no connection arrive", when, received, sent)
		}
	}
	check("before")
	var blocked []time.Duration
	var missed uint64 // what p1's rings had no room for, as a worker did not get the processor
	count := func(p *process) {
		p.kept(t)
		port := p.queues(t)[1]
		missed += port.RingFull + port.NoFrame
		for reason, k := range port.Dropped {
			if reason != "ct_denied" {
				t.Errorf("%d answers are dropped for %s", k, reason)
			}
		}
	}
	takeOver := func() {
		old := p
		p = b.takeOver(t, config, old)
		count(old)
		blocked = append(blocked, p.blocked(t))
		fmt.Printf("takeover with %d connections: blocked for %v\n", n, p.blocked(t))
	}
	for range 3 {
		takeOver()
	}
	check("after takeovers in quiet")
	var sent, received uint64
	during := false
	sent, received = sendFlows(t, answers, outside, inside, rate, 4*sample, func(sending func() bool) {
		for range 5 {
			takeOver()
		}
		during = sending()
	})
	check("after takeovers under load")
	if got := have(); got != n {
		t.Errorf("%d connections afterwards, and not %d", got, n)
	}
	if status := p.stop(t); status != 0 {
		t.Errorf("the last process ended with %d: %s", status, &p.stderr)
	}
	count(p)
	if lost := sent - received; lost > missed {
		t.Errorf("%d of %d answers are lost during takeovers, and %d are counted", lost, sent, missed)
	}
	slices.Sort(blocked)
	fmt.Printf("%d takeovers with %d connections (begun in %v), 5 of them under %.0f answers/s of connections at random (until the last: %v): lost %d of %d (%d counted in rx_no_frame and rx_ring_full); all of %d before and afterwards arrive; blocked for %v to %v, median %v\n",
		len(blocked), n, filled.Round(time.Second), rate, during, sent-received, sent, missed, 3*sample, blocked[0], blocked[len(blocked)-1], blocked[len(blocked)/2])
	b.checkClean(t)
}
