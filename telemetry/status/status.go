package status

import (
	"fmt"
	"unicode/utf8"

	"github.com/weirswitch/weir/internal/printable"
)

// Status is what a switch says of itself at one moment. The zero value is valid.
type Status struct {
	// Time is when, in ns of CLOCK_TAI, and Boot when the switch began. Boot distinguishes
	// the runs of a switch apart.
	Time int64 `json:"time_ns"`
	Boot int64 `json:"boot_ns"`
	// Program is the version of the program.
	Program string `json:"program"`
	Clock   Clock  `json:"clock"`
	Spool   Spool  `json:"spool"`

	Ports        []Port        `json:"ports"`
	Measurements []Measurement `json:"measurements"`
	Exports      []Export      `json:"exports"`
	Workers      []Worker      `json:"workers"`
}

// Port is a port of the switch.
type Port struct {
	Number    uint32 `json:"number"` // from 0, as records name it
	Name      string `json:"name"`
	Interface string `json:"interface"`
	Mode      string `json:"mode"` // all that was granted, in words
	Up        bool   `json:"up"`   // packets can pass
	// Speed is the link's, in bits per second; 0: not known.
	Speed uint64 `json:"speed_bps"`

	Received         uint64 `json:"received"` // packets taken in
	ReceivedBytes    uint64 `json:"received_bytes"`
	Transmitted      uint64 `json:"transmitted"` // packets that left
	TransmittedBytes uint64 `json:"transmitted_bytes"`
	// Backlog is how many frames wait to be sent at the moment.
	Backlog uint64 `json:"backlog"`
	// Drops are of packets that arrived here, and of those lost at the port itself.
	Drops []Drop `json:"drops"`
}

// Drop counts the packets that were dropped for one reason.
type Drop struct {
	Reason  string `json:"reason"`
	Packets uint64 `json:"packets"`
}

// Measurement is one of a stage's: a fragment, the points of a direction, a sample.
type Measurement struct {
	Stage string `json:"stage"`
	// Part distinguishes several measurements of a stage; empty: there is one.
	Part string `json:"part"`
	// Epochs were made into records, of slices of the stage's own length.
	Epochs uint64 `json:"epochs"`
	// Overruns are epochs in which a worker lacked cells, and Missed the packets that
	// were not measured for it.
	Overruns uint64 `json:"overruns"`
	Missed   uint64 `json:"missed"`
}

// Export counts the records of one kind.
type Export struct {
	Kind string `json:"kind"`
	// Made is how many there were; of these were
	Made    uint64 `json:"made"`
	Sent    uint64 `json:"sent"`    // acknowledged by the collector's store
	Dropped uint64 `json:"dropped"` // given up, beyond the spool's bound
	Lost    uint64 `json:"lost"`    // not encoded, or not written to the spool
	Waiting uint64 `json:"waiting"` // in the spool
}

// Spool is what waits on the switch's disk.
type Spool struct {
	Bytes uint64 `json:"bytes"`
	Bound uint64 `json:"bound_bytes"` // 0: there is no spool
	// Remote: records go on to a collector; else the spool is all there is. Connected: its
	// store takes them at the moment.
	Remote    bool `json:"remote"`
	Connected bool `json:"connected"`
}

// Clock is the switch's clock, as its kernel knows it.
type Clock struct {
	Source string `json:"source"` // "CLOCK_TAI"
	// Synchronised: the kernel holds the clock to be disciplined.
	Synchronised bool `json:"synchronised"`
	// OffsetNs is what the kernel still corrects, ErrorNs its estimate of the clock's
	// error and MaxErrorNs the bound of it. Without synchronisation they mean little.
	OffsetNs   int64  `json:"offset_ns"`
	ErrorNs    uint64 `json:"error_ns"`
	MaxErrorNs uint64 `json:"max_error_ns"`
	// TAIOffset is what CLOCK_TAI is ahead of UTC, in seconds; 0: the kernel does not know it.
	TAIOffset int64 `json:"tai_offset_s"`
}

