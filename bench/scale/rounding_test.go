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

// TestRoundings shows what roundings cost and how much answers err, of several seeds and kinds. Its logs are bench/results/scale/rounding.txt and ratio.txt.
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
				c, err := newCrowd(kind, memory, flows, sizes, seed)
				if err != nil {
					t.Fatal(err)
				}
				for _, at := range tried {
					e, err := c.errors(at)
					if err != nil {
						t.Fatal(err)
					}
					t.Logf("%-8s %s", fmt.Sprintf("%d,%d,%d", at.Ratio, at.Least, at.Whole), e)
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
				t.Logf("seed %d, %d,%d,%d: %.1f kB, entropy off by %.3g", seed, at.Ratio, at.Least, at.Whole, e.Bytes/1000, off)
			}
		}
	})
}

// tried are pairs of steps, of which {} is whole cells.
var tried = []sketch.Rounding{{}, {Ratio: 1, Least: 20, Whole: 12}, {Ratio: 1, Least: 24, Whole: 12}, {Ratio: 1, Least: 25, Whole: 12}, {Ratio: 1, Least: 26, Whole: 12}, {Ratio: 1, Least: 25}, {Ratio: 8, Least: 28}, {Ratio: 32, Least: 28}}

const crowdHead = "ratio,least,whole: kB; rows, checked, small; large, bias; 1-F1; outside, width"

func (e crowdErrors) String() string {
	return fmt.Sprintf("%6.2f; %7.2f %7.2f %7.3f; %.4f %+.5f; %.5f; %.5f %.3f", e.Bytes/1000, e.Rows, e.Checked, e.Small, e.Large, e.Bias, e.Heavy, e.Outside, e.Width)
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
