package main

import (
	"fmt"
	"strconv"
	"testing"
)

// labHop is what the sink tells of one hop of all flows together, and what the
// hop's switch has measured of the packets that it sent on by the port.
type labHop struct {
	Hop      int
	SwitchID uint64 `json:"switch_id"`
	Flows    int
	Samples  uint64
	Path     []uint64
	Median   float64
	Low      float64 `json:"median_low"`
	High     float64 `json:"median_high"`

	SamplingLow  float64 `json:"sampling_low"`
	SamplingHigh float64 `json:"sampling_high"`

	measured float64
	packets  uint64
}

// off is how far the decoded median is from the measured one, as a share of this.
func (h *labHop) off() float64 { return h.Median/h.measured - 1 }

// latencyWithin is how far decoded and measured medians may be apart. Sampling may take
// samplingWithin of it; the rest is for the code of 8 bits, whose half step is 2.8 %, and for the
// switch's histogram, whose half bucket is 0.8 %.
const latencyWithin, samplingWithin = 0.1, 0.06

// conclusive reports whether there are enough samples.
func (h *labHop) conclusive() bool {
	return h.SamplingLow*(1+samplingWithin) >= h.Median && h.SamplingHigh <= h.Median*(1+samplingWithin) && h.SamplingHigh > 0
}

// checkLatency compares the medians that the sink of h2 has decoded of all flows together
// with those that the switches measured of the same packets. The switches are named by the kind
// and 1 to 5.
//
// A digest tells the latency of one hop of five, so the sink has a sample of what the
// switch knows of all. How far the median of n samples may be off depends on how far the
// latencies spread about it, which is the machine's and the moment's. So packets are
// sent until sampling can make up 6 % at most (or 24 times: what agrees by then agrees), by bounds of 1 - 1e-9 each, 3.27/sqrt(n) of the ranks
// around the median; looked at up to 24 times on 5 hops they fail by luck with a
// probability of 1.2e-7. Under -short they are looked at once: where samples are too few, the bounds of sampling are taken as they are. As latencies spread here (a quartile is 1.5 to 2.5 times the median) that takes 10,000 to
// 25,000 samples of each hop.
func (l *pintLab) checkLatency(kind string) {
	l.t.Helper()
	looks := 24
	if testing.Short() {
		looks = 1
	}
	for look := 1; ; look++ {
		for range 16 {
			l.tcp(0, 1<<20)
		}
		l.settle()
		hops, enough, worst := l.latency(kind), true, 0.0
		for i := range hops {
			enough = enough && hops[i].conclusive()
		}
		if !enough && look < looks {
			continue
		}
		for i := range hops {
			h := &hops[i]
			worst = max(worst, h.off(), -h.off())
			text := fmt.Sprintf("switch %d: median %.0f ns (%.0f .. %.0f, by sampling alone %.0f .. %.0f) decoded from %d samples of %d flows, %.0f ns measured of %d packets: %+.1f %%",
				h.SwitchID, h.Median, h.Low, h.High, h.SamplingLow, h.SamplingHigh, h.Samples, h.Flows, h.measured, h.packets, 100*h.off())
			if !h.conclusive() {
				text += "; too few samples for so wide a spread"
			}
			wrong := max(h.off(), -h.off()) > latencyWithin
			if testing.Short() && !h.conclusive() {
				const rest = latencyWithin - samplingWithin
				wrong = h.measured < h.SamplingLow/(1+rest) || h.SamplingHigh > 0 && h.measured > h.SamplingHigh*(1+rest)
			}
			if wrong {
				l.t.Error(text)
			} else {
				l.t.Log(text)
			}
		}
		l.t.Logf("after %d looks decoded and measured medians differ by at most %.1f %%", look, 100*worst)
		return
	}
}

// latency asks the sink for all hops, and each hop's switch.
func (l *pintLab) latency(kind string) []labHop {
	l.t.Helper()
	var decoded struct{ Pools []labHop }
	l.ask(kind+"5", "latency", &decoded)
	if len(decoded.Pools) != 5 {
		l.t.Fatalf("the sink tells of %d hops, want 5: %+v", len(decoded.Pools), decoded.Pools)
	}
	for i := range decoded.Pools {
		h := &decoded.Pools[i]
		if h.Hop != i+1 || h.SwitchID != uint64(h.Hop) {
			l.t.Fatalf("hop %d: %+v", i+1, h)
		}
		var own struct {
			Measured []struct {
				Port    string
				Packets uint64
				Median  float64
			}
		}
		l.ask(kind+strconv.Itoa(h.Hop), "latency", &own)
		for _, m := range own.Measured {
			if m.Port == "p1" {
				h.measured, h.packets = m.Median, m.Packets
			}
		}
	}
	return decoded.Pools
}