// Worker is one worker's counters.
type Worker struct {
	ID   uint32 `json:"id"`
	Core int64  `json:"core"` // -1: not pinned
	// CPUNs is the processor time that its thread has used.
	CPUNs   uint64 `json:"cpu_ns"`
	Batches uint64 `json:"batches"`
	Packets uint64 `json:"packets"`
	Rounds  uint64 `json:"rounds"` // over all queues; a round without a batch found nothing
	Sleeps  uint64 `json:"sleeps"`
}

// Bounds of a status, and of its texts, which are printable UTF-8. What is beyond is cut off by [Status.Bound].
const (
	maxPorts        = 1024
	maxDrops        = 128 // reasons of a port
	maxMeasurements = 256
	maxExports      = 32
	maxWorkers      = 1024
	maxText         = 255 // bytes
	maxTime         = 1 << 61
)

// Bound cuts off what is beyond the bounds of the format.
func (s *Status) Bound() {
	s.Ports, s.Measurements = s.Ports[:min(len(s.Ports), maxPorts)], s.Measurements[:min(len(s.Measurements), maxMeasurements)]
	s.Exports, s.Workers = s.Exports[:min(len(s.Exports), maxExports)], s.Workers[:min(len(s.Workers), maxWorkers)]
	s.texts(func(t *string) { *t = boundText(*t) })
	for i := range s.Ports {
		s.Ports[i].Drops = s.Ports[i].Drops[:min(len(s.Ports[i].Drops), maxDrops)]
	}
}

// boundText makes a text printable and short enough.
func boundText(t string) string {
	t = printable.Text(t)
	if len(t) <= maxText {
		return t
	}
	end := maxText
	for !utf8.RuneStart(t[end]) {
		end--
	}
	return t[:end]
}

// isPrintable reports whether a text may go to a terminal.
func isPrintable(t string) bool {
	return utf8.ValidString(t) && printable.Text(t) == t
}

// texts calls f for every text of the status.
func (s *Status) texts(f func(*string)) {
	f(&s.Program)
	f(&s.Clock.Source)
	for i := range s.Ports {
		p := &s.Ports[i]
		f(&p.Name)
		f(&p.Interface)
		f(&p.Mode)
		for j := range p.Drops {
			f(&p.Drops[j].Reason)
		}
	}
	for i := range s.Measurements {
		f(&s.Measurements[i].Stage)
		f(&s.Measurements[i].Part)
	}
	for i := range s.Exports {
		f(&s.Exports[i].Kind)
	}
}

// validate refuses what the format cannot hold.
func (s *Status) validate() error {
	for _, l := range []struct {
		what     string
		n, bound int
	}{
		{"ports", len(s.Ports), maxPorts},
		{"measurements", len(s.Measurements), maxMeasurements},
		{"kinds of records", len(s.Exports), maxExports},
		{"workers", len(s.Workers), maxWorkers},
	} {
		if l.n > l.bound {
			return fmt.Errorf("%d %s: %d at most", l.n, l.what, l.bound)
		}
	}
	for i := range s.Ports {
		if n := len(s.Ports[i].Drops); n > maxDrops {
			return fmt.Errorf("%d drop reasons: %d at most", n, maxDrops)
		}
	}
	if outside(s.Time) || outside(s.Boot) {
		return fmt.Errorf("a time of %d ns, a beginning of %d ns: %d at most", s.Time, s.Boot, int64(maxTime))
	}
	var err error
	s.texts(func(t *string) {
		if len(*t) > maxText || !isPrintable(*t) {
			err = fmt.Errorf("the text %.40q: it must be printable, of %d bytes at most", *t, maxText)
		}
	})
	return err
}

// outside reports whether a time is so far away that sums of times overflow.
func outside(ns int64) bool { return ns < -maxTime || ns > maxTime }
