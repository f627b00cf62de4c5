package scale

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/bench/netsim/transport"

	sketch "github.com/weirswitch/weir/telemetry/disketch"
)

// TestRoundings shows what roundings, and narrower fragments, cost and how much answers err, of several seeds and kinds. Its logs are bench/results/scale/rounding.txt and ratio.txt.
func TestRoundings(t *testing.T) {
	if os.Getenv("WEIR_ROUNDINGS") == "" {
		t.Skip("it takes minutes: set WEIR_ROUNDINGS=1")
	}
	sizes := theSizes(t)
	const memory, flows = 128 << 10, 54_600
	for _, kind := range []sketch.Kind{sketch.CountSketch, sketch.CountMin} {
		t.Run(kind.String(), func(t *testing.T) {
			for seed := range uint64(3) {
				t.Logf("seed %d\n%s", seed, crowdHead)
				for _, narrower := range []int{1, 2, 4} {
					c, err := newCrowd(kind, memory/narrower, flows, sizes, seed)
					if err != nil {
						t.Fatal(err)
					}
					for _, at := range tried {
						if narrower > 1 && (at.Least > 16 || at.Ratio > 4) {
							continue
						}
						e, err := c.errors(at)
						if err != nil {
							t.Fatal(err)
						}
						t.Logf("1/%d %-8s %s", narrower, fmt.Sprintf("%d,%d", at.Ratio, at.Least), e)
					}
				}
			}
		})
	}
	t.Run(sketch.UnivMon.String(), func(t *testing.T) {
		for seed := range uint64(3) {
			c, err := newCrowd(sketch.UnivMon, entropyMemory, flows, sizes, seed)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range tried {
				off, e, err := c.entropy(at)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("seed %d, %d,%d: %.1f kB, entropy off by %.3g", seed, at.Ratio, at.Least, e.Bytes/1000, off)
			}
		}
	})
}

// tried are pairs of steps, of which {} is whole cells.
var tried = []sketch.Rounding{{}, {Ratio: 1, Least: 20}, {Ratio: 1, Least: 24}, {Ratio: 1, Least: 28}, {Ratio: 1, Least: 32}, {Ratio: 2, Least: 28}, {Ratio: 4}, {Ratio: 4, Least: 16}, {Ratio: 4, Least: 24}, {Ratio: 4, Least: 28}, {Ratio: 4, Least: 32},
	{Ratio: 6, Least: 28}, {Ratio: 8, Least: 24}, {Ratio: 8, Least: 28}, {Ratio: 8, Least: 32}, {Ratio: 12, Least: 36}}

const crowdHead = "width ratio,least: kB; rows, checked, small; large, bias; 1-F1; outside, width"

func (e crowdErrors) String() string {
	return fmt.Sprintf("%6.2f; %7.2f %7.2f %7.3f; %.4f %+.5f; %.4f; %.5f %.3f", e.Bytes/1000, e.Rows, e.Checked, e.Small, e.Large, e.Bias, e.Heavy, e.Outside, e.Width)
}

func theSizes(t *testing.T) (sizes [2]*transport.Distribution) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(netsim.DataDir(), "flowsizes")); err != nil {
		t.Skipf("no flow sizes: %v", err)
	}
	for i, name := range []string{transport.WebSearch, transport.Hadoop} {
		d, err := transport.LoadDistribution(netsim.DataDir(), name)
		if err != nil {
			t.Fatal(err)
		}
		sizes[i] = d
	}
	return sizes
}
