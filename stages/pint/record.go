package pint

import (
	"time"

	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/pint"
)

// record is what a worker reports: a digest, or that a packet loops.
type record struct {
	pint.Record
	loop bool
}

// record reports a packet's digest.
func (s *stage) record(b *packet.Batch, p *packet.Packet, plan uint16, hops int, digest uint64) {
	s.push(&record{Record: s.describe(b, p, plan, hops, digest)})
}

func (s *stage) describe(b *packet.Batch, p *packet.Packet, plan uint16, hops int, digest uint64) pint.Record {
	return pint.Record{
		Flow: flowKey(p, b.Data(p)), ID: p.ID, Digest: digest, TimeNs: uint64(p.Arrival), Plan: plan, Hops: uint8(min(hops, pint.MaxHops)),
	}
}

// push never waits: a record that finds the ring full is lost, and counted.
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
// and EtherType: version 0, and the type instead of the destination port.
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

// Run sleeps between two looks at the rings: shortly while digests come, longer when all is quiet.
const (
	busyPause = time.Millisecond
	idlePause = 16 * time.Millisecond
)

// Run implements pipeline.Background: it takes what the workers push, until stop is closed and the rings are empty.
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

// drain moves all that waits in the rings to the outbox, and returns how many records that were.
func (m *Module) drain() int {
	n := 0
	for _, s := range m.stages {
		m.mu.Lock()
		n += s.records.Drain(m.note)
		m.mu.Unlock()
	}
	return n
}

// take notes one record at once.
func (m *Module) take(r *record) {
	m.mu.Lock()
	m.note(r)
	m.mu.Unlock()
}

// note puts a record into the outbox, if there is one. The caller has locked.
func (m *Module) note(r *record) {
	if m.outbox != nil {
		m.outbox.put(r)
	}
}
