package scale

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/bench/netsim/transport"

	sketch "github.com/weirswitch/weir/telemetry/disketch"
)

// TestRoundings shows what roundings cost and how much answers err, of several seeds and kinds. Its log is bench/results/scale/whole.txt; rounding.txt and ratio.txt are those of earlier versions.
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

// usefulSteps are the steps beyond which finer ones tell little, to which a budget of 1 MB/s rounds the records of the second.
const usefulSteps = "1,25,12"

// TestDocumentRounding: docs/scale.md has the errors by rounded cells that TestRoundings printed.
func TestDocumentRounding(t *testing.T) {
	text, err := os.ReadFile("../results/scale/whole.txt")
	if err != nil {
		t.Fatal(err)
	}
	type errors struct{ bytes, rows, checked, small, large, bias, heavy float64 }
	found := map[string][]map[string]errors{} // by kind and seed
	kind := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == sketch.CountSketch.String() || line == sketch.CountMin.String() || line == sketch.UnivMon.String() {
			kind = line
		} else if strings.HasPrefix(line, "seed ") && kind != sketch.UnivMon.String() {
			found[kind] = append(found[kind], map[string]errors{})
		} else if name, values, ok := strings.Cut(line, " "); ok && strings.Count(name, ",") == 2 {
			var e errors
			values = strings.Join(strings.Fields(values), " ")
			if _, err := fmt.Sscanf(values, "%f; %f %f %f; %f %f; %f;", &e.bytes, &e.rows, &e.checked, &e.small, &e.large, &e.bias, &e.heavy); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			found[kind][len(found[kind])-1][name] = e
		}
	}
	between := func(kind string, of func(whole, rounded *errors) float64) string {
		low, high := math.Inf(1), math.Inf(-1)
		for _, seed := range found[kind] {
			whole, rounded := seed["0,0,0"], seed[usefulSteps]
			low, high = min(low, of(&whole, &rounded)), max(high, of(&whole, &rounded))
		}
		return fmt.Sprintf("%.3g to %.3g", low, high)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| three seeds, steps %s | Count Sketch | Count-Min |\n|---|---|---|\n", usefulSteps)
	for _, row := range []struct {
		name string
		of   func(whole, rounded *errors) float64
	}{
		{"kB of a record, whole cells, no candidates", func(a, _ *errors) float64 { return a.bytes }},
		{"rounded", func(_, b *errors) float64 { return b.bytes }},
		{"error of all flows, over that by whole cells", func(a, b *errors) float64 { return b.checked / a.checked }},
		{"the same, by medians of rows instead of the default composition", func(a, b *errors) float64 { return b.rows / a.rows }},
		{"of flows of 10 packets and less", func(a, b *errors) float64 { return b.small / a.small }},
		{"relative, of flows of 1,000 packets and more", func(a, b *errors) float64 { return b.large / a.large }},
		{"1 less F1 of heavy hitters, whole cells", func(a, _ *errors) float64 { return a.heavy }},
		{"rounded", func(_, b *errors) float64 { return b.heavy }},
	} {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", row.name, between(sketch.CountSketch.String(), row.of), between(sketch.CountMin.String(), row.of))
	}
	inDocument(t, "rounding", b.String())
}
