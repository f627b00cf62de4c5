package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/telemetry/query"
	queries "github.com/weirswitch/weir/telemetry/view/api"
)

// labHop is what the sink reports of one hop of all flows together, and what the
// hop's switch has measured of the packets that it sent on by the port.
type labHop struct {
	query.HopStats
	median                    query.QuantileValue
	samplingLow, samplingHigh float64 // between which sampling alone leaves the median

	measured float64
	packets  uint64
}

// off is how far the decoded median is from the measured one, as a share of this.
func (h *labHop) off() float64 { return h.median.Value/h.measured - 1 }

// latencyWithin is how far decoded and measured medians may be apart. Sampling may take
// samplingWithin of it; the rest is for the code of 8 bits, whose half step is 2.8 %, and for the
// switch's histogram, whose half bucket is 0.8 %.
const latencyWithin, samplingWithin = 0.1, 0.06

// conclusive reports whether there are enough samples.
func (h *labHop) conclusive() bool {
	return h.median.RankLow > 0 && h.median.RankHigh < 1 && h.samplingLow*(1+samplingWithin) >= h.median.Value && h.samplingHigh <= h.median.Value*(1+samplingWithin)
}

// checkLatency compares the medians that the sink of h2 has decoded of all flows together
// with those that the switches measured of the same packets. The switches are named by the kind
// and 1 to 5.
//
// A digest carries the latency of one hop of five, so the sink has a sample of what the
// switch knows of all. How far the median of n samples may be off depends on how far the
// latencies spread about it, which is the machine's and the moment's. So packets are
// sent until sampling can make up 6 % at most (or 24 times: what agrees by then agrees), by bounds of 1 - 1e-9 each; looked at up to 24 times
// on 5 hops they fail by luck with a probability of 1.2e-7. Under -short they are looked at once: where samples are too few, the measured median may be latencyWithin outside of
// what sampling allows, as latencies of a busy machine have gaps that a step of the code crosses. As latencies spread here (a quartile is 1.5 to 2.5 times the median) that takes 10,000 to
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
		l.awaitDigests(kind + "5")
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
			text := fmt.Sprintf("switch %s: median %.0f ns (%.0f .. %.0f, by sampling alone %.0f .. %.0f) decoded from %d samples of %d flows, %.0f ns measured of %d packets: %+.1f %%",
				h.Switch, h.median.Value, h.median.Low, h.median.High, h.samplingLow, h.samplingHigh, h.Samples, h.Flows, h.measured, h.packets, 100*h.off())
			if !h.conclusive() {
				text += "; too few samples for so wide a spread"
			}
			wrong := max(h.off(), -h.off()) > latencyWithin
			if testing.Short() && !h.conclusive() {
				wrong = h.median.RankLow > 0 && h.measured < h.samplingLow/(1+latencyWithin) || h.median.RankHigh < 1 && h.measured > h.samplingHigh*(1+latencyWithin)
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

// latency asks the sink for all switches, and each switch itself.
func (l *pintLab) latency(kind string) []labHop {
	l.t.Helper()
	a := l.medians(kind+"5", 0.5)
	if len(a.Hops) != 5 {
		l.t.Fatalf("the sink reports %d switches, want 5: %+v", len(a.Hops), a.Hops)
	}
	hops := make([]labHop, 5)
	for i := range hops {
		h := &hops[i]
		*h = labHop{HopStats: a.Hops[i], median: a.Hops[i].Quantiles[0]}
		if h.Switch != strconv.Itoa(i+1) {
			l.t.Fatalf("switch %d: %+v", i+1, h)
		}
		around := l.medians(kind+"5", h.median.RankLow, h.median.RankHigh).Hops[i].Quantiles
		h.samplingLow, h.samplingHigh = around[0].Value, around[1].Value
		var own struct {
			Measured []struct {
				Port    string
				Packets uint64
				Median  float64
			}
		}
		l.ask(kind+h.Switch, "latency", &own)
		for _, m := range own.Measured {
			if m.Port == "p1" {
				h.measured, h.packets = m.Median, m.Packets
			}
		}
	}
	return hops
}

// medians asks a switch's API for quantiles of the latencies, with bounds of 1 - 1e-9.
func (l *pintLab) medians(sw string, ranks ...float64) *query.LatencyAnswer {
	l.t.Helper()
	q, err := queries.NewQuestion(&query.Question{Kind: query.KindLatency, Quantiles: ranks, Confidence: 1 - 1e-9})
	if err != nil {
		l.t.Fatal(err)
	}
	a, err := control.NewClient(filepath.Join(lab.Root, l.name, sw+".sock")).Ask(l.t.Context(), &queries.AskRequest{Question: q})
	if err != nil {
		l.t.Fatal(err)
	}
	answer, err := a.Value()
	if err != nil {
		l.t.Fatal(err)
	}
	return answer.(*query.LatencyAnswer)
}
