package pint

import (
	"encoding/binary"
	"slices"
)

// Append appends the binary form of the batch to dst.
func (d *Digests) Append(dst []byte) []byte {
	if d.Condensed == nil {
		return append(dst, d.body...)
	}
	dst = binary.AppendUvarint(append(dst, d.Condensed.version()), uint64(len(d.body)))
	return d.Condensed.append(append(dst, d.body...))
}

// AppendOf appends the binary form of the batch as it is for a question about some flows, those that has reports true of; false: it has
// nothing of them. Of what was condensed, the packets that flows do not have stay, and values of all flows go.
func (d *Digests) AppendOf(dst []byte, has func(*FlowKey) bool) ([]byte, bool) {
	b := DigestBatch{Boot: d.Boot, Sequence: d.Sequence, Sent: d.Sent, Loop: d.Loop, Plan: d.Plan}
	for i := range d.Flows() {
		if k := d.Flow(i); has(&k) {
			b.Records = d.AppendFlow(b.Records, i)
		}
	}
	some := len(b.Records) > 0
	if d.Condensed != nil {
		b.Condensed = d.Condensed.of(has)
		some = some || len(b.Condensed.Flows) > 0
	}
	return AppendDigests(dst, &b), some
}

// of is what was condensed of some flows.
func (c *Condensed) of(has func(*FlowKey) bool) *Condensed {
	part := &Condensed{Share: c.Share, Read: c.Read, Packets: c.Packets, Query: c.Query, Unlocated: c.Unlocated, Bounded: c.Bounded, Evicted: c.Evicted, Least: c.Least, Step: c.Step}
	numbers := map[uint32]uint32{}
	for i := range c.Flows {
		f := c.Flows[i]
		if !has(&f.Flow) {
			part.Packets -= f.Packets
			continue
		}
		if f.Path != 0 {
			n, known := numbers[f.Path]
			if !known {
				part.Paths = append(part.Paths, slices.Clone(c.PathOf(&f)))
				n = uint32(len(part.Paths))
				numbers[f.Path] = n
			}
			f.Path = n
		}
		part.Flows = append(part.Flows, f)
	}
	return part
}
