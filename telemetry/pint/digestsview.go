package pint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
)

// Digests is a batch of digests in its binary form, which is what a collector keeps:
// a flow's are found without decoding the others. It is immutable, and so must the
// bytes be.
type Digests struct {
	Boot, Sequence, Sent uint64
	Loop                 bool
	Plan                 uint16
	Condensed            *Condensed // nil: the digests are all that there were
	n, short, long       int
	digestWidth          int
	timeWidth            int
	first                uint64
	body                 []byte
	// Where the columns begin in body.
	longAt, endsAt, idsAt, digestsAt, timesAt, hopsAt int
}

// CheckDigests reads the binary form of a batch, all of it; an error wraps ErrDigests.
func CheckDigests(body []byte) (Digests, error) {
	d, err := checkDigests(body)
	if err != nil {
		return Digests{}, fmt.Errorf("%w: %w", ErrDigests, err)
	}
	return d, nil
}

func checkDigests(body []byte) (d Digests, err error) {
	var condensed *Condensed
	if len(body) > 0 && (body[0] == condensedVersion || body[0] == flowValuesVersion) {
		version := body[0]
		length, n := binary.Uvarint(body[1:])
		if n <= 0 || length > uint64(len(body)-1-n) {
			return d, fmt.Errorf("%d bytes end inside of the digests", len(body))
		}
		body = body[1+n:]
		if condensed, err = parseCondensed(body[length:], version); err != nil {
			return d, err
		}
		body = slices.Clone(body[:length]) // what was condensed need not be kept as it came
	}
	d, err = digestsHead(body)
	if err == nil {
		err = d.checkFlows()
	}
	if err == nil {
		err = d.checkColumns()
	}
	d.Condensed = condensed
	return d, err
}

// digestsHead reads the header, and checks that the lengths add up.
func digestsHead(b []byte) (d Digests, err error) {
	if len(b) < digestsHeader {
		return d, fmt.Errorf("%d bytes, the header alone has %d", len(b), digestsHeader)
	}
	if b[0] != digestsVersion {
		return d, fmt.Errorf("version %d; this reader knows %d", b[0], digestsVersion)
	}
	if b[1] > flagLoop || b[2] > 8 || b[3] > 8 {
		return d, fmt.Errorf("flags %#x, widths of %d and %d bytes", b[1], b[2], b[3])
	}
	u16 := func(at int) int { return int(binary.LittleEndian.Uint16(b[at:])) }
	u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	d = Digests{
		Loop: b[1]&flagLoop != 0, digestWidth: int(b[2]), timeWidth: int(b[3]),
		Plan: uint16(u16(4)), n: u16(6), short: u16(8), long: u16(10),
		Boot: u64(12), Sequence: u64(20), Sent: u64(28), first: u64(36), body: b,
	}
	d.longAt = digestsHeader + d.short*shortFlow
	d.endsAt = d.longAt + d.long*longFlow
	d.idsAt = d.endsAt + d.Flows()*runEnd
	d.digestsAt = d.idsAt + d.n*idWidth
	d.timesAt = d.digestsAt + d.n*d.digestWidth
	d.hopsAt = d.timesAt + d.n*d.timeWidth
	if end := d.hopsAt + d.n*hopsWidth; end != len(b) {
		return d, fmt.Errorf("%d digests of %d flows take %d bytes, not %d", d.n, d.Flows(), end, len(b))
	}
	return d, nil
}

// checkFlows: each flow once, in order, in its shortest form, with one digest or more.
func (d *Digests) checkFlows() error {
	end := 0
	for i := range d.Flows() {
		if f := d.flowBytes(i); i != 0 && i != d.short && bytes.Compare(d.flowBytes(i-1), f) >= 0 {
			return fmt.Errorf("flow %d of %d is not behind the one before", i, d.Flows())
		}
		if k := d.Flow(i); i >= d.short && k.short() {
			return fmt.Errorf("flow %d of %d is long, and could be short", i, d.Flows())
		}
		if d.end(i) <= end {
			return fmt.Errorf("flow %d of %d has no digest", i, d.Flows())
		}
		end = d.end(i)
	}
	if end != d.n {
		return fmt.Errorf("flows have %d of %d digests", end, d.n)
	}
	return nil
}

