package pint

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
)

// Record is what the sink keeps of a packet.
type Record struct {
	Flow   FlowKey // the 5-tuple
	ID     uint64  // of the packet
	Digest uint64
	TimeNs uint64 // of the plan's clock
	Plan   uint16
	Hops   uint8 // that the packet passed
}

// DigestBatch is what a sink took off packets, of one plan and partition, as it
// travels: the body of a record of kind PINT.
type DigestBatch struct {
	// Boot is drawn when the sink starts. Of one boot and partition, batches are
	// numbered from 0 by Sequence, and Sent is how many digests were in those before,
	// so that a reader who misses one knows how many digests it lacks.
	Boot, Sequence, Sent uint64
	// Loop says that the records are of packets that the switch found to loop, as
	// they were then, and not of packets that ended here.
	Loop bool
	Plan uint16
	// Records are of the plan, at most MaxDigests; flows in any order, the records of each
	// in the order in which their packets came.
	Records []Record
	// Condensed is what the sink read from all digests, of which Records are a sample; nil: Records are all.
	Condensed *Condensed
}

// MaxDigests is how many digests a batch has at most.
const MaxDigests = 1<<16 - 1

// ErrDigests says that bytes are no batch of digests.
var ErrDigests = errors.New("not a batch of digests")

// Partition is the part of n in which all digests of a flow travel; flow is a
// 5-tuple.
func (k *FlowKey) Partition(n int) int {
	return int(hash.Reduce(k.Hash(partitionSeed), uint64(n)))
}

// partitionSeed is a part of the records' format.
const partitionSeed = 'p'

// The binary form of a batch, numbers little-endian but in flows; a length is in
// bytes, n is how many digests there are:
//
//	version(1) flags(1) digest width(1) time width(1) plan(2) n(2)
//	short flows(2) long flows(2) boot(8) sequence(8) sent(8) first time(8)
//	short flows of 13 each: source(4) destination(4) ports(2+2) protocol(1)
//	long flows of 38 each:  source(16) destination(16) ports(2+2) protocol(1) version(1)
//	for each flow, short ones first: the end of its run of digests(2)
//	n packet ids(8)
//	n digests(digest width)
//	n times(time width), behind the first
//	n hop numbers(1)
//
// Flows are in the order of their bytes, each once, and short if they can be: if
// they are of IPv4 with nothing behind the addresses. Widths are the least that hold
// the column. So a batch has one form only, a flow is found by bisection, and its
// digests lie together.
//
// A digest costs 9 bytes, its digest width (2 for 16 bits) and the time's (4
// within a slice of 2^30 ns, 3 within 16 ms), and a flow's share of 15 or 40: with two
// bytes and four digests of a flow, 19 bytes. In memory it is 72.
//
// Version 2, of a batch whose digests were condensed, and 3, where flows may have values of their own beside, is
//
//	version(1) length of the form above(uvarint) that form, of version 1; what was condensed, see Condensed.append
const (
	digestsVersion   = 1
	condensedVersion = 2
	// flowValuesVersion is that of a batch whose condensed flows may have Values; of condensedVersion are those of earlier releases.
	flowValuesVersion = 3

	digestsHeader = 44
	flagLoop      = 1
	shortFlow     = 13
	longFlow      = 38
	runEnd        = 2
	idWidth       = 8
	hopsWidth     = 1
)

// short reports whether a flow has the short form.
func (k *FlowKey) short() bool {
	zero := [12]byte{}
	return k.Version == 4 && [12]byte(k.Src[4:]) == zero && [12]byte(k.Dst[4:]) == zero
}

// appendBytes appends the flow's short or long form.
func (k *FlowKey) appendBytes(b []byte) []byte {
	n := 16
	if k.short() {
		n = 4
	}
	b = append(b, k.Src[:n]...)
	b = append(b, k.Dst[:n]...)
	b = binary.BigEndian.AppendUint16(b, k.SrcPort)
	b = binary.BigEndian.AppendUint16(b, k.DstPort)
	if b = append(b, k.Proto); n == 16 {
		b = append(b, k.Version)
	}
	return b
}

// setBytes is the inverse of appendBytes.
func (k *FlowKey) setBytes(b []byte) {
	n := 16
	if *k = (FlowKey{Version: 4}); len(b) == shortFlow {
		n = 4
	} else {
		k.Version = b[longFlow-1]
	}
	copy(k.Src[:n], b)
	copy(k.Dst[:n], b[n:])
	k.SrcPort, k.DstPort = binary.BigEndian.Uint16(b[2*n:]), binary.BigEndian.Uint16(b[2*n+2:])
	k.Proto = b[2*n+4]
}

// Compare orders flows as a batch has them: short ones first, then by bytes.
func (k *FlowKey) Compare(o *FlowKey) int {
	if short := k.short(); short != o.short() {
		if short {
			return -1
		}
		return 1
	}
	word := func(b []byte) uint64 { return binary.BigEndian.Uint64(b) }
	return cmp.Or(
		cmp.Compare(word(k.Src[:8]), word(o.Src[:8])), cmp.Compare(word(k.Src[8:]), word(o.Src[8:])),
		cmp.Compare(word(k.Dst[:8]), word(o.Dst[:8])), cmp.Compare(word(k.Dst[8:]), word(o.Dst[8:])),
		cmp.Compare(k.rest(), o.rest()),
	)
}

