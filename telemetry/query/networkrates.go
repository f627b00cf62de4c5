package query

import (
	"slices"

	"github.com/weirswitch/weir/telemetry/status"
)

// frameOverhead is what a frame takes on the wire beside the bytes that a switch
// counts: preamble, FCS and the gap behind it.
const frameOverhead = 24

// progress is what a switch counted over statuses, with the time that passed. Pairs of
// statuses from different runs count for nothing: what was between is unknown.
type progress struct {
	seconds      float64
	restarts     int
	ports        map[string]*portProgress // by name
	measurements []status.Measurement
	workers      map[uint32]*workerProgress
}

type portProgress struct {
	seconds        float64
	received, sent counts
	drops          map[string]uint64
	mostBacklog    uint64
}

type workerProgress struct {
	seconds                         float64
	cpu, rounds, batches, fromWires uint64
}

type counts struct{ packets, bytes uint64 }

// progressOf adds up what happened between the statuses of one switch, which are in
// the order of time.
func progressOf(list []*status.Status) *progress {
	p := &progress{ports: map[string]*portProgress{}, workers: map[uint32]*workerProgress{}}
	for i, b := range list {
		for k := range b.Ports {
			at := p.port(b.Ports[k].Name)
			at.mostBacklog = max(at.mostBacklog, b.Ports[k].Backlog)
		}
		if i == 0 {
			continue
		}
		a := list[i-1]
		if a.Boot != b.Boot {
			p.restarts++
			continue
		}
		if seconds := float64(b.Time-a.Time) / 1e9; seconds > 0 {
			p.add(a, b, seconds)
		}
	}
	return p
}

func (p *progress) port(name string) *portProgress {
	at := p.ports[name]
	if at == nil {
		at = &portProgress{drops: map[string]uint64{}}
		p.ports[name] = at
	}
	return at
}

func (p *progress) add(a, b *status.Status, seconds float64) {
	p.seconds += seconds
	for i := range b.Ports {
		to := &b.Ports[i]
		k := slices.IndexFunc(a.Ports, func(from status.Port) bool { return from.Name == to.Name })
		if k >= 0 {
			p.port(to.Name).add(&a.Ports[k], to, seconds)
		}
	}
	for _, to := range b.Measurements {
		k := slices.IndexFunc(a.Measurements, func(m status.Measurement) bool { return m.Stage == to.Stage && m.Part == to.Part })
		if k >= 0 {
			p.measured(&a.Measurements[k], &to)
		}
	}
	for _, to := range b.Workers {
		k := slices.IndexFunc(a.Workers, func(w status.Worker) bool { return w.ID == to.ID })
		if k < 0 {
			continue
		}
		if p.workers[to.ID] == nil {
			p.workers[to.ID] = &workerProgress{}
		}
		from, at := &a.Workers[k], p.workers[to.ID]
		at.seconds += seconds
		at.cpu += less(to.CPUNs, from.CPUNs)
		at.rounds += less(to.Rounds, from.Rounds)
		at.batches += less(to.Batches, from.Batches)
		at.fromWires += less(to.Packets, from.Packets)
	}
}

// less is a difference of a counter; one that began anew counts from zero.
func less(to, from uint64) uint64 {
	if to < from {
		return to
	}
	return to - from
}

func (p *portProgress) add(from, to *status.Port, seconds float64) {
	p.seconds += seconds
	p.received.packets += less(to.Received, from.Received)
	p.received.bytes += less(to.ReceivedBytes, from.ReceivedBytes)
	p.sent.packets += less(to.Transmitted, from.Transmitted)
	p.sent.bytes += less(to.TransmittedBytes, from.TransmittedBytes)
	for _, d := range to.Drops {
		before := uint64(0)
		if k := slices.IndexFunc(from.Drops, func(b status.Drop) bool { return b.Reason == d.Reason }); k >= 0 {
			before = from.Drops[k].Packets
		}
		if n := less(d.Packets, before); n > 0 {
			p.drops[d.Reason] += n
		}
	}
}

func (p *progress) measured(from, to *status.Measurement) {
	k := slices.IndexFunc(p.measurements, func(m status.Measurement) bool { return m.Stage == to.Stage && m.Part == to.Part })
	if k < 0 {
		k, p.measurements = len(p.measurements), append(p.measurements, status.Measurement{Stage: to.Stage, Part: to.Part})
	}
	m := &p.measurements[k]
	m.Epochs += less(to.Epochs, from.Epochs)
	m.Overruns += less(to.Overruns, from.Overruns)
	m.Missed += less(to.Missed, from.Missed)
}

// rate is a mean over some seconds; speed is of the link, 0: not known.
func (c counts) rate(seconds float64, speed uint64) Rate {
	if seconds <= 0 {
		return Rate{}
	}
	r := Rate{PacketsPS: float64(c.packets) / seconds, BitsPS: 8 * float64(c.bytes) / seconds}
	r.setSpeed(speed)
	return r
}

// setSpeed works out the utilisation of a link.
func (r *Rate) setSpeed(speed uint64) {
	r.Utilisation = 0
	if speed > 0 {
		r.Utilisation = (r.BitsPS + 8*frameOverhead*r.PacketsPS) / float64(speed)
	}
}
