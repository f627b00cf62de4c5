package tables

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TestLatencyLayout: the register is where this package looks for it, and as large.
func TestLatencyLayout(t *testing.T) {
	text, err := os.ReadFile("../include/telemetry.p4")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"LATENCY_BITS": latencyBits, "LATENCY_TOP": latencyTop, "LATENCY_PORT_BITS": latencyPortBits} {
		m := regexp.MustCompile(`(?m)^#define ` + name + ` (\d+)$`).FindSubmatch(text)
		if m == nil {
			t.Errorf("p4/include says nothing of %s", name)
		} else if n, err := strconv.Atoi(string(m[1])); err != nil || n != want {
			t.Errorf("%s is %s in p4/include, %d here", name, m[1], want)
		}
	}
	r, ok := WeirInfo(hash.CRC).registers[LatencyRegister]
	if !ok || r.Size != LatencyCells {
		t.Errorf("register %s: %+v, %v, want %d cells", LatencyRegister, r, ok, LatencyCells)
	}
	if most := bits.Len64(1<<latencyTop-1)<<latencyBits | (1<<latencyBits - 1); most >= 1<<latencyPortBits {
		t.Errorf("cell %d of a port is another port's", most)
	}
}

// latencies are drawn evenly in their logarithms, with the ends and what lies around powers of two.
func latencies(n int) []uint64 {
	all := []uint64{0, 1, 2, 3, 1<<40 - 1, 1 << 40, 1 << 63, math.MaxUint64}
	for shift := 2; shift < 41; shift++ {
		all = append(all, 1<<shift-1, 1<<shift, 1<<shift+1)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		all = append(all, r.Uint64()>>r.IntN(64))
	}
	return all
}

// TestLatencyCells: a latency is within the bounds of its cell, which are those of no other cell, and at most
// an eighth wide.
func TestLatencyCells(t *testing.T) {
	for _, v := range latencies(20000) {
		for _, port := range []int{0, 5, maxPorts - 1} {
			cell := LatencyCell(port, v)
			if cell>>latencyPortBits != port || cell >= LatencyCells {
				t.Fatalf("%d ns of port %d are in cell %d", v, port, cell)
			}
			low, width := latencyBounds(cell & (1<<latencyPortBits - 1))
			if v = min(v, 1<<latencyTop-1); v < low || v-low >= width || width > 1 && low/width < 1<<latencyBits {
				t.Fatalf("%d ns are in a cell of %d ns from %d", v, width, low)
			}
			if LatencyCell(port, low) != cell || LatencyCell(port, low+width-1) != cell {
				t.Fatalf("the ends of the cell of %d ns are in others", v)
			}
		}
	}
}

// TestLatencyQuantiles: those of a sorted list, but for a cell's width.
func TestLatencyQuantiles(t *testing.T) {
	all, cells := latencies(5000), make([]uint64, LatencyCells)
	for i := range all {
		all[i] = min(all[i], 1<<latencyTop-1)
		cells[LatencyCell(7, all[i])]++
		cells[LatencyCell(8, 1000)]++
	}
	slices.Sort(all)
	l := LatenciesOf(cells, 7)
	if l.Packets() != uint64(len(all)) || l.Highest() != all[len(all)-1] {
		t.Errorf("%d packets, the longest of %d ns; want %d, of %d", l.Packets(), l.Highest(), len(all), all[len(all)-1])
	}
	for _, rank := range []float64{0, 0.01, 0.25, 0.5, 0.9, 0.99, 1} {
		want := float64(all[min(int(rank*float64(len(all))), len(all)-1)])
		if got := l.Quantile(rank); math.Abs(got-want) > want/(1<<latencyBits) {
			t.Errorf("quantile %v is %v, want %v", rank, got, want)
		}
	}
	none := LatenciesOf(cells, 9)
	if none.Packets() != 0 || none.Quantile(0.5) != 0 || none.Highest() != 0 || LatenciesOf(cells[1:], 7) != nil || LatenciesOf(cells, maxPorts) != nil {
		t.Errorf("a port without packets has some: %v", none)
	}
}
