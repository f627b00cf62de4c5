package control

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weirswitch/weir/control/api"
)

// Rates are what happened between two reports of a switch, per second.
type Rates struct {
	Ports   []PortRate   `json:"ports"`
	Drops   []DropRate   `json:"drops"` // the highest first
	Stages  []StageRate  `json:"stages"`
	Workers []WorkerRate `json:"workers"`
}

// PortRate is a port's: packets per second and bits per second of packets without FCS.
type PortRate struct {
	Port            string  `json:"port"`
	State           string  `json:"state"`
	Received        float64 `json:"received"`
	ReceivedBits    float64 `json:"received_bits"`
	Transmitted     float64 `json:"transmitted"`
	TransmittedBits float64 `json:"transmitted_bits"`
	Dropped         float64 `json:"dropped"` // of the packets that arrived here
	Lost            float64 `json:"lost"`    // outside the workers' sight
}

// DropRate is what was dropped or lost at a port for one reason.
type DropRate struct {
	Port   string  `json:"port"`
	Reason string  `json:"reason"`
	Lost   bool    `json:"lost"` // by rings, the kernel or the device, not by a stage
	Rate   float64 `json:"rate"`
	Total  uint64  `json:"total"` // since the switch began
}

// StageRate is a stage's.
type StageRate struct {
	Stage       string  `json:"stage"`
	Packets     float64 `json:"packets"`
	Dropped     float64 `json:"dropped"`
	NsPerPacket float64 `json:"ns_per_packet"` // sampled in the interval; 0: not one batch was
}

// WorkerRate is a worker's.
type WorkerRate struct {
	Worker          int64   `json:"worker"`
	Core            int64   `json:"core"`
	CPU             float64 `json:"cpu"` // the share of a core that its thread used, 0 to 1
	Packets         float64 `json:"packets"`
	PacketsPerBatch float64 `json:"packets_per_batch"` // of 64 at most
	Sleeps          float64 `json:"sleeps"`
}

// RatesOf returns the rates between two reports of one switch that are elapsed apart. A counter that is lower in the
// second one, of a switch or port that began anew meanwhile, counts from zero.
func RatesOf(before, after *api.ReportResponse, elapsed time.Duration) Rates {
	per := func(was, is uint64) float64 {
		if is < was {
			was = 0
		}
		return float64(is-was) / elapsed.Seconds()
	}
	var r Rates
	ports := byKey(before.Ports, (*api.Port).GetName)
	for _, p := range after.Ports {
		was := cmp.Or(ports[p.Name], &api.Port{})
		lost, lostBefore := Losses(p), Losses(was)
		r.Ports = append(r.Ports, PortRate{
			Port: p.Name, State: Link(p),
			Received: per(was.Received, p.Received), ReceivedBits: 8 * per(was.ReceivedBytes, p.ReceivedBytes),
			Transmitted: per(was.Transmitted, p.Transmitted), TransmittedBits: 8 * per(was.TransmittedBytes, p.TransmittedBytes),
			Dropped: per(sumOf(was.Dropped), sumOf(p.Dropped)), Lost: per(sumOf(lostBefore), sumOf(lost)),
		})
		for reason, n := range p.Dropped {
			r.Drops = append(r.Drops, DropRate{p.Name, reason, false, per(was.Dropped[reason], n), n})
		}
		for reason, n := range lost {
			r.Drops = append(r.Drops, DropRate{p.Name, reason, true, per(lostBefore[reason], n), n})
		}
	}
	r.Drops = slices.DeleteFunc(r.Drops, func(d DropRate) bool { return d.Total == 0 })
	slices.SortFunc(r.Drops, func(a, b DropRate) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Reason, b.Reason))
	})
	stages := byKey(before.Stages, (*api.Stage).GetName)
	for _, s := range after.Stages {
		was := cmp.Or(stages[s.Name], &api.Stage{})
		rate := StageRate{Stage: s.Name, Packets: per(was.Packets, s.Packets), Dropped: per(was.Dropped, s.Dropped)}
		if n := s.SampledPackets - was.SampledPackets; s.SampledPackets > was.SampledPackets {
			rate.NsPerPacket = float64(s.SampledNs-was.SampledNs) / float64(n)
		}
		r.Stages = append(r.Stages, rate)
	}
	workers := byKey(before.Workers, (*api.Worker).GetId)
	for _, w := range after.Workers {
		was := cmp.Or(workers[w.Id], &api.Worker{})
		rate := WorkerRate{Worker: w.Id, Core: w.Core, CPU: per(was.CpuNs, w.CpuNs) / 1e9, Packets: per(was.Packets, w.Packets), Sleeps: per(was.Sleeps, w.Sleeps)}
		if batches := per(was.Batches, w.Batches); batches > 0 {
			rate.PacketsPerBatch = rate.Packets / batches
		}
		r.Workers = append(r.Workers, rate)
	}
	return r
}

func byKey[T any, K comparable](list []*T, key func(*T) K) map[K]*T {
	all := make(map[K]*T, len(list))
	for _, x := range list {
		all[key(x)] = x
	}
	return all
}

func sumOf(counts map[string]uint64) (n uint64) {
	for v := range maps.Values(counts) {
		n += v
	}
	return n
}

// Link is the state of a port's link in a word: "blocked" where a guard has blocked the port.
func Link(p *api.Port) string {
	if p.Blocked != "" {
		return "blocked"
	}
	return p.State
}
