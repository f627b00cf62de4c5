package lds

import (
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/epoch"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/record"
)

// mergeCells adds a worker's cells of a slice to those of others. dst is empty
// or of the same slice.
func mergeCells(dst, src *cells) {
	for i := range *src {
		d, s := &(*dst)[i], &(*src)[i]
		join(d.now, s.now)
		if d.late != nil {
			join(d.late, s.late)
			join(d.early, s.early)
		}
	}
}

// join adds src to dst, in src's interval. An empty point may not have been given
// its interval.
func join(dst, src *lds.Point) {
	if src.Packets() == 0 && src.Outside() == 0 {
		return
	}
	dst.Enter(src.Interval())
	if err := dst.Merge(src); err != nil {
		panic(err) // one module has one config
	}
}

func clearCells(c *cells) {
	for i := range *c {
		(*c)[i].each(func(p *lds.Point) { p.Begin(0) })
	}
}

// Collect implements export.Source.
func (m *Module) Collect(now int64, last bool, emit record.Emit) {
	each := func(s *epoch.Merged[cells]) { m.emit(s, emit) }
	m.merger.Collect(now, each)
	if !last {
		return
	}
	m.merger.Flush(each)
	for i, j := range m.joiners {
		j.flush(func(p *lds.Point, missed uint64) { m.send(i, p, missed, emit) })
	}
}

// emit sends the records of a slice; with the interval bit, those of the
// interval before it.
func (m *Module) emit(s *epoch.Merged[cells], emit record.Emit) {
	s.Cells.enter(s.Slice.Number())
	for i := range *s.Cells {
		t := &(*s.Cells)[i]
		if s.Partial || s.Missed != 0 {
			t.now.Mark(lds.Partial)
		}
		if m.bit {
			m.joiners[i].slice(t, s.Missed, func(p *lds.Point, missed uint64) { m.send(i, p, missed, emit) })
		} else {
			m.send(i, t.now, s.Missed, emit)
		}
	}
}

// send emits one point's interval as a record.
func (m *Module) send(point int, p *lds.Point, missed uint64, emit record.Emit) {
	instance := uint16(2 * m.ports[point])
	if m.egress {
		instance++
	}
	h := record.Header{
		Kind: record.LDS, Instance: instance,
		Start: p.Interval() << m.shift, Span: 1 << m.shift,
		Missed: missed, Partial: p.Flags()&lds.Partial != 0,
	}
	emit(&h, p.AppendBinary)
	m.records.Add(1)
}

// joiner puts an interval together from the slices of the clock that its packets
// arrived in: early ones in the slice before, late ones in the slice behind.
type joiner struct {
	open   *lds.Point // the interval that waits for its late packets
	early  *lds.Point // of the interval behind the open one
	begun  bool
	missed uint64
}

func newJoiner(point func() *lds.Point) *joiner { return &joiner{open: point(), early: point()} }

// slice takes the next slice, and gives away the interval before it.
func (j *joiner) slice(t *trio, missed uint64, send func(p *lds.Point, missed uint64)) {
	number := t.now.Interval()
	if j.begun && j.open.Interval() == number-1 {
		join(j.open, t.late)
		send(j.open, j.missed)
		join(t.now, j.early)
	} else {
		// The worker was not there, or its clock stepped. Early and late packets then
		// are all that there is of their intervals.
		if j.early.Interval() == number-1 {
			join(t.late, j.early)
			j.early.Begin(0)
		}
		j.flush(send)
		sendPart(t.late, send)
		t.now.Mark(lds.Partial)
	}
	j.open.Begin(number)
	join(j.open, t.now)
	j.open.Mark(t.now.Flags())
	j.early.Begin(number + 1)
	join(j.early, t.early)
	j.begun, j.missed = true, missed
}

// flush gives away what is open, without the packets that may still come.
func (j *joiner) flush(send func(p *lds.Point, missed uint64)) {
	if !j.begun {
		return
	}
	j.open.Mark(lds.Partial)
	send(j.open, j.missed)
	sendPart(j.early, send)
	j.begun = false
}

// sendPart gives away a part of an interval, if there is any: packets that were refused for
// their time are to be known too.
func sendPart(p *lds.Point, send func(p *lds.Point, missed uint64)) {
	if p.Packets() != 0 || p.Outside() != 0 {
		p.Mark(lds.Partial)
		send(p, 0)
	}
}

// Metrics implements pipeline.Metered.
func (m *Module) Metrics(emit func(pipeline.Metric)) {
	m.mu.Lock()
	var measured, skipped, byBit, timed, waited, stepped, missed, overruns uint64
	for _, s := range m.stages {
		measured, skipped, byBit = measured+s.measured.Load(), skipped+s.skipped.Load(), byBit+s.byBit.Load()
		timed, waited, stepped = timed+s.timed.Load(), waited+s.waited.Load(), stepped+s.stepped.Load()
	}
	m.mu.Unlock()
	for _, w := range m.workers {
		missed, overruns = missed+w.Missed(), overruns+w.Overruns()
	}
	for _, c := range []struct {
		name, help string
		value      uint64
	}{
		{"measured_packets_total", "packets counted in the points", measured},
		{"timed_packets_total", "of these, packets whose arrival the XDP program timed, to 1 ns; others have the batch's clock, to the time of a batch", timed},
		{"skipped_packets_total", "packets of the points without an IP header", skipped},
		{"marked_packets_total", "packets whose interval came from the shim", byBit},
		{"clock_steps_total", "steps of the clock that workers saw", stepped},
		{"missed_packets_total", "packets not measured because the exporter was late", missed},
		{"overruns_total", "intervals in which a worker lacked cells", overruns},
		{"records_total", "intervals of points given to the exporter", m.records.Load()},
	} {
		emit(pipeline.Metric{Name: c.name, Help: c.help, Value: float64(c.value)})
	}
	if m.egress {
		emit(pipeline.Metric{Name: "waited_ns_total", Help: "nanoseconds from the measured packets' arrival at the switch to the batch's clock", Value: float64(waited)})
	}
}
