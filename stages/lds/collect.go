package lds

import (
	"slices"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/epoch"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/record"
)

// mergeCells adds a worker's cells of a slice to those of others. dst is empty
// or of the same slice. In a slice in which the plan changed no point saw all packets of its own.
func (m *Module) mergeCells(dst, src *cells) {
	if dst.plan != src.plan {
		m.adopt(dst, src)
	}
	for i := range src.of {
		d := &dst.of[i]
		if dst.plan != src.plan {
			d = &dst.of[slices.Index(dst.at, src.at[i])]
		}
		s := &src.of[i]
		join(d.now, s.now)
		if d.late != nil {
			join(d.late, s.late)
			join(d.early, s.early)
		}
	}
}

// adopt makes dst have the points of src too.
func (m *Module) adopt(dst, src *cells) {
	for i, at := range src.at {
		n := slices.Index(dst.at, at)
		if n >= 0 && dst.of[n].now.Made().Equal(src.of[i].now.Made()) {
			continue
		}
		c := src.of[i].now.Made()
		t := newTrio(newPoints(slices.Repeat([]lds.Config{c}, 3)), at.class, m.bit, src.of[i].rows)
		if n >= 0 {
			dst.of[n] = t // the other worker's of other columns has to go
			continue
		}
		dst.at, dst.of = append(dst.at, at), append(dst.of, t)
	}
	for i := range dst.of {
		dst.of[i].each(func(p *lds.Point) { p.Mark(lds.Partial) })
	}
	dst.plan = nil
}

// join adds src to dst, in src's interval. An empty point may not have been given
// its interval.
func join(dst, src *lds.Point) {
	if src.Packets() == 0 && src.Outside() == 0 {
		dst.Mark(src.Flags())
		return
	}
	dst.Enter(src.Interval())
	if dst.Config().Rows != src.Config().Rows && dst.Packets() != 0 {
		// A worker, or the exporter, was held up for so long that they did not come to the same rows.
		dst.Refuse(src.Packets() + src.Outside())
		dst.Mark(lds.Partial)
		return
	}
	if err := dst.Merge(src); err != nil {
		panic(err) // one module has one config
	}
}

// clearCells empties cells; those of another plan make room for the present one's.
func (m *Module) clearCells(c *cells) {
	if c.plan != m.plan.Load() {
		*c = *m.newCells()
		return
	}
	for i := range c.of {
		c.of[i].each(func(p *lds.Point) { p.Begin(0) })
	}
}

// Collect implements export.Source.
func (m *Module) Collect(now int64, last bool, emit record.Emit) {
	m.begin()
	m.renew()
	m.interval.Store(now >> m.shift)
	each := func(s *epoch.Merged[cells]) { m.emit(s, emit) }
	m.merger.Collect(now, each)
	if !last {
		return
	}
	m.merger.Flush(each)
	for at, j := range m.joiners {
		j.flush(func(p *lds.Point, missed uint64) { m.send(at, j.number, p, missed, emit) })
	}
}

// emit sends the records of a slice; with the interval bit, those of the
// interval before it.
func (m *Module) emit(s *epoch.Merged[cells], emit record.Emit) {
	s.Cells.enter(s.Slice.Number())
	for i := range s.Cells.of {
		t, at := &s.Cells.of[i], s.Cells.at[i]
		if s.Partial || s.Missed != 0 {
			t.now.Mark(lds.Partial)
		}
		if !m.bit {
			t.choose(t.now, m.interval.Load())
			m.send(at, i, t.now, s.Missed, emit)
			continue
		}
		if s.Absent || s.Missed != 0 {
			t.late.Mark(lds.Partial) // late packets are among those that the slice lacks
		}
		j := m.joiners[at]
		if j == nil || !j.open.Made().Equal(t.now.Made()) {
			p := newPoints(slices.Repeat([]lds.Config{t.now.Made()}, 2))
			p[0].SetClass(at.class)
			p[1].SetClass(at.class)
			if j != nil {
				j.flush(func(p *lds.Point, missed uint64) { m.send(at, j.number, p, missed, emit) })
			}
			j = &joiner{open: p[0], early: p[1]}
			m.joiners[at] = j
		}
		j.number = i
		j.slice(t, s.Missed, func(p *lds.Point, missed uint64) {
			t.choose(p, m.interval.Load())
			m.send(at, i, p, missed, emit)
		})
	}
	m.dropJoiners(s.Cells.at, emit)
}

// dropJoiners gives away what is left of points that are no more.
func (m *Module) dropJoiners(at []point, emit record.Emit) {
	if len(m.joiners) <= len(at) {
		return
	}
	for gone, j := range m.joiners {
		if !slices.Contains(at, gone) {
			j.flush(func(p *lds.Point, missed uint64) { m.send(gone, j.number, p, missed, emit) })
			delete(m.joiners, gone)
		}
	}
}

// classInstance is set in the instance of a record of a class, whose other bits are its number among the switch's, and
// not a port's.
const classInstance = 1 << 15

