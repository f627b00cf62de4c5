package store

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/weirswitch/weir/internal/printable"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/status"
)

// Outcome is what became of a record.
type Outcome uint8

// The outcomes.
const (
	Taken      Outcome = iota
	Duplicate          // it is there already
	Conflict           // it contradicts others
	Unreadable         // it is no record
	Unknown            // of a kind that no query here reads
	Future             // of a time that is still to come
	Late               // of a time whose records had to make room already

	outcomes
)

// String is the outcome's name, as in metrics.
func (o Outcome) String() string {
	if o < outcomes {
		return [outcomes]string{"taken", "duplicate", "conflict", "unreadable", "unknown", "future", "late"}[o]
	}
	return "unknown"
}

// identity distinguishes records.
type identity struct {
	kind           record.Kind
	sw             uint32
	instance       uint16
	plan           uint16
	start          int64
	boot, sequence uint64 // of digests
}

// known is what is remembered of a record of an identity.
type known struct {
	sum     uint32
	partial bool
}

// maxPieces is how many times a switch may restart within a slice.
const maxPieces = 16

// judge says what a record is beside those of its identity. A switch that restarted
// within a slice says two things about it, both of them in part. If one is not, one
// is wrong, and which one cannot be known.
func judge(old []known, e *entry) Outcome {
	pieces := e.known.partial && len(old) < maxPieces
	for _, k := range old {
		if k == e.known {
			return Duplicate
		}
		pieces = pieces && k.partial
	}
	if len(old) != 0 && !pieces {
		return Conflict
	}
	return Taken
}

// entry is a record that was read and checked, and is not changed any more.
type entry struct {
	identity
	known
	origin Origin
	of     string // OfSamples and the like
	bytes  int64  // of memory
	ahead  int64  // end of the slice less the arrival, ns; noOffset: not known

	// One of these, by kind.
	sample   *Sample
	point    *Point
	fragment *Fragment
	batch    *Batch
	status   *Status

	sketch *disketch.Prepared // the body of fragment
}

// arrived is when the record came, in ns of CLOCK_TAI; where that is not known, the end of its slice.
func (e *entry) arrived() int64 {
	if e.ahead == noOffset {
		return e.origin.To
	}
	return e.origin.To - e.ahead
}

// counted reports whether a packet is in the record. Statuses do not say.
func (e *entry) counted() bool {
	switch {
	case e.sample != nil:
		return len(e.sample.Entries) > 0
	case e.point != nil:
		return e.point.Packets > 0
	case e.sketch != nil:
		return !e.sketch.Empty()
	case e.batch != nil:
		return e.batch.Len() > 0 || e.batch.Condensed != nil
	}
	return false
}

// maxTime keeps sums of times in 64 bits, and those of packets: no switch meets one
// in each nanosecond.
const maxTime = 1 << 61

// readEntry reads and checks a record, of which it keeps nothing that is in body.
func readEntry(h *record.Header, body []byte) (*entry, Outcome) {
	if h.Span <= 0 || h.Start > maxTime || h.Start < -maxTime || h.Span > maxTime || h.Missed > maxTime {
		return nil, Unreadable
	}
	e := &entry{
		ahead:    noOffset,
		identity: identity{kind: h.Kind, sw: h.Switch, instance: h.Instance, start: h.Start},
		known:    known{checksum(h, body), h.Partial},
		origin: Origin{
			Switch: h.Switch, Name: printable.Text(h.Name), Instance: h.Instance,
			Window: Window{h.Start, h.Start + h.Span}, Missed: h.Missed, Partial: h.Partial, Hash: h.Hash,
		},
	}
	if h.Kind == record.PINT { // a plan means nothing to other kinds
		e.plan = h.Plan
	}
	ok, size := false, 0
	switch h.Kind {
	case record.Oblivious:
		size, ok = e.readSample(body)
	case record.LDS:
		size, ok = e.readPoint(body)
	case record.DiSketch:
		size, ok = e.readFragment(body)
	case record.PINT:
		size, ok = e.readDigests(body)
	case record.Status:
		size, ok = e.readStatus(body)
	default:
		return nil, Unknown
	}
	if !ok {
		return nil, Unreadable
	}
	e.bytes = int64(size + entryBytes + len(e.origin.Name))
	return e, Taken
}

