package pint

import (
	"time"

	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// record is what a worker reports: a digest, or that a packet loops.
type record struct {
	pint.Record
	loop   bool
	weight uint8 // it is for 2^weight packets
}

// report writes a record where it waits for the exporter: a copy of so many bytes would cost about as much as the rest. It never
// waits: one that finds the ring full is lost, and counted.
func (s *stage) report(b *packet.Batch, p *packet.Packet, plan uint16, hops int, digest uint64, loop bool) {
	s.record() // those before it
	r := s.ahead(0)
	if r == nil {
		s.lose(0)
		return
	}
	r.describe(b, p, plan, hops, digest, loop)
	s.commit(1)
}

// lose counts a record for 2^weight packets that found no room.
func (s *stage) lose(weight uint8) {
	s.counters.now[ringFull]++
	s.counters.now[missed] += 1 << (weight & 63)
}

// ahead is where the record behind n others that are not committed is to be written, nil if there is no room.
func (s *stage) ahead(n int) *record {
	if s.module.inline {
		return &s.held[n&(encode.BlockSize-1)]
	}
	return s.records.Ahead(n)
}

// commit gives the first n records to the exporter.
func (s *stage) commit(n int) {
	if s.module.inline {
		for i := range s.held[:n] {
			s.module.take(&s.held[i])
		}
	} else {
		s.records.Commit(n)
	}
	s.counters.now[recorded] += uint64(n)
}

// describe writes all of a record.
func (r *record) describe(b *packet.Batch, p *packet.Packet, plan uint16, hops int, digest uint64, loop bool) {
	flowKey(&r.Flow, p, b.Data(p))
	r.ID, r.Digest, r.TimeNs, r.Plan, r.Hops, r.loop = p.ID, digest, uint64(p.Arrival), plan, uint8(min(hops, pint.MaxHops)), loop
	r.weight = 0
}

// flowKey writes the 5-tuple. Packets that are not IP are flows by their addresses
// and EtherType: version 0, and the type instead of the destination port.
func flowKey(k *pint.FlowKey, p *packet.Packet, data []byte) {
	if p.WriteKey((*packet.FlowKey)(k), data) {
		return
	}
	*k = pint.FlowKey{DstPort: p.EtherType}
	copy(k.Dst[:6], data[0:6])
	copy(k.Src[:6], data[6:12])
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
