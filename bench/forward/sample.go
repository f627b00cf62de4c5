package forward

import (
	"time"

	"github.com/weirswitch/weir/dataplane/traffic"
)

// Sample is what one visit found: one device, one size, one round. Rates are in packets per second.
type Sample struct {
	Round   int    `json:"round"`
	Device  string `json:"device"`
	Size    string `json:"size"` // "64B", "IMIX"
	Granted string `json:"granted"`

	MRR     float64 `json:"mrr"`
	Offered float64 `json:"offered"` // by the source during MRR
	// MRRLimited: nearly all that was offered came through, so the device may be faster.
	MRRLimited bool      `json:"mrr_limited"`
	CPU        CPU       `json:"cpu"` // during MRR
	NDR        found     `json:"ndr"`
	PDR        found     `json:"pdr"`
	Latency    []Delay   `json:"latency,omitempty"`
	Soak       *Soak     `json:"soak,omitempty"`
	Floods     []Flooded `json:"floods,omitempty"`

	visit, visits int // for progress
}

// Delay is the latency in ns at a share of the NDR.
type Delay struct {
	Share float64 `json:"share"`
	Rate  float64 `json:"rate"`
	Loss  float64 `json:"loss"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
}

// CPU is processor time in ns for each packet that arrived.
type CPU struct {
	// User, System and Softirq of the device's core.
	User    float64 `json:"user"`
	System  float64 `json:"system"`
	Softirq float64 `json:"softirq"`
	// Total of all cores, with the source, which keeps its core busy at any rate.
	Total float64 `json:"total"`
	// Steal is the share of both cores' time that the hypervisor gave to others, 0 to 1. It spoils
	// a figure.
	Steal float64 `json:"steal"`
}

// cpuOf divides the processor time of a trial by its packets.
func cpuOf(t *trial, cores Cores) CPU {
	n := t.got.Unique()
	if n == 0 {
		return CPU{}
	}
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(n) }
	own := t.cpu.Cores[cores.Device]
	c := CPU{User: each(own.User), System: each(own.System), Softirq: each(own.Softirq + own.IRQ), Total: t.cpu.Total.PerPacket(n)}
	if t.cpu.At > 0 {
		c.Steal = (own.Steal + t.cpu.Cores[cores.Source].Steal).Seconds() / (2 * t.cpu.At.Seconds())
	}
	return c
}

func delayOf(share float64, t *trial) Delay {
	quantile := func(q float64) float64 { return float64(t.got.Latency.ValueAtQuantile(q)) }
	return Delay{share, t.sent.Rate, t.loss(), quantile(50), quantile(99), quantile(99.9)}
}

// newWorkload is what is sent: the sizes of the name, uniform flows, one address on each side.
func newWorkload(c *Config, size string, run uint16) (traffic.Workload, error) {
	w := traffic.DefaultWorkload()
	list, err := sizes(size)
	if err != nil {
		return w, err
	}
	w.Sizes, w.Flows, w.Seed, w.Run = list, c.Flows, c.Seed, run
	return w, w.Validate()
}
