package transport

import "github.com/weirswitch/weir/bench/netsim/fabric"

// HPCC are the settings of Algorithm 1.
type HPCC struct {
	WAI      float64 // W_AI, bytes
	MaxStage int
	Eta      float64 // the target utilisation
	// The base round trip time T is Config.RoundTrip.
}

// PaperHPCC is what section 6.1 of PINT's paper uses; T is 13 us there.
var PaperHPCC = HPCC{WAI: 80, MaxStage: 0, Eta: 0.95}

// hpccState is a flow's. The window W of the last acknowledgement is the flow's window.
type hpccState struct {
	reference float64 // Wc
	use       float64 // U
	stage     int
	updateSeq int64 // the feedback of a packet beyond it closes a round trip
	known     uint8 // hops of last; 0: none yet
	last      [fabric.MaxRoute]fabric.HopRecord
}

// measure is MeasureInflight: the use of the fullest link, from two records of each, as a
// moving average over a round trip. It reports false for the first records.
func (h *hpccState) measure(n *fabric.Network, records []fabric.HopRecord, roundTrip float64) bool {
	if int(h.known) != len(records) {
		h.known = uint8(copy(h.last[:], records))
		return false
	}
	use, tau := 0.0, 0.0
	for i := range records {
		now, last := &records[i], &h.last[i]
		rate := n.LinkRate(now.Link)
		dt := (now.At - last.At).Seconds()
		if dt <= 0 {
			continue
		}
		u := float64(min(now.Queue, last.Queue))/(rate*roundTrip) + float64(now.Sent-last.Sent)/dt/rate
		if u > use {
			use, tau = u, dt
		}
	}
	tau = min(tau, roundTrip)
	h.use = (1-tau/roundTrip)*h.use + tau/roundTrip*use
	copy(h.last[:], records)
	return true
}

// window is ComputeWind, and what NewAck does about Wc: the window for the current U. Between
// two updates each acknowledgement computes it from the same Wc, so that one queue is not
// reacted to twice.
func (h *hpccState) window(c *HPCC, seq, next int64, least, most float64) float64 {
	var w float64
	stage := h.stage
	if h.use >= c.Eta || stage >= c.MaxStage {
		w, stage = h.reference/(h.use/c.Eta)+c.WAI, 0
	} else {
		w, stage = h.reference+c.WAI, stage+1
	}
	w = min(max(w, least), most)
	if seq > h.updateSeq {
		h.reference, h.stage, h.updateSeq = w, stage, next
	}
	return w
}
