package traffic

import "github.com/HdrHistogram/hdrhistogram-go"

// tracker turns marks into a report. Memory: 4 MiB for the window and 4 bytes for each
// flow; neither where not asked for. It does not allocate after its making and is
// not safe for concurrent use.
type tracker struct {
	report  Report
	window  []windowEntry
	flows   []uint32 // low bits of the highest sequence number, plus 1; 0: none
	sentBin []uint64
}

// windowEntry says which of 32 neighbouring sequence numbers were seen, in the given
// turn of the ring. Entries of an older turn count as empty, so nothing needs to
// be cleared as the window moves.
type windowEntry struct {
	turn, seen uint32
}

func newTracker(flows int, options SinkOptions) *tracker {
	t := &tracker{report: Report{Latency: newHistogram()}}
	if options.Duplicates {
		t.window = make([]windowEntry, window/32)
	}
	if options.FlowOrder {
		t.flows = make([]uint32, flows)
	}
	if options.Bins {
		t.sentBin = make([]uint64, bins)
	}
	return t
}

// add counts a packet of the run: length in bytes, arrival in ns.
func (t *tracker) add(m Mark, length int, now uint64) {
	r := &t.report
	r.Packets++
	r.Bytes += uint64(length)
	r.LastNs = now
	if r.FirstNs == 0 {
		r.FirstNs = now
	}
	if t.window != nil && !t.firstSight(m.Seq) {
		return
	}
	if m.Seq < r.NextSeq {
		r.Late++
	} else {
		r.NextSeq = m.Seq + 1
	}
	if int(m.Flow) < len(t.flows) {
		last, next := &t.flows[m.Flow], uint32(m.Seq+1)
		if *last != 0 && int32(next-*last) < 0 {
			r.Reordered++
		} else {
			*last = next
		}
	}
	latency := int64(now - m.SentNs)
	if latency < 0 {
		r.Ahead++
		latency = 0
	}
	_ = r.Latency.RecordValue(min(latency, r.Latency.HighestTrackableValue())) // in range, so it cannot fail
	if t.sentBin != nil {
		t.sentBin[m.SentNs>>binShift%bins]++
	}
}

func (t *tracker) firstSight(seq uint64) bool {
	turn := uint32(seq >> windowBits)
	e := &t.window[seq>>5%uint64(len(t.window))]
	if e.turn != turn {
		if e.turn > turn {
			t.report.Stale++
			return false
		}
		*e = windowEntry{turn: turn}
	}
	bit := uint32(1) << (seq & 31)
	if e.seen&bit != 0 {
		t.report.Duplicates++
		return false
	}
	e.seen |= bit
	return true
}

// snapshot copies the report.
func (t *tracker) snapshot() *Report {
	r := t.report
	r.Latency = hdrhistogram.Import(t.report.Latency.Export())
	if t.sentBin != nil {
		r.SentPerBin = trimBins(t.sentBin)
	}
	return &r
}
