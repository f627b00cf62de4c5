package node

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/internal/buildinfo"
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
	made atomic.Pointer[status.Status] // the newest that was not collected
	up   map[string]bool               // whether ports were up, in the newest one collected; the exporter's
}

// newStatuses is the source of those of n.
func newStatuses(n *Node) *statuses {
	boot := clock.Kernel.TAI()
	return &statuses{look: func() *status.Status { return n.status(boot) }}
}

// run looks at the switch until stop is closed.
func (s *statuses) run(stop <-chan struct{}) {
	tick := time.NewTicker(statusPause)
	defer tick.Stop()
	for slice := int64(0); ; {
		if now := clock.Kernel.TAI() >> statusBits; now != slice {
			slice = now
			s.made.Store(s.look())
		}
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
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
func (n *Node) status(boot int64) *status.Status {
	r := n.sw.Report()
	at := &status.Status{
		Time: clock.Kernel.TAI(), Boot: boot, Program: buildinfo.Read().Version, Clock: clockStatus(),
		Measurements: measurements(n.chain()),
	}
	names := n.portNames()
	for i, m := range reportMessage(&r).Ports {
		p := &r.Ports[i]
		sp := status.Port{
			Number: uint32(max(slices.Index(names, p.Name), 0)), Name: p.Name, Interface: p.Interface, Mode: p.Mode, Up: p.Up, Speed: p.Speed,
			Received: p.Received, ReceivedBytes: p.ReceivedBytes, Transmitted: p.Transmitted, TransmittedBytes: p.TransmittedBytes,
			Backlog: p.Backlog,
		}
		for _, drops := range []map[string]uint64{p.Dropped, control.Losses(m)} {
			for reason, packets := range drops {
				if packets != 0 {
					sp.Drops = append(sp.Drops, status.Drop{Reason: reason, Packets: packets})
				}
			}
		}
		slices.SortFunc(sp.Drops, func(a, b status.Drop) int { return strings.Compare(a.Reason, b.Reason) })
		at.Ports = append(at.Ports, sp)
	}
	for i := range r.Workers {
		w := &r.Workers[i]
		at.Workers = append(at.Workers, status.Worker{
			ID: uint32(w.ID), Core: int64(w.Core), CPUNs: uint64(clock.Thread(w.Thread)),
			Batches: w.Batches, Packets: w.Packets, Rounds: w.Rounds, Sleeps: w.Sleeps,
		})
	}
	if records := n.Records(); records != nil {
		at.Spool = status.Spool{
			Bound:  uint64(n.inForce.Load().config.Telemetry.SpoolBytes),
			Remote: records.State != string(export.Off), Connected: records.State == string(export.Connected),
		}
		for _, k := range records.Kinds {
			at.Spool.Bytes += k.WaitingBytes
			at.Exports = append(at.Exports, status.Export{
				Kind: k.Kind, Made: k.Made, Sent: k.Sent, Dropped: k.Dropped, Lost: k.Lost, Waiting: k.Waiting,
			})
		}
	}
	at.Bound()
	return at
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
	for _, stage := range chain {
		m, ok := stage.Module.(pipeline.Metered)
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
			part := "" // its labels in words: "fragment 0"
			if len(v.Labels) != 0 {
				part = v.Labels[0][0] + " " + v.Labels[0][1]
			}
			i := first + slices.IndexFunc(list[first:], func(m status.Measurement) bool { return m.Part == part })
			if i < first {
				i, list = len(list), append(list, status.Measurement{Stage: stage.Name, Part: part})
			}
			*[]*uint64{&list[i].Epochs, &list[i].Overruns, &list[i].Missed}[at] = uint64(v.Value)
		})
		if !measures {
			list = list[:first] // it has records, but no epochs
		}
	}
	return list
}

// measuredBy are the metrics of a measurement: its epochs, overruns and missed packets.
var measuredBy = []string{"records_total", overrunsName, "missed_packets_total"}

const overrunsName = "overruns_total"
