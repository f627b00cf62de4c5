package l3

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
)

// flows returns the flow hashes, as parse gives them, of n UDP flows of a client
// to a server, by source port.
func flows(f hash.Family, n int) []uint32 {
	all := make([]uint32, n)
	for i := range all {
		k := packet.FlowKey{SrcPort: uint16(10000 + i), DstPort: 80, Proto: 17, Version: 4}
		copy(k.Src[:], []byte{10, 0, 1, 2})
		copy(k.Dst[:], []byte{10, 0, 9, 2})
		w, _ := k.Words()
		all[i] = uint32(f.Uint64x2(0, w[0], w[1]))
	}
	return all
}

var families = []hash.Family{hash.XX, hash.CRC}

// TestSpread: 10,000 flows spread within 5 % of even over 2 to 4 next hops, for
// a hundred switches, in each family of hashes. The hash is fixed, so nothing here is luck; of a random
// one, 5 % is 5 standard deviations at 2 next hops, and 2.9 at 4, where the bound is
// five standard deviations.
func TestSpread(t *testing.T) {
	for _, f := range families {
		t.Run(f.String(), func(t *testing.T) { testSpread(t, f) })
	}
}

func testSpread(t *testing.T, f hash.Family) {
	all := flows(f, 10000)
	for n := 2; n <= 4; n++ {
		even := float64(len(all)) / float64(n)
		sigma := math.Sqrt(even * (1 - 1/float64(n)))
		for id := range uint32(100) {
			counts := make([]int, n)
			for _, h := range all {
				counts[Pick(f, h, id, n)]++
			}
			for _, got := range counts {
				if d := math.Abs(float64(got) - even); d > max(0.05*even, 5*sigma) {
					t.Errorf("switch %d, %d next hops: %v", id, n, counts)
				}
			}
		}
	}
}

// TestNoPolarisation: behind a switch that chose one of two, the next one
// chooses evenly again, whatever the two ids. Five standard deviations.
func TestNoPolarisation(t *testing.T) {
	for _, f := range families {
		t.Run(f.String(), func(t *testing.T) { testNoPolarisation(t, f) })
	}
}

func testNoPolarisation(t *testing.T, f hash.Family) {
	all := flows(f, 10000)
	for first := range uint32(20) {
		for second := first + 1; second < 20; second++ {
			n, right := 0, 0
			for _, h := range all {
				if Pick(f, h, first, 2) == 0 {
					n++
					right += Pick(f, h, second, 2)
				}
			}
			if d := math.Abs(float64(right) - float64(n)/2); d > 5*math.Sqrt(float64(n))/2 {
				t.Errorf("switch %d behind %d: %d of %d flows", second, first, right, n)
			}
		}
	}
}

// TestPickIsThePath: what leaves by which port is what Pick says, with weights;
// all packets of a flow leave by one.
func TestPickIsThePath(t *testing.T) {
	for _, f := range families {
		t.Run(f.String(), func(t *testing.T) { testPickIsThePath(t, f) })
	}
}

func testPickIsThePath(t *testing.T, f hash.Family) {
	c := testConfig()
	c.Routes = []Route{{Prefix: "10.9.0.0/16", Via: []string{"10.0.2.2", "10.0.3.2"}, Weights: []int{1, 3}}}
	env := testEnv(1)
	env.Hash = f
	b := newBenchOf(t, c, env)
	r := rand.New(rand.NewPCG(1, 1))
	ports := [4]uint16{1, 2, 2, 2}
	second := 0
	for range 4000 {
		data := udp(t, "10.0.1.2", net.IPv4(10, 9, byte(r.Uint32()), byte(r.Uint32())).String(), 9, 10)
		p := packet.Packet{Flags: packet.FlagIPv4 | packet.FlagPorts, L3: 14, SrcPort: 1000, DstPort: 2000, Proto: 17}
		w0, w1 := p.KeyWords4(data)
		want := ports[Pick(f, uint32(f.Uint64x2(0, w0, w1)), testID, 4)]
		if got := b.one(0, data); got.port != want {
			t.Fatalf("port %d, Pick says %d", got.port, want)
		}
		if want == 2 {
			second++
		}
	}
	if math.Abs(float64(second)-3000) > 5*math.Sqrt(4000*0.75*0.25) {
		t.Errorf("%d of 4000 by the gateway of weight 3 of 4", second)
	}
}

// Two switches choose for one flow, each by its own salt.
func ExamplePick() {
	const flowHash, nextHops = 0xdecafbad, 4
	fmt.Println(Pick(hash.XX, flowHash, 1, nextHops), Pick(hash.XX, flowHash, 2, nextHops))
	// Output: 1 3
}

// TestPickByPacket: with ecmp = "packet" packets of one flow leave by both gateways, each by that of its id, and as the weights say. The bound of
// five standard deviations fails by luck with a probability below 1e-6. What the parser computes cannot change while the switch runs.
func TestPickByPacket(t *testing.T) {
	c := testConfig()
	c.ECMP = ECMPPacket
	c.Routes = []Route{{Prefix: "10.9.0.0/16", Via: []string{"10.0.2.2", "10.0.3.2"}, Weights: []int{1, 3}}}
	env := testEnv(1)
	env.Needs |= packet.NeedID
	b := newBenchOf(t, c, env)
	if b.module.Needs()&packet.NeedID == 0 {
		t.Error("the parser is not asked for packets' ids")
	}
	second := 0
	for i := range 4000 {
		data := udp(t, "10.0.1.2", "10.9.1.1", 9, 10)
		binary.BigEndian.PutUint16(data[18:], uint16(i)) // the identification, which makes it another packet
		binary.BigEndian.PutUint16(data[24:], 0)
		binary.BigEndian.PutUint16(data[24:], header.Checksum(data[14:34]))
		if b.one(0, data).port == 2 {
			second++
		}
	}
	if math.Abs(float64(second)-3000) > 5*math.Sqrt(4000*0.75*0.25) {
		t.Errorf("%d of 4000 by the gateway of weight 3 of 4", second)
	}
	c.ECMP = ECMPFlow
	if _, err := b.module.Prepare(c, env.Ports); err == nil || !strings.Contains(err.Error(), "ecmp: cannot change while the switch runs: restart it") {
		t.Error(err)
	}
}
