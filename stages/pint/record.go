package pint

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/sink"
)

// record is what a worker tells the recorder: a digest, or that a packet loops.
type record struct {
	pint.Record
	loop bool
}

// loopEntry is what is known of the looping packets of a flow.
type loopEntry struct {
	packets, lastNs uint64
	hops            int
}

// maxLoops bounds the flows of which loops are kept.
const maxLoops = 4096

// record gives a packet's digest to the recorder.
func (s *stage) record(b *packet.Batch, p *packet.Packet, plan uint16, hops int, digest uint64) {
	s.push(&record{Record: s.describe(b, p, plan, hops, digest)})
}

func (s *stage) describe(b *packet.Batch, p *packet.Packet, plan uint16, hops int, digest uint64) pint.Record {
	return pint.Record{
		Flow: flowKey(p, b.Data(p)), ID: p.ID, Digest: digest, TimeNs: uint64(p.Arrival), Plan: plan, Hops: uint8(min(hops, pint.MaxHops)),
	}
}

// push never waits: what finds the ring full is lost, and counted.
func (s *stage) push(r *record) {
	switch {
	case s.module.inline:
		s.module.take(r)
	case !s.records.Push(*r):
		s.counters.now[ringFull]++
		return
	}
	s.counters.now[recorded]++
}

// flowKey is the 5-tuple. Packets that are not IP are flows by their addresses
// and EtherType: version 0, and the type where the destination port stands.
func flowKey(p *packet.Packet, data []byte) pint.FlowKey {
	if k, ok := p.Key(data); ok {
		return pint.FlowKey(k)
	}
	var k pint.FlowKey
	copy(k.Dst[:6], data[0:6])
	copy(k.Src[:6], data[6:12])
	k.DstPort = p.EtherType
	return k
}

// FlowText is a flow as text, of IP packets as packet.FlowKey writes it. Of
// shorter definitions than the 5-tuple, what is missing is 0.
func FlowText(k pint.FlowKey) string {
	if k.Version == 0 {
		return fmt.Sprintf("%s > %s type 0x%04x", net.HardwareAddr(k.Src[:6]), net.HardwareAddr(k.Dst[:6]), k.DstPort)
	}
	return packet.FlowKey(k).String()
}

// newRecorder makes the recorder of all plans, the one that sources use last,
// since the newest answers first.
func (m *Module) newRecorder() error {
	for i, p := range slices.Backward(m.loaded.plans) {
		m.queries = slices.Insert(m.queries, 0, p.Queries...)
		config := sink.RecorderConfig{
			MaxFlows: m.config.MaxFlows, Decoders: m.config.decoders(p, m.loaded.topology),
			PathEvent: func(_ string, _ pint.FlowKey, e sink.Event) { m.events[e]++ },
		}
		if !slices.Contains(m.loaded.edge, true) {
			return nil // nothing ends here, so nothing is decoded
		}
		var err error
		if m.recorder == nil {
			// Queries of both plans may have the same name, then with the same values.
			for _, other := range m.loaded.plans[:i] {
				maps.Copy(config.Decoders, m.config.decoders(other, m.loaded.topology))
			}
			m.recorder, err = sink.NewRecorder(p, config)
		} else {
			err = m.recorder.AddPlan(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// The recorder sleeps between two looks at the rings: shortly while digests
// come, longer when all is quiet.
const (
	busyPause = time.Millisecond
	idlePause = 16 * time.Millisecond
)

// Run implements pipeline.Background: it records what the workers push, until
// stop is closed and the rings are empty.
func (m *Module) Run(stop <-chan struct{}) {
	pause := idlePause
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			m.drain()
			return
		case <-timer.C:
		}
		if m.drain() > 0 {
			pause = busyPause
		} else {
			pause = min(2*pause, idlePause)
		}
		timer.Reset(pause)
	}
}

// drain records all that waits, and returns how many records that were.
func (m *Module) drain() int {
	n := 0
	for _, s := range m.stages {
		m.mu.Lock()
		n += s.records.Drain(m.note)
		m.recordNoted()
		m.mu.Unlock()
	}
	return n
}

// take records one digest at once.
func (m *Module) take(r *record) {
	m.mu.Lock()
	m.note(r)
	m.recordNoted()
	m.mu.Unlock()
}

// maxNoted is how many records are noted before they are recorded together: many
// times the block that the recorder looks ahead at.
const maxNoted = 256

// recordNoted records what note has gathered; the caller has locked.
func (m *Module) recordNoted() {
	if m.recorder != nil {
		m.recorder.RecordBatch(m.noted)
	}
	m.noted = m.noted[:0]
}

// note is drain's and take's for each record; the caller has locked, and calls
// recordNoted in the end.
func (m *Module) note(r *record) {
	if m.outbox != nil {
		m.outbox.put(r)
	}
	if !r.loop {
		if m.noted = append(m.noted, r.Record); len(m.noted) == maxNoted {
			m.recordNoted()
		}
		return
	}
	e := m.loops[r.Flow]
	if e == nil {
		if len(m.loops) == maxLoops {
			m.forgetLoop()
		}
		e = new(loopEntry)
		m.loops[r.Flow] = e
	}
	e.packets++
	e.lastNs, e.hops = r.TimeNs, int(r.Hops)
}

// forgetLoop makes room: the flow that looped longest ago goes.
func (m *Module) forgetLoop() {
	var oldest pint.FlowKey
	first := uint64(1<<64 - 1)
	for k, e := range m.loops {
		if e.lastNs < first {
			oldest, first = k, e.lastNs
		}
	}
	delete(m.loops, oldest)
}

// recorderMetrics are what the recorder counts, and what is exported.
func (m *Module) recorderMetrics(emit func(pipeline.Metric)) {
	m.outboxMetrics(emit)
	if m.recorder == nil {
		return
	}
	m.mu.Lock()
	c := m.recorder.Counts()
	certain, changed := m.events[sink.Certain], m.events[sink.Changed]
	m.mu.Unlock()
	for _, v := range []struct {
		name, help string
		n          uint64
	}{
		{"decoded_records_total", "records that the recorder took in", c.Records},
		{"unknown_plan_records_total", "records of a plan that the recorder does not know", c.UnknownPlan},
		{"no_hops_records_total", "records without a hop number", c.BadHops},
		{"no_query_records_total", "records of packets for which the plan has no query", c.NoQuery},
		{"evicted_flows_total", "flows that were forgotten to make room, of all queries", c.Evicted},
		{"certain_paths_total", "paths that became certain", certain},
		{"changed_paths_total", "changes of a path that were noticed", changed},
	} {
		emit(pipeline.Metric{Name: v.name, Help: v.help, Value: float64(v.n)})
	}
}
