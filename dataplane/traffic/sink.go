package traffic

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report is what a sink has seen of one run so far.
type Report struct {
	// Packets of the run, duplicates included, and their Bytes without the frame check sequence.
	Packets, Bytes uint64
	// Foreign frames do not bear the mark of the run. They are in no other number.
	Foreign uint64
	// Duplicates bear a sequence number that was seen before.
	Duplicates uint64
	// Stale packets came so late that duplicates can no longer be detected: more than
	// Window sequence numbers behind the highest. They count as lost.
	Stale uint64
	// Reordered packets came behind a later one of their flow (RFC 4737, type-P-reordered,
	// applied to each flow).
	Reordered uint64
	// Late packets came behind a later one of any flow. With several receive queues that is
	// no fault of anyone's.
	Late uint64
	// Ahead packets arrived before they were sent, so the clocks disagree; their
	// latency is taken as zero.
	Ahead uint64
	// Overflow packets reached the sink's socket and found its buffer full.
	Overflow uint64
	// NextSeq is the highest sequence number seen, plus 1.
	NextSeq uint64
	// FirstNs and LastNs are the times of the first and the last arrival, in ns of
	// the workload's clock.
	FirstNs, LastNs uint64
	// Latency from send time to arrival in ns, of all packets but duplicates and stale ones.
	Latency *hdrhistogram.Histogram
	// SentPerBin counts packets by send time, in steps of BinWidth, from the first
	// to the last that is not empty. Empty unless asked for.
	SentPerBin []uint64
}

// window is the number of sequence numbers within which sinks detect duplicates.
const window = 1 << windowBits

const windowBits = 24

// BinWidth is the step of Report.SentPerBin.
const BinWidth = 1 << binShift * time.Nanosecond

const (
	binShift = 20
	bins     = 65536
)

// Unique is the number of different packets that arrived.
func (r *Report) Unique() uint64 { return r.Packets - r.Duplicates - r.Stale }

// Lost is the number of the sent packets that did not arrive.
func (r *Report) Lost(sent uint64) uint64 { return sent - min(sent, r.Unique()) }

// Rate is the rate of arrivals in packets per second, from the first to the last.
func (r *Report) Rate() float64 {
	if r.LastNs <= r.FirstNs || r.Packets < 2 {
		return 0
	}
	return float64(r.Packets-1) / (float64(r.LastNs-r.FirstNs) / 1e9)
}

// SinkOptions choose what a sink looks at beyond counting.
type SinkOptions struct {
	// Duplicates are detected by a bitmap; without it they pass as packets and the loss is
	// understated by them.
	Duplicates bool
	// FlowOrder watches the order within each flow, at four bytes of memory, and a cache miss if
	// there are many, for each flow.
	FlowOrder bool
	// Bins fills in Report.SentPerBin.
	Bins bool
}

// DefaultSinkOptions watch duplicates and the order of flows.
func DefaultSinkOptions() SinkOptions { return SinkOptions{Duplicates: true, FlowOrder: true} }

// Sink receives a workload on one interface, from its making to its closing.
type Sink interface {
	// Report gives the state at this moment. It may be called while packets arrive;
	// numbers then need not belong to exactly the same moment.
	Report() (*Report, error)
	// Name is what a reader sees: "xdp", "af_packet".
	Name() string
	// Close stops receiving and frees everything.
	Close() error
}

// newHistogram holds 1 ns to 64 s at three significant digits.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(64*time.Second), 3) }

// trimBins cuts a ring of bins at its longest empty stretch, so that the result
// begins with the first bin used and ends with the last.
func trimBins(ring []uint64) []uint64 {
	start, longest, run := -1, 0, 0
	for i := range 2 * len(ring) {
		if ring[i%len(ring)] != 0 {
			run = 0
			continue
		}
		if run++; run > longest && run <= len(ring) {
			longest, start = run, (i+1)%len(ring)
		}
	}
	if start < 0 {
		return append([]uint64(nil), ring...)
	}
	if longest == len(ring) {
		return nil
	}
	out := make([]uint64, 0, len(ring)-longest)
	for i := range len(ring) - longest {
		out = append(out, ring[(start+i)%len(ring)])
	}
	return out
}
