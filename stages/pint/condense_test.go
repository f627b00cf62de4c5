package pint

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
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
				f := &x.Flows[i]
				if !slices.Equal(x.PathOf(f), path) {
					t.Errorf("slice %d: the path of %+v is %v", number, f, x.PathOf(f))
				}
				// A query of the default plan reads a hop of 15 of 16 packets.
				readings := uint64(0)
				for _, v := range f.ValuesOf(1) {
					for _, n := range v.Counts {
						readings += n.Count
					}
				}
				if readings < f.Packets*8/10 || readings > f.Packets {
					t.Errorf("slice %d: of a flow of %d packets %d latencies are counted", number, f.Packets, readings)
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

// TestCondenseRead: of many packets from edge to edge a sink that condenses reads a share, from which it tells how many packets flows
// had; when fewer come it reads all again, and exports them as they are.
func TestCondenseRead(t *testing.T) {
	config := DefaultConfig()
	config.Edge = []string{"p0", "p1"}
	m, err := New(config, pipeline.Env{ID: 1, Workers: 1, Ports: []pipeline.Port{{Name: "p0"}, {Name: "p1"}}})
	if err != nil {
		t.Fatal(err)
	}
	m.Inline()
	m.Listen()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 128, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	b := packet.NewBatch(pool.NewCache(), packet.BatchSize)
	const flows = 50
	var frames [flows]uint64
	for i := range frames {
		addr, _ := b.Frames.AllocOne()
		frames[i] = addr
		copy(b.Mem[addr:], ethernet(0x0800, ipv4(64, 0, 17, udp(1000+i, 443, make([]byte, 20)))))
	}
	r := rand.New(rand.NewPCG(27, 12))
	c := &collected{t: t}
	total, number := uint64(0), int64(100)
	slice := func(packets int) (raw, n uint64, read []uint8, by map[uint16]uint64) {
		begin, by := len(c.batches), map[uint16]uint64{}
		for done := 0; done < packets; done += packet.BatchSize {
			b.Reset()
			b.Now = number<<sliceBits + int64(done)
			for i := range packet.BatchSize {
				flow := 0 // has half of all packets
				if i%2 == 1 {
					flow = r.IntN(flows)
				}
				p := b.Append()
				p.Addr, p.Len, p.WireLen, p.L3, p.L4, p.Payload = frames[flow], 62, 62, 14, 34, 42
				p.Flags, p.Proto, p.EtherType, p.SrcPort, p.DstPort = packet.FlagIPv4|packet.FlagL4|packet.FlagPorts, 17, 0x0800, uint16(1000+flow), 443
				p.ID, p.Arrival, p.InPort, p.OutPort = r.Uint64()|1, b.Now-1000, 0, 1
			}
			m.stages[0].Process(b)
			total += packet.BatchSize
			if done%(1<<13) == 0 { // often, as an exporter does
				m.Collect(b.Now, false, c.emit)
			}
		}
		number++
		m.Collect(number<<sliceBits+grace, false, c.emit)
		for i := begin; i < len(c.batches); i++ {
			raw += uint64(len(c.batches[i].Records))
			if x := c.batches[i].Condensed; x != nil && x.Packets > 0 {
				n, read = n+x.Packets, append(read, x.Read)
				for _, f := range x.Flows {
					by[f.Flow.SrcPort] += f.Packets
				}
			}
		}
		return raw, n, read, by
	}
	m.Shape(200_000)
	const many = 3 << 18
	if raw, n, read, _ := slice(many); n < many*9/10 || slices.Max(read) != 0 {
		t.Fatalf("in the first slice %d packets are condensed, by shares of 1 in 2^%v, and %d digests exported", n, read, raw)
	}
	for range 2 {
		raw, n, read, by := slice(many)
		// A packet is among 1 of 4, and counts for 4: the standard deviation of n is sqrt(3 n), and beyond six of them the chance is 2e-9.
		if off := math.Abs(float64(n) - many); off > 6*math.Sqrt(3*many) || slices.Max(read) != 2 || slices.Min(read) != 2 {
			t.Errorf("%d packets of %d, by shares of 1 in 2^%v", n, many, read)
		}
		if of := many/2 + many/2/flows; math.Abs(float64(by[1000])-float64(of)) > 6*math.Sqrt(3*float64(of)) {
			t.Errorf("a flow of about %d packets has %d", of, by[1000])
		}
		if raw == 0 || float64(raw)*16.2 > 200_000*sliceSeconds {
			t.Errorf("%d digests are exported as they are", raw)
		}
	}
	x := counts(m)
	if x["local_packets_total"] != total || x["records_total"]+x["unread_packets_total"] != total || x["unread_packets_total"] < 2*many*7/10 {
		t.Errorf("%d packets: %v", total, x)
	}
	slice(6400) // by the share of the slice before
	before := counts(m)["unread_packets_total"]
	if _, n, read, _ := slice(6400); n != 6400 || slices.Max(read) != 0 {
		t.Errorf("%d of 6400 packets, by shares of 1 in 2^%v", n, read)
	}
	if raw, _, read, _ := slice(6400); raw != 6400 || read != nil || counts(m)["unread_packets_total"] != before {
		t.Errorf("%d of 6400 digests are exported as they are, others by shares of 1 in 2^%v", raw, read)
	}
	if _, missed := c.check(); missed != 0 {
		t.Errorf("%d digests are missed", missed)
	}
}

// TestCondenseReadFew: of flows with few packets, too, a path is known where a share is read, and their values are counted; behind a silence all
// packets are read again.
func TestCondenseReadFew(t *testing.T) {
	m := digestModule(t, true, 1)
	m.condensing.on, m.condensing.share, m.condensing.slice = true, 5, 100
	m.condensing.ask(3)
	c := &collected{t: t}
	r := rand.New(rand.NewPCG(28, 1))
	const flows = 100
	for i := range flows {
		o := pint.Record{ID: r.Uint64(), TimeNs: 100<<sliceBits + uint64(i), Plan: m.plans[0].id, Hops: 1}
		o.Flow = pint.FlowKey{Version: 4, Proto: 17, SrcPort: uint16(i), DstPort: 443}
		v := pint.Observed{pint.SwitchID: 1, pint.HopLatency: 1000, pint.EgressUtilisation: 1000}
		o.Digest = m.plans[0].encoder.Encode(o.ID, 1, 0, &v)
		m.take(&record{Record: o, weight: 3})
	}
	m.Collect(101<<sliceBits+grace, false, c.emit)
	known, unlocated, readings := 0, uint64(0), uint64(0)
	for i := range c.batches {
		if x := c.batches[i].Condensed; x != nil {
			unlocated += x.Unlocated
			for j := range x.Flows {
				if slices.Equal(x.PathOf(&x.Flows[j]), []uint64{1}) && x.Flows[j].Packets == 8 && x.Flows[j].Changes == 0 {
					known++
				}
			}
			for _, v := range x.Values {
				for _, n := range v.Counts {
					readings += n.Count
				}
			}
		}
	}
	if known != flows || unlocated != 0 || readings == 0 || readings%8 != 0 {
		t.Errorf("of %d flows with one digest %d have their path; %d readings are without a switch, %d with", flows, known, unlocated, readings)
	}
	m.condensing.ask(3)
	m.Collect(105<<sliceBits, false, c.emit)
	if read := m.read.Load(); read != 0 {
		t.Errorf("behind a silence workers are asked for 1 of 2^%d", read)
	}
}
