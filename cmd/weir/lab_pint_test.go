package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPintChain: real TCP, UDP, ICMP and fragments, of both IP versions, pass
// five switches in shims. Hosts receive each frame as it was sent, the sinks
// decode the right path of every flow with at least 60 packets, and the median
// latency of each hop, over the packets of all flows, is within 10 % of what the hop's
// switch has measured itself.
func TestPintChain(t *testing.T) {
	l := newPintLab(t, chainOfFive(`["parse", "l2", "pint"]`, "records = 262144", false), flatAddresses)
	l.traffic(2 << 20)
	l.settle()
	for i := range 2 {
		l.compare(i, func(f []byte) []byte { return f })
		l.seen[i].stop()
	}
	path := []uint64{1, 2, 3, 4, 5}
	l.awaitPaths("s5", 6, 60) // TCP, UDP, ICMP, each over IPv4 and IPv6
	l.checkPaths("s5", path, 60)
	l.checkLatency("s")
	l.checkPaths("s5", path, 60)
	slices.Reverse(path)
	l.checkPaths("s1", path, 60)
}

// TestPintIPID: the same over five routers, with digests in the identification
// of IPv4. What is not an atomic datagram passes alone. Then a router takes
// another next hop, and the sink notices. Where only identifications of zero carry digests, that is
// not TCP's, and too few packets do for latencies.
func TestPintIPID(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "ipid.toml")
	writePlan(t, plan)
	for _, identification := range []string{"any", "zero"} {
		if testing.Short() && identification == "zero" {
			break
		}
		t.Run(identification, func(t *testing.T) { testPintRouters(t, plan, identification) })
	}
}

// TestPintRouters: the same in shims, which carry IPv6 and fragments too.
func TestPintRouters(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: TestPintIPID has the same routers")
	}
	testPintRouters(t, "", "zero")
}

func testPintRouters(t *testing.T, plan, identification string) {
	// Packets that wait for a neighbour carry no digest: let all know each other.
	l := newPintLab(t, diamondOfRouters(plan, identification), [2][2]string{{"10.0.1.2", "fd00:1::2"}, {"10.0.9.2", "fd00:9::2"}})
	l.ping(4, 3)
	l.ping(6, 3)
	l.settle()
	l.seen[0].forget()
	l.seen[1].forget()
	l.traffic(4 << 20)
	l.settle()
	for i := range 2 {
		l.compare(i, func(f []byte) []byte { return routed(f, 5, identification == "any") })
	}
	want := 6 // TCP, UDP and ICMP, over IPv4 and IPv6
	if plan != "" {
		want = map[string]int{"any": 3, "zero": 1}[identification] // of IPv4; Linux numbers all but UDP
	}
	l.awaitPaths("r5", want, 60)
	l.checkPaths("r5", []uint64{1, 2, 3, 4, 5}, 60)
	if plan != "" && identification == "zero" {
		return
	}
	for i := range 2 {
		l.seen[i].stop()
	}
	l.checkLatency("r")
	l.restart("r2", "10.0.23.3", "10.0.26.6")
	noticed, changed := false, labPath{}
	// On a busy machine some of the first packets may still go the old way, or wait for a neighbour without a digest.
	for tries := 0; tries < 5 && !noticed; tries++ {
		l.udp(4, 300, 100)
		l.settle()
		for range 20 {
			for _, p := range l.paths("r5") {
				if strings.Contains(p.Flow, fmt.Sprintf(":%d > 10.0.9.2:%d udp", udpFrom, udpTo)) {
					changed = p
					noticed = p.Certain && p.Changes == 1 && slices.Equal(p.Path, []uint64{1, 2, 6, 4, 5})
				}
			}
			if noticed {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	t.Logf("behind the restart: %+v", changed)
	if !noticed {
		t.Errorf("the sink did not notice that router 2 goes by 6")
	}
}
