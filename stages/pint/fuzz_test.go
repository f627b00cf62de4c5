package pint

import (
	"bytes"
	"math/rand/v2"
	"testing"

	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// FuzzStage takes any bytes from a host through a chain, where they must arrive
// as they were sent or be dropped at the source, and into the middle and the
// end of one, which must survive them, with both carriers.
func FuzzStage(f *testing.F) {
	r := rand.New(rand.NewPCG(9, 9))
	for range 40 {
		f.Add(anyFrame(r))
	}
	one := newChain(f, 2, DefaultConfig(), largeFrame)
	for range 10 {
		f.Add(one.at(0, [][]byte{anyFrame(r)}, still)[0])
	}
	ipid := DefaultConfig()
	ipid.Plan = savePlan(f, pintplan.Config{ID: 3, Seed: 4, Bits: 16, Carrier: pintplan.CarrierIPID, Queries: pintplan.Default().Queries})
	ipid.Identification = IdentificationZero
	looping := DefaultConfig()
	looping.Plan = loopPlan(f)
	var chains []*testNetwork
	for _, c := range []Config{DefaultConfig(), ipid, looping} {
		chains = append(chains, newChain(f, 3, c, largeFrame))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1900 {
			data = data[:1900]
		}
		for i, n := range chains {
			n.t = t
			out := n.at(0, [][]byte{data}, still)
			if out[0] == nil {
				if len(data) >= 14 && !bytes.Contains(data, []byte{0x88, 0xb5}) && i != 1 {
					t.Errorf("chain %d drops % x", i, data)
				}
			} else if back := n.at(2, n.at(1, out, still), still); !bytes.Equal(back[0], data) {
				t.Errorf("chain %d: % x arrives as % x", i, data, back[0])
			}
			n.at(1, [][]byte{data}, still)
			n.at(2, [][]byte{data}, still)
		}
	})
}
