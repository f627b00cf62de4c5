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

// TestCondenseGap: behind a slice without digests the share is still that of the last one with some.
func TestCondenseGap(t *testing.T) {
	m, c := digestModule(t, true, 1), &collected{t: t}
	r := rand.New(rand.NewPCG(26, 11))
	slice := func(number int64) {
		for i := range 20_000 {
			rec := someRecord(r, 0)
			rec.TimeNs, rec.loop = uint64(number)<<sliceBits+uint64(i), false
			m.take(&rec)
		}
		m.Collect((number+1)<<sliceBits+grace, false, c.emit)
	}
	m.Shape(40_000)
	slice(100)
	slice(101)
	share := m.condensing.share
	if !m.condensing.on || share == 0 {
		t.Fatalf("condensing: %v, 1 of 2^%d", m.condensing.on, share)
	}
	m.Collect(105<<sliceBits, false, c.emit)
	before := m.condensing.condensed.Load()
	slice(105)
	if got := m.condensing.condensed.Load() - before; got < 20_000-20_000>>share*3/2 {
		t.Errorf("%d of 20,000 digests are condensed, and 1 of 2^%d is to be sent", got, share)
	}
}

// TestCondenseLate: digests that come late, when the sink condenses already, not any more, or by another share, are in records that say so.
func TestCondenseLate(t *testing.T) {
	m, c := digestModule(t, true, 1), &collected{t: t}
	r := rand.New(rand.NewPCG(26, 12))
	// digests come in that slice, of which some are one slice late.
	digests := func(number int64, n, late int) {
		for i := range n {
			rec := someRecord(r, 0)
			rec.TimeNs, rec.loop = uint64(number)<<sliceBits+uint64(i), false
			if i > 0 && i <= late {
				rec.TimeNs -= 1 << sliceBits
			}
			m.take(&rec)
		}
		m.Collect(number<<sliceBits+grace/2, false, c.emit)
	}
	shapes := []float64{40_000, 1e6, 20_000, 400_000, 1e6}
	digests(100, 8000, 0)
	for i, room := range shapes {
		m.Shape(room)
		digests(101+int64(i), 8000>>(i&1), 500)
	}
	m.Collect(110<<sliceBits, true, c.emit)
	all, condensed := uint64(0), false
	for i := range c.batches {
		b := &c.batches[i]
		all += uint64(len(b.Records))
		if b.Condensed == nil {
			continue
		}
		condensed = true
		for _, o := range b.Records {
			if !pint.Sampled(o.ID, b.Condensed.Share) {
				t.Fatalf("batch %d of %d: a digest of %d is not of the share 1 of 2^%d", i, len(c.batches), c.headers[i].Start>>sliceBits, b.Condensed.Share)
			}
		}
	}
	if all += m.condensing.condensed.Load(); all != 8000+8000+4000+8000+4000+8000 || !condensed {
		t.Errorf("%d digests are exported or condensed; condensed: %v", all, condensed)
	}
	c.check()
}
