package pint

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
	envelope "github.com/weirswitch/weir/telemetry/record"
)

// TestCondense: digests that do not fit are condensed, within the room, and each is counted once: as it is, or as condensed. What fits
// again is exported as it is.
func TestCondense(t *testing.T) {
	m := digestModule(t, true, 1)
	c := &collected{t: t}
	r := rand.New(rand.NewPCG(25, 10))
	path := []uint64{5, 9, 13}
	const room = 40_000
	bytes := 0
	emit := func(h *envelope.Header, body func([]byte) ([]byte, error)) {
		b, err := envelope.Append(nil, h, body)
		if err != nil {
			t.Fatal(err)
		}
		bytes += len(b)
		c.emit(h, body)
	}
	slice := func(number, digests int, loops int) (raw uint64, of []*pint.Condensed) {
		begin := len(c.batches)
		bytes = 0
		for i := range digests {
			o := pint.Record{ID: r.Uint64(), TimeNs: uint64(number)<<sliceBits + uint64(i), Plan: m.plans[0].id, Hops: uint8(len(path))}
			o.Flow = pint.FlowKey{Version: 4, Proto: 6, SrcPort: uint16(i % 20), DstPort: 443}
			for hop, sw := range path {
				v := pint.Observed{pint.SwitchID: sw, pint.HopLatency: 1000, pint.EgressUtilisation: 1000}
				o.Digest = m.plans[0].encoder.Encode(o.ID, hop+1, o.Digest, &v)
			}
			m.take(&record{Record: o, loop: i < loops})
		}
		m.Collect(int64(number+1)<<sliceBits+grace, false, emit)
		for i := begin; i < len(c.batches); i++ {
			raw += uint64(len(c.batches[i].Records))
			if x := c.batches[i].Condensed; x != nil {
				of = append(of, x)
				for _, o := range c.batches[i].Records {
					if !pint.Sampled(o.ID, x.Share) {
						t.Fatalf("slice %d: a digest is not of the share 1 of 2^%d", number, x.Share)
					}
				}
			}
		}
		return raw, of
	}
	packets := func(of []*pint.Condensed) (n, listed uint64) {
		for _, x := range of {
			n, listed = n+x.Packets, listed+x.Listed()
		}
		return n, listed
	}
	m.Shape(math.Inf(1))
	if raw, of := slice(100, 20_000, 0); raw != 20_000 || of != nil {
		t.Fatalf("without a bound %d of 20,000 digests come, and %d are condensed", raw, len(of))
	}
	m.Shape(room)
	for number := 101; number < 105; number++ {
		before := m.condensing.condensed.Load()
		raw, of := slice(number, 20_000, 7)
		n, listed := packets(of)
		if raw+m.condensing.condensed.Load()-before != 20_000 || n != listed || n < 15_000 {
			t.Errorf("slice %d: %d digests as they are, %d condensed, %d packets, %d of flows listed", number, raw, m.condensing.condensed.Load()-before, n, listed)
		}
		if number == 101 {
			continue // it was condensed from its beginning on, by the share of a first slice
		}
		if float64(bytes) > 1.2*room*sliceSeconds {
			t.Errorf("slice %d: %d bytes of %d per second", number, bytes, room)
		}
		for _, x := range of {
			for i := range x.Flows {
				if f := &x.Flows[i]; !slices.Equal(x.PathOf(f), path) {
					t.Errorf("slice %d: the path of %+v is %v", number, f, x.PathOf(f))
				}
			}
		}
	}
	if all, useful := m.Demand(); math.Abs(all-20_000*16.2/sliceSeconds) > 1000 || useful <= 0 || useful > all/10 {
		t.Errorf("a demand of %v, %v of it useful", all, useful)
	}
	slice(105, 500, 0) // condensed still: what comes is not known before
	if raw, of := slice(106, 500, 0); raw != 500 || of != nil {
		t.Errorf("%d of 500 digests come, and %d are condensed", raw, len(of))
	}
	if _, missed := c.check(); missed != 0 {
		t.Errorf("%d digests are missed", missed)
	}
}
