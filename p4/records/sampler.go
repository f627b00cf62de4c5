package records

import (
	"errors"

	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/pipeline/epoch"
	"github.com/weirswitch/weir/pipeline/packet"
	stage "github.com/weirswitch/weir/stages/oblivious"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/record"
)

// sampler keeps the samples of what the switch admits: of each epoch the smallest ranks. It gives the switch
// when it needs no larger ones.
type sampler struct {
	*source
	module         *stage.Module
	bits           uint8
	packets, bytes array
	samples        [2]sample // by parity
	number         int64     // the epoch that is to be emitted next
	begun          int64
	wait           int64  // how long behind an epoch's end its copies may come, in ns
	stray          uint64 // copies of other epochs, since the last record
}

// copiesSettle is how many times longer than to be counted a packet may take to come here, which it does by a
// queue and an interface.
const copiesSettle = 10

// sample is that of one epoch.
type sample struct {
	*oblivious.Sampler
	number    int64
	threshold uint64 // what the switch was told: the high half of the largest rank
	late      bool   // it was told of the epoch when that had begun
}

func newSampler(s *source, m *stage.Module, now int64) (*sampler, error) {
	d := &sampler{
		source: s, module: m, bits: m.EpochBits(),
		packets: array{name: "oblivious_ingress.packets", bits: 64}, bytes: array{name: "oblivious_ingress.bytes", bits: 64},
	}
	d.wait = min(copiesSettle*s.settle, 1<<d.bits>>2)
	for i := range d.samples {
		d.samples[i].Sampler = m.Sampler()
	}
	if err := readAll(s.target, &d.packets, &d.bytes); err != nil {
		return nil, err
	}
	return d, d.enter(now)
}

// enter begins in the midst of an epoch: what the switch had counted at the last reading is not counted.
func (d *sampler) enter(now int64) error {
	d.begun, d.number = now, now>>d.bits
	forget(&d.packets, &d.bytes)
	return errors.Join(d.begin(d.number), d.begin(d.number+1))
}

// begin empties a sample for an epoch, of which the switch is to admit all packets at first.
func (d *sampler) begin(number int64) error {
	s := &d.samples[number&1]
	s.Reset()
	s.number = number
	err := d.lower(s, 1<<64-1)
	s.late = err != nil || d.clock() >= number<<d.bits
	return err
}

// lower gives the switch the largest rank that can enter.
func (d *sampler) lower(s *sample, limit uint64) error {
	s.threshold = limit >> 32
	return d.write(tables.ThresholdRegisters(uint64(s.number), limit|(1<<32-1)))
}

// insert takes a copy in, of the epoch in which the switch admitted it.
func (d *sampler) insert(number int64, b *packet.Batch, p *packet.Packet) {
	s := &d.samples[number&1]
	if s.number != number {
		d.stray++
		return
	}
	d.module.Insert(s.Sampler, b, p)
}

// collect emits the samples of epochs that are over, and lowers thresholds. The last time it emits all: an epoch
// whose copies may still be on their way, too, and the one behind it.
func (d *sampler) collect(now int64, last bool, emit record.Emit) error {
	for {
		end := (d.number + 1) << d.bits
		over, settled := now >= end, now >= end+d.wait
		if !settled && !last {
			return d.lowerAll()
		}
		if err := readAll(d.target, &d.packets, &d.bytes); err != nil {
			return err
		}
		missed, late := uint64(0), d.clock() >= end+1<<d.bits
		s := &d.samples[d.number&1]
		if late {
			missed = d.packets.take(0) + d.packets.take(1)
			s.Reset()
			d.source.late.Add(1)
		} else {
			s.Count(d.packets.take(int(d.number&1)), d.bytes.take(int(d.number&1)))
		}
		missed, d.stray = missed+d.stray, 0
		slice := epoch.Slice{Start: d.number << d.bits, Shift: d.bits}
		d.module.Emit(s.Sampler, slice, missed, late || !settled || s.late || slice.Start < d.begun, emit)
		if late {
			return d.enter(max(now, d.clock()))
		}
		if !over {
			return nil
		}
		d.number++
		if err := d.begin(d.number + 1); err != nil {
			return err
		}
	}
}

// lowerAll lowers the thresholds of both epochs, as far as the samples are full.
func (d *sampler) lowerAll() error {
	for i := range d.samples {
		s := &d.samples[i]
		if limit := s.Limit(); limit>>32 < s.threshold {
			if err := d.lower(s, limit); err != nil {
				return err
			}
		}
	}
	return nil
}
