package tables

import "math/bits"

// LatencyRegister is where the program counts how long packets were in the switch, of all that left by a
// port. Nothing resets it.
const LatencyRegister = pintControl + ".latencies"

// The register's layout (p4/include/telemetry.p4, p4/v1model/pint.p4).
const (
	latencyBits     = 3
	latencyTop      = 40
	latencyPortBits = 9

	// LatencyCells is how many cells it has.
	LatencyCells = maxPorts << latencyPortBits
)

// LatencyCell is the cell for a latency in ns of a packet that left by a port: by the place of the leading bit,
// counted from 1, and the three bits behind it. What a bucket of stages/pint counts is all of one cell.
func LatencyCell(port int, ns uint64) int {
	ns = min(ns, 1<<latencyTop-1)
	leading := bits.Len64(ns)
	return port<<latencyPortBits | leading<<latencyBits | int(ns<<(65-leading)>>(64-latencyBits))
}

// Latencies are the cells of one port.
type Latencies []uint64

// LatenciesOf takes a port's cells from those of the whole register; none if it has none of the port.
func LatenciesOf(cells []uint64, port int) Latencies {
	if port < 0 || port >= maxPorts || len(cells) != LatencyCells {
		return nil
	}
	return Latencies(cells[port<<latencyPortBits:][:1<<latencyPortBits])
}

// Packets is how many packets were counted.
func (l Latencies) Packets() (n uint64) {
	for _, c := range l {
		n += c
	}
	return n
}

// Quantile is the latency in ns of which a share of rank, in 0..1, is not above, as if the
// latencies of a cell were evenly spread; 0 without packets.
func (l Latencies) Quantile(rank float64) float64 {
	total := l.Packets()
	if total == 0 {
		return 0
	}
	at, before := min(uint64(rank*float64(total)), total-1), uint64(0)
	for i, n := range l {
		if before+n > at {
			low, width := latencyBounds(i)
			part := (float64(at-before) + 0.5) / float64(n)
			return float64(low) + part*float64(width-1)
		}
		before += n
	}
	return 0
}

// Highest is the largest latency in ns that the highest of the cells with packets counts; 0 without packets.
func (l Latencies) Highest() uint64 {
	for i := len(l) - 1; i >= 0; i-- {
		if l[i] != 0 {
			low, width := latencyBounds(i)
			return low + width - 1
		}
	}
	return 0
}

// latencyBounds are the least latency of a port's cell and how many the cell has. Cells that none
// falls into have a width of 1.
func latencyBounds(cell int) (low, width uint64) {
	leading := cell >> latencyBits
	if leading == 0 {
		return 0, 1
	}
	behind := uint64(cell & (1<<latencyBits - 1))
	if shift := leading - 1 - latencyBits; shift > 0 {
		return (1<<latencyBits | behind) << shift, 1 << shift
	}
	return (1<<latencyBits | behind) >> (latencyBits + 1 - leading), 1
}