// checkColumns: widths are the least, times begin at the first and do not wrap.
func (d *Digests) checkColumns() error {
	digests, least, most := uint64(0), ^uint64(0), uint64(0)
	for i := range d.n {
		t := d.time(i)
		digests, least, most = digests|d.digest(i), min(least, t), max(most, t)
	}
	if d.n == 0 {
		least = d.first // which is then 0
	}
	switch {
	case widthOf(digests) != d.digestWidth:
		return fmt.Errorf("digests of %d bytes take %d", widthOf(digests), d.digestWidth)
	case widthOf(most) != d.timeWidth:
		return fmt.Errorf("times of %d bytes take %d", widthOf(most), d.timeWidth)
	case least != 0:
		return fmt.Errorf("no digest is of the first time")
	case d.first+most < d.first:
		return fmt.Errorf("times wrap")
	}
	return nil
}

// Len is how many digests there are.
func (d *Digests) Len() int { return d.n }

// Bytes is the memory of the batch.
func (d *Digests) Bytes() int {
	if d.Condensed != nil {
		return len(d.body) + d.Condensed.Bytes()
	}
	return len(d.body)
}

// Flows is of how many flows the digests are.
func (d *Digests) Flows() int { return d.short + d.long }

// Times are those of the first digest and of the last; 0 without any.
func (d *Digests) Times() (first, last uint64) {
	last = d.first
	for i := range d.n {
		last = max(last, d.first+d.time(i))
	}
	return d.first, last
}

// Flow is a flow by its number, from 0.
func (d *Digests) Flow(i int) (k FlowKey) {
	k.setBytes(d.flowBytes(i))
	return k
}

// Find returns the number of a flow; false: the batch has no digest of it.
func (d *Digests) Find(k *FlowKey) (int, bool) {
	var form [longFlow]byte
	want := k.appendBytes(form[:0])
	low, high := d.short, d.short+d.long
	if len(want) == shortFlow {
		low, high = 0, d.short
	}
	for low < high {
		middle := int(uint(low+high) / 2)
		switch c := bytes.Compare(d.flowBytes(middle), want); {
		case c == 0:
			return middle, true
		case c < 0:
			low = middle + 1
		default:
			high = middle
		}
	}
	return 0, false
}

// AppendFlow appends the digests of a flow by its number, in the order in which they
// came.
func (d *Digests) AppendFlow(dst []Record, i int) []Record {
	k, from := d.Flow(i), 0
	if i > 0 {
		from = d.end(i - 1)
	}
	for at := from; at < d.end(i); at++ {
		dst = append(dst, Record{Flow: k, ID: d.id(at), Digest: d.digest(at), TimeNs: d.first + d.time(at), Plan: d.Plan, Hops: d.body[d.hopsAt+at]})
	}
	return dst
}

// Count is how many digests a flow has, by its number.
func (d *Digests) Count(i int) int {
	if i > 0 {
		return d.end(i) - d.end(i-1)
	}
	return d.end(i)
}

// All iterates over the flows with their digests. What it yields is valid until the
// next.
func (d *Digests) All() iter.Seq2[FlowKey, []Record] {
	return func(yield func(FlowKey, []Record) bool) {
		var run []Record
		for i := range d.Flows() {
			run = d.AppendFlow(run[:0], i)
			if !yield(run[0].Flow, run) {
				return
			}
		}
	}
}

func (d *Digests) flowBytes(i int) []byte {
	if i < d.short {
		return d.body[digestsHeader+i*shortFlow:][:shortFlow]
	}
	return d.body[d.longAt+(i-d.short)*longFlow:][:longFlow]
}

// end is where the run of a flow ends.
func (d *Digests) end(i int) int { return int(binary.LittleEndian.Uint16(d.body[d.endsAt+i*runEnd:])) }

func (d *Digests) id(i int) uint64 { return binary.LittleEndian.Uint64(d.body[d.idsAt+i*idWidth:]) }

func (d *Digests) digest(i int) uint64 {
	return number(d.body[d.digestsAt+i*d.digestWidth:], d.digestWidth)
}

// time is behind the first.
func (d *Digests) time(i int) uint64 { return number(d.body[d.timesAt+i*d.timeWidth:], d.timeWidth) }
