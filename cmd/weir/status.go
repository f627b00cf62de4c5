package main

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/status"
)

// A switch says how it is once in each slice of its clock of so many bits of
// nanoseconds, about a second. It looks at itself more often, so that every slice has its status.
const (
	statusBits  = 30
	statusPause = 250 * time.Millisecond
)

// statuses is the source of a switch's statuses. A goroutine of its own looks at the
// switch, since a worker that hangs must not hold up the exporter.
type statuses struct {
	look func() *status.Status
	made atomic.Pointer[status.Status] // the newest that nobody has collected
	up   map[string]bool               // whether ports were up, in the newest one collected; the exporter's
}

// newStatuses is the source of those of s.
func newStatuses(s *liveSwitch) *statuses {
	boot := taiNow()
	return &statuses{look: func() *status.Status { return s.status(boot) }}
}

// start looks at the switch until the function that it returns is called.
func (s *statuses) start() (stop func()) {
	end := make(chan struct{})
	go func() {
		tick := time.NewTicker(statusPause)
		defer tick.Stop()
		for slice := int64(0); ; {
			if now := taiNow() >> statusBits; now != slice {
				slice = now
				s.made.Store(s.look())
			}
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	}()
	return sync.OnceFunc(func() { close(end) })
}

// Collect implements export.Source. A status is of a moment of its slice, and of a run of the
// switch, of which several may share a slice: so it is marked as partial.
func (s *statuses) Collect(_ int64, last bool, emit record.Emit) {
	made := s.made.Swap(nil)
	if last {
		made = s.look() // all that is counted by the end
		for i := range made.Ports {
			p := &made.Ports[i]
			p.Up = p.Up || s.up[p.Name] // the switch has closed them, which is no fault
		}
	}
	if made == nil {
		return
	}
	s.up = map[string]bool{}
	for _, p := range made.Ports {
		s.up[p.Name] = p.Up
	}
	const length = 1 << statusBits
	emit(&record.Header{Kind: record.Status, Start: made.Time &^ (length - 1), Span: length, Partial: true}, made.AppendBinary)
}

// status is how the switch is now.
func (s *liveSwitch) status(boot int64) *status.Status {
	r := s.sw.Report()
	at := &status.Status{
		Time: taiNow(), Boot: boot, Program: version().Version, Clock: clockStatus(),
		Measurements: measurements(s.chain),
	}
	names := s.portNames()
	for i := range r.Ports {
		at.Ports = append(at.Ports, portStatus(&r.Ports[i], slices.Index(names, r.Ports[i].Name)))
	}
	for i := range r.Workers {
		at.Workers = append(at.Workers, workerStatus(&r.Workers[i]))
	}
	s.export.status(at, s.inForce.Load().config.Telemetry.SpoolBytes)
	at.Bound()
	return at
}

func portStatus(p *worker.PortReport, number int) status.Port {
	at := status.Port{
		Number: uint32(max(number, 0)), Name: p.Name, Interface: p.Interface, Mode: p.Mode, Up: p.Up, Speed: p.Speed,
		Received: p.Received, ReceivedBytes: p.ReceivedBytes, Transmitted: p.Transmitted, TransmittedBytes: p.TransmittedBytes,
		Backlog: p.Backlog,
	}
	lost := losses(portMessage(p))
	for _, drops := range []map[string]uint64{p.Dropped, lost} {
		for reason, n := range drops {
			if n != 0 {
				at.Drops = append(at.Drops, status.Drop{Reason: reason, Packets: n})
			}
		}
	}
	slices.SortFunc(at.Drops, func(a, b status.Drop) int { return strings.Compare(a.Reason, b.Reason) })
	return at
}

func workerStatus(w *worker.WorkerReport) status.Worker {
	return status.Worker{
		ID: uint32(w.ID), Core: int64(w.Core), CPUNs: uint64(clock.Thread(w.Thread)),
		Batches: w.Batches, Packets: w.Packets, Rounds: w.Rounds, Sleeps: w.Sleeps,
	}
}

// clockStatus is what the kernel knows of the clock's discipline.
func clockStatus() status.Clock {
	at := status.Clock{Source: "CLOCK_TAI"}
	var t unix.Timex
	state, err := unix.Adjtimex(&t) // no mode is set: it reads
	if err != nil {
		return at
	}
	at.Synchronised = state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0
	at.OffsetNs, at.TAIOffset = t.Offset, int64(t.Tai)
	if t.Status&unix.STA_NANO == 0 {
		at.OffsetNs *= 1000
	}
	at.ErrorNs, at.MaxErrorNs = uint64(max(t.Esterror, 0))*1000, uint64(max(t.Maxerror, 0))*1000
	return at
}

// measurements are what the stages say of their epochs, by the metrics that all
// measuring stages have.
func measurements(chain []pipeline.Named) (list []status.Measurement) {
	for _, n := range chain {
		m, ok := n.Module.(pipeline.Metered)
		if !ok {
			continue
		}
		first, measures := len(list), false
		m.Metrics(func(v pipeline.Metric) {
			at := slices.Index(measuredBy, v.Name)
			if at < 0 {
				return
			}
			measures = measures || v.Name == overrunsName
			part := partOf(v.Labels)
			i := first + slices.IndexFunc(list[first:], func(m status.Measurement) bool { return m.Part == part })
			if i < first {
				i, list = len(list), append(list, status.Measurement{Stage: n.Name, Part: part})
			}
			*[]*uint64{&list[i].Epochs, &list[i].Overruns, &list[i].Missed}[at] = uint64(v.Value)
		})
		if !measures {
			list = list[:first] // it has records, but no epochs
		}
	}
	return list
}

// status adds what became of the records so far. bound is the spool's, in bytes.
func (e *exporting) status(at *status.Status, bound int64) {
	r := e.records()
	if r == nil {
		return
	}
	at.Spool = status.Spool{Bound: uint64(bound), Remote: r.State != sendingOff, Connected: r.State == string(export.Connected)}
	for _, k := range r.Kinds {
		at.Spool.Bytes += k.WaitingBytes
		at.Exports = append(at.Exports, status.Export{
			Kind: k.Kind, Made: k.Made, Sent: k.Sent, Dropped: k.Dropped, Lost: k.Lost, Waiting: k.Waiting,
		})
	}
}

// measuredBy are the metrics of a measurement: its epochs, overruns and missed packets.
var measuredBy = []string{"records_total", overrunsName, "missed_packets_total"}

const overrunsName = "overruns_total"

// partOf is a metric's labels in words: "fragment 0".
func partOf(labels [][2]string) string {
	if len(labels) == 0 {
		return ""
	}
	return labels[0][0] + " " + labels[0][1]
}