// checksum is of the body, and of what the header says of it.
func checksum(h *record.Header, body []byte) uint32 {
	var head [20]byte
	binary.LittleEndian.PutUint64(head[:], uint64(h.Span))
	binary.LittleEndian.PutUint64(head[8:], h.Missed)
	binary.LittleEndian.PutUint32(head[16:], uint32(h.Hash))
	return crc32.Update(crc32.ChecksumIEEE(head[:]), crc32.IEEETable, body)
}

// What an entry takes beside its body: itself, and what a Store notes of it; and an entry of
// a sample. In bytes.
const (
	entryBytes       = 704
	sampleEntryBytes = 96
)

func (e *entry) readSample(body []byte) (size int, ok bool) {
	sample := new(oblivious.Sample)
	if sample.UnmarshalBinary(body) != nil {
		return 0, false
	}
	sample.Hash = e.origin.Hash
	surplus, excess := sample.Judge()
	e.sample = &Sample{e.origin, sample, surplus, excess}
	if e.of = OfSamples; e.instance != 0 {
		e.of = OfFlowSamples
	}
	return cap(sample.Entries) * sampleEntryBytes, true
}

func (e *entry) readPoint(body []byte) (size int, ok bool) {
	summary, err := lds.Check(body, e.origin.Hash)
	length := e.origin.To - e.origin.From
	if err != nil || summary.Config.IntervalNs != length || summary.Interval*length != e.origin.From {
		return 0, false
	}
	e.of, e.point = OfPoints, &Point{e.origin, summary, slices.Clone(body)}
	return cap(e.point.body), true
}

// readFragment checks that the record is of the switch and of the subepoch that the header
// says: a forged number of an epoch would stretch all answers to there.
func (e *entry) readFragment(body []byte) (size int, ok bool) {
	r, err := disketch.Decode(slices.Clone(body), e.origin.Hash)
	if err != nil || r.Fragment != (disketch.ID{Switch: uint64(e.sw), Sketch: e.instance}) || r.Epoch > maxTime>>r.Epochs {
		return 0, false
	}
	length := int64(r.Epochs.Nanoseconds() >> r.Log)
	if start := int64(r.Epoch<<r.Epochs) + int64(r.Subepoch)*length; e.origin.Window != (Window{start, start + length}) {
		return 0, false
	}
	e.of, e.sketch = OfFragments, r
	e.fragment = &Fragment{
		Origin: e.origin, ID: r.Fragment, Kind: r.Kind(), Unit: r.Unit, Epoch: r.Epoch, Epochs: r.Epochs, Packets: r.Packets, Seen: r.Seen,
	}
	return r.Bytes(), true
}

// readDigests checks that the digests are what the header says: of the plan, of the
// partition and of the slice.
func (e *entry) readDigests(body []byte) (size int, ok bool) {
	b, err := pint.CheckDigests(slices.Clone(body))
	if err != nil || b.Plan != e.plan || e.instance >= record.Partitions {
		return 0, false
	}
	if first, last := b.Times(); b.Len() > 0 && (first > maxTime || last > maxTime || int64(first) < e.origin.From || int64(last) >= e.origin.To) {
		return 0, false
	}
	for i := range b.Flows() {
		if k := b.Flow(i); k.Partition(record.Partitions) != int(e.instance) {
			return 0, false
		}
	}
	if c := b.Condensed; c != nil {
		for i := range c.Flows {
			if c.Flows[i].Flow.Partition(record.Partitions) != int(e.instance) {
				return 0, false
			}
		}
	}
	e.of, e.batch, e.boot, e.sequence = OfDigests, &Batch{e.origin, &b}, b.Boot, b.Sequence
	return b.Bytes(), true
}

func (e *entry) readStatus(body []byte) (size int, ok bool) {
	if _, err := status.Decode(body); err != nil {
		return 0, false
	}
	e.of, e.status = OfStatuses, &Status{e.origin, slices.Clone(body)}
	return cap(e.status.body), true
}
