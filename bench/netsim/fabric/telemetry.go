package fabric

import (
	"fmt"

	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/intmd"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// Telemetry is what switches write into data packets. The zero value is nothing.
type Telemetry struct {
	// INT adds a HopRecord at each switch.
	INT bool
	// INTMD has switches write INT-MD stacks, as bytes: a data packet grows by them from the first switch to its host, which takes them out.
	// Packets of this network have no MTU; nil: no stacks.
	INTMD *intmd.Config
	// PINT encodes each switch's values into the digest; nil: no digest.
	PINT *encode.Encoder
	// RoundTrip is T of the links' utilisation, for PINT and INTMD.
	RoundTrip event.Time
	// Observed, if set, gets what a switch saw when it wrote the digest that the
	// packet now has, or into its stack, as hop number Hops. It must keep no pointer. pint.HopLatency is the time in a
	// switch that stores and forwards, from a packet's first bit in to its last bit out.
	Observed func(p *Packet, v *pint.Observed)
}

// meter is PINT at an egress port.
type meter struct {
	use  encode.Utilisation
	seen pint.Observed // the switch's id stays
}

func (t *Telemetry) newMeter(bitsPerSecond uint64) (meter, error) {
	u, err := encode.NewUtilisation(bitsPerSecond/8, uint64(t.RoundTrip/event.Nanosecond))
	if err != nil {
		return meter{}, fmt.Errorf("fabric: round trip: %w", err)
	}
	return meter{use: *u}, nil
}

// depart takes in a packet of whatever kind that leaves by the port (section 4.3: the
// utilisation is updated on every packet, with the queue as the packet is dequeued).
func (m *meter) depart(now event.Time, queue int64, bytes uint32) {
	m.use.Update(uint64(now/event.Nanosecond), uint64(queue), uint64(bytes))
}

// observe takes in a packet that came at a time, from which to now is its latency. Switches read clocks of nanoseconds.
func (m *meter) observe(came, now event.Time) {
	m.seen[pint.EgressUtilisation] = m.use.Value()
	m.seen[pint.HopLatency] = uint64(now/event.Nanosecond - came/event.Nanosecond)
}

// hop is what a switch writes into a stack, behind observe.
func (m *meter) hop(queue int64, came, now event.Time) intmd.Hop {
	return intmd.Hop{
		Known: intmd.NodeID | intmd.HopLatency | intmd.Queue | intmd.IngressTime | intmd.EgressTime | intmd.Utilisation,
		Node:  uint32(m.seen[pint.SwitchID]), Latency: uint32(m.seen[pint.HopLatency]), Queued: uint32(queue),
		IngressNs: uint64(came / event.Nanosecond), EgressNs: uint64(now / event.Nanosecond), Utilisation: uint32(m.seen[pint.EgressUtilisation]),
	}
}

// digest is what the packet carries on behind hop number hop, after observe.
func (m *meter) digest(e *encode.Encoder, id uint64, hop int, digest uint64) uint64 {
	return e.Encode(id, hop, digest, &m.seen)
}

// Reader finds a query's code in packets' digests, by the plan's encoder itself: a
// hop with the largest value and one without any leave digests that differ in the bits
// of the query, if the packet carries it.
type Reader struct {
	encoder *encode.Encoder
	value   pint.Value
	always  bool // every packet carries it there
	mask    uint64
	bytes   int
	values  []float64
}

// NewReader reads the digests of a query of the maximum of a value.
func NewReader(p *pintplan.Plan, query string) (*Reader, error) {
	q, ok := p.Query(query)
	if !ok || q.Aggregation != pint.Maximum {
		return nil, fmt.Errorf("fabric: plan %d has no query %q of a maximum", p.ID, query)
	}
	if q.Bits > 16 {
		return nil, fmt.Errorf("fabric: query %q has %d bits: use at most 16", query, q.Bits)
	}
	e, err := p.Compile()
	if err != nil {
		return nil, err
	}
	step, err := p.Step(q)
	if err != nil {
		return nil, err
	}
	r := &Reader{encoder: e, bytes: (p.Bits + 7) / 8, value: q.Value, values: make([]float64, 1<<q.Bits)}
	for code := range r.values {
		r.values[code] = step.Value(uint64(code))
	}
	if len(p.Queries) == 1 && q.Frequency == 1 {
		r.always, r.mask = true, uint64(len(r.values)-1)
	}
	return r, nil
}

// Bytes is the size of a digest on the wire.
func (r *Reader) Bytes() int { return r.bytes }

// Encoder is the plan's.
func (r *Reader) Encoder() *encode.Encoder { return r.encoder }

// Read returns the largest value on the packet's path, if the packet carries the query.
func (r *Reader) Read(id, digest uint64) (value float64, ok bool) {
	if r.always {
		return r.values[digest&r.mask], true
	}
	var v pint.Observed
	without := r.encoder.Encode(id, 1, 0, &v)
	v[r.value] = 1 << 62
	bits := r.encoder.Encode(id, 1, 0, &v) ^ without
	if bits == 0 {
		return 0, false
	}
	code := (digest & bits) / (bits & -bits)
	return r.values[code&uint64(len(r.values)-1)], true
}