// rest is what a flow has beside its addresses, in the order of its bytes.
func (k *FlowKey) rest() uint64 {
	return uint64(k.SrcPort)<<32 | uint64(k.DstPort)<<16 | uint64(k.Proto)<<8 | uint64(k.Version)
}

// widthOf is how many bytes a value needs, 0 for 0.
func widthOf(v uint64) int { return (bits.Len64(v) + 7) / 8 }

// AppendDigests appends the binary form of a batch to dst. The plans of the records
// are taken to be the batch's. It panics beyond MaxDigests.
func AppendDigests(dst []byte, b *DigestBatch) []byte {
	n := len(b.Records)
	if n > MaxDigests {
		panic(fmt.Sprintf("pint: a batch of %d digests", n))
	}
	if b.Condensed != nil {
		plain := *b
		plain.Condensed = nil
		form := AppendDigests(nil, &plain)
		dst = binary.AppendUvarint(append(dst, b.Condensed.version()), uint64(len(form)))
		return b.Condensed.append(append(dst, form...))
	}
	g := groupFlows(b.Records)
	first, last, digest := uint64(0), uint64(0), uint64(0)
	if n > 0 {
		first, last = b.Records[0].TimeNs, b.Records[0].TimeNs
	}
	for i := range b.Records {
		r := &b.Records[i]
		first, last, digest = min(first, r.TimeNs), max(last, r.TimeNs), digest|r.Digest
	}
	digestWidth, timeWidth := widthOf(digest), widthOf(last-first)
	flags := byte(0)
	if b.Loop {
		flags = flagLoop
	}
	dst = append(dst, digestsVersion, flags, byte(digestWidth), byte(timeWidth))
	for _, v := range []int{int(b.Plan), n, g.short, len(g.flows) - g.short} {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(v))
	}
	for _, v := range []uint64{b.Boot, b.Sequence, b.Sent, first} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	for _, f := range g.flows {
		dst = b.Records[f.first].Flow.appendBytes(dst)
	}
	for _, f := range g.flows {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(f.end))
	}
	for _, i := range g.order {
		dst = binary.LittleEndian.AppendUint64(dst, b.Records[i].ID)
	}
	for _, i := range g.order {
		dst = appendWide(dst, b.Records[i].Digest, digestWidth)
	}
	for _, i := range g.order {
		dst = appendWide(dst, b.Records[i].TimeNs-first, timeWidth)
	}
	for _, i := range g.order {
		dst = append(dst, b.Records[i].Hops)
	}
	return dst
}

// appendWide appends the lower bytes of a value.
func appendWide(dst []byte, v uint64, width int) []byte {
	return binary.LittleEndian.AppendUint64(dst, v)[:len(dst)+width]
}

// number is a value of a width at the beginning of b.
func number(b []byte, width int) (v uint64) {
	if len(b) >= 8 {
		return binary.LittleEndian.Uint64(b) & (1<<(8*uint(width)) - 1)
	}
	for i := width - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

// groups are the records of a batch by flow.
type groups struct {
	flows []flowRun // in the order of the form
	short int       // of these
	order []uint16  // of the records
}

// flowRun is a flow with its records: first is the number of one of them, end where its
// run ends.
type flowRun struct{ first, end int }

// groupFlows numbers the flows of records by a table of open addressing, sorts the
// flows, and counts the records into their places.
func groupFlows(records []Record) groups {
	slots := make([]uint16, 1<<bits.Len(uint(2*len(records)))) // number of a flow from 1, 0: free
	mask := len(slots) - 1
	flowOf, runs := make([]uint16, len(records)), make([]flowRun, 0, 64)
	for i := range records {
		k := &records[i].Flow
		at := int(k.Hash(partitionSeed)) & mask
		for slots[at] != 0 && records[runs[slots[at]-1].first].Flow != *k {
			at = (at + 1) & mask
		}
		if slots[at] == 0 {
			runs = append(runs, flowRun{first: i})
			slots[at] = uint16(len(runs))
		}
		flowOf[i] = slots[at] - 1
		runs[flowOf[i]].end++
	}
	g := groups{flows: slices.Clone(runs), order: make([]uint16, len(records))}
	slices.SortFunc(g.flows, func(a, b flowRun) int {
		return records[a.first].Flow.Compare(&records[b.first].Flow)
	})
	begin := 0
	for i := range g.flows {
		f := &g.flows[i]
		if records[f.first].Flow.short() {
			g.short++
		}
		run := &runs[flowOf[f.first]]
		run.end, begin = begin, begin+f.end // run.end is now where the next of its records goes
		f.end = begin
	}
	for i, f := range flowOf {
		g.order[runs[f].end] = uint16(i)
		runs[f].end++
	}
	return g
}

// DecodeDigests sets b from its binary form; it takes the memory of b.Records where that
// suffices. Records are by flow. On error, which wraps ErrDigests, b is as it was.
func DecodeDigests(body []byte, b *DigestBatch) error {
	d, err := CheckDigests(body)
	if err != nil {
		return err
	}
	records := slices.Grow(b.Records[:0], d.Len())
	for i := range d.Flows() {
		records = d.AppendFlow(records, i)
	}
	*b = DigestBatch{Boot: d.Boot, Sequence: d.Sequence, Sent: d.Sent, Loop: d.Loop, Plan: d.Plan, Records: records, Condensed: d.Condensed}
	return nil
}