// send emits one point's interval as a record. number is that of a class. Packets refused for their timestamp, as the
// worker came to them too late, are in no cell, and so among those that the record misses.
func (m *Module) send(at point, number int, p *lds.Point, missed uint64, emit record.Emit) {
	instance := uint16(2 * at.port)
	if at.port < 0 {
		instance = classInstance | uint16(2*number)
	}
	if m.egress {
		instance++
	}
	h := record.Header{
		Kind: record.LDS, Instance: instance,
		Start: p.Interval() << m.shift, Span: 1 << m.shift,
		Missed: missed + p.Outside(), Partial: p.Flags()&lds.Partial != 0,
	}
	plan := m.plan.Load()
	room := m.shape.room(p, plan.config.recordBytes(), len(plan.points()))
	emit(&h, func(dst []byte) ([]byte, error) {
		out, cells, want := p.AppendWithin(dst, room)
		m.shape.made(len(out)-len(dst), want)
		m.leftOut.Add(uint64(p.Config().Rows*p.Config().Columns - cells))
		return out, nil
	})
	m.records.Add(1)
}

// joiner puts an interval together from the slices of the clock that its packets
// arrived in: early ones in the slice before, late ones in the slice behind.
type joiner struct {
	open   *lds.Point // the interval that waits for its late packets
	early  *lds.Point // of the interval behind the open one
	begun  bool
	missed uint64
	number int // of a class
}

// slice takes the next slice, and gives away the interval before it.
func (j *joiner) slice(t *trio, missed uint64, send func(p *lds.Point, missed uint64)) {
	number := t.now.Interval()
	if late := number - 1 - j.open.Interval(); j.begun && late > 0 && late <= mostLate && missed == 0 && t.outside() == 0 && (t.now.Flags()|j.open.Flags())&(lds.Stepped|lds.Partial) == 0 {
		// The worker was held up over whole slices. It comes to all their packets now, and counts them in the intervals
		// next to this slice: over all of them none is lost, as none was so old that it was refused.
		for range late {
			j.advance(send)
		}
	}
	if j.begun && j.open.Interval() == number-1 {
		join(j.open, t.late)
		if t.outside() != 0 {
			j.open.Mark(lds.Partial) // what was refused may be of it
		}
		send(j.open, j.missed)
		join(t.now, j.early)
	} else {
		// The worker was not there, lacked cells, refused packets, or its clock stepped. Early and late packets then
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
	j.open.SetRows(t.now.Config().Rows)
	join(j.open, t.now)
	j.open.Mark(t.now.Flags())
	j.early.Begin(number + 1)
	j.early.SetRows(t.early.Config().Rows)
	join(j.early, t.early)
	j.begun, j.missed = true, missed
}

// mostLate is over how many slices a worker may be held up; what is longer is taken for an absence.
const mostLate = 64

// advance gives away the open interval, for one that no slice belongs to.
func (j *joiner) advance(send func(p *lds.Point, missed uint64)) {
	next := j.open.Interval() + 1
	send(j.open, j.missed)
	j.open.Begin(next)
	j.open.SetRows(j.early.Config().Rows)
	join(j.open, j.early)
	j.early.Begin(next + 1)
	j.missed = 0
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
	m.begin()
	m.mu.Lock()
	var measured, refused, skipped, byBit, timed, waited, stepped, missed, overruns, unclassed uint64
	for _, s := range m.stages {
		measured, skipped, byBit = measured+s.measured.Load(), skipped+s.skipped.Load(), byBit+s.byBit.Load()
		unclassed, refused = unclassed+s.unclassed.Load(), refused+s.refused.Load()
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
		{"refused_packets_total", "of these, packets in no cell, as the worker came to them more than half an interval outside of their interval: losses in it are not known", refused},
		{"timed_packets_total", "of these, packets whose arrival the XDP program timed, to 1 ns; others have the batch's clock, to the time of a batch", timed},
		{"skipped_packets_total", "packets of the points without an IP header", skipped},
		{"unclassed_packets_total", "packets of the measured ports that are of no class, and were measured by links alone, if at all", unclassed},
		{"marked_packets_total", "packets whose interval came from the shim", byBit},
		{"clock_steps_total", "steps of the clock that workers saw", stepped},
		{"missed_packets_total", "packets not measured because the exporter was late", missed},
		{"overruns_total", "intervals in which a worker lacked cells", overruns},
		{"records_total", "intervals of points given to the exporter", m.records.Load()},
		{"left_out_cells_total", "cells by which records have fewer than their points, to keep within record_bytes and the budget", m.leftOut.Load()},
	} {
		emit(pipeline.Metric{Name: c.name, Help: c.help, Value: float64(c.value)})
	}
	plan := m.plan.Load()
	fewer := 0
	for _, r := range plan.rows {
		if n := r.at(m.interval.Load()); n != 0 && n < plan.config.rows() {
			fewer++
		}
	}
	emit(pipeline.Metric{Name: "adapted_points", Help: "measurement points that count in fewer rows than configured now, as they have more flows than suit these", Value: float64(fewer), Gauge: true})
	emit(pipeline.Metric{Name: "points", Help: "measurement points: of ports, or of classes", Value: float64(len(plan.points())), Gauge: true})
	emit(pipeline.Metric{Name: "refused_classes", Help: "pairs of edges in the routing table for which there was no room: give class_columns less, or list those that matter", Value: float64(plan.refused), Gauge: true})
	if m.egress {
		emit(pipeline.Metric{Name: "waited_ns_total", Help: "nanoseconds from the measured packets' arrival at the switch to the batch's clock", Value: float64(waited)})
	}
}
