package disketch

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch/topk"
	"github.com/weirswitch/weir/telemetry/sketch/univmon"
)

// Key is the key of a candidate, as far as the sketch's flows keep it. It has the
// fields of the pipeline's flow key, so that one converts to the other. Version 0:
// the flow has no key, as what is not IP.
type Key struct {
	// Src and Dst are the addresses; an IPv4 address is in the first four
	// bytes, with zeros behind.
	Src, Dst         [16]byte
	SrcPort, DstPort uint16
	Proto            uint8
	Version          uint8 // 4 or 6
}

// Candidate is a flow that was heavy in a subepoch, by what a table beside the
// cells counted: the cells can estimate any flow, but name none.
type Candidate struct {
	Flow uint64
	Key  Key
	// Count is about right, without a bound; it orders the candidates of a record.
	Count int64
}

// Admission is a flow that AddBatch made a candidate.
type Admission struct {
	Index int // in the batch
	// Key is where the flow's key belongs. Where a batch admits two flows to one
	// place, the later one keeps it.
	Key *Key
}

// maxCandidates bounds the candidates of a record.
const maxCandidates = 1 << 20

// offersPerBatch is how many packets of a batch become candidates' counts beside
// single rows: what is left out is counted by those that are not, so that a busy
// switch pays a fixed price. UnivMon is offered all, since its deep levels have
// few flows, of few packets.
const offersPerBatch = 6

// candidates are the tables of one Counter, one for each level.
type candidates struct {
	tables   *univmon.Candidates[Key] // nil: none are kept
	seed     uint64
	turn     uint64 // batches so far, to draw from
	admitted []Admission
}

func newCandidates(c *Config) (candidates, error) {
	if c.Candidates == 0 {
		return candidates{}, nil
	}
	seed := hash.Uint64x2(c.Seed, c.ID.Switch, 'k')
	t, err := univmon.NewCandidates[Key](c.levels(), c.Candidates, seed)
	return candidates{tables: t, seed: seed, admitted: make([]Admission, 0, batch)}, err
}

// What a table holds for an entry, in bytes; keyBytes is the size of a Key.
const (
	hashAndCount = 8 + 8
	keyBytes     = 16 + 16 + 2 + 2 + 1 + 1
)

// CandidateBytes is the memory for candidates beside one Counter's cells.
func (f *Fragment) CandidateBytes() int {
	return (f.config.Candidates + 3) / 4 * 4 * f.config.levels() * (hashAndCount + keyBytes)
}

// A table chooses sets by the upper bits of a hash, and the flows of a switch's
// parser have 32 bits only: these go up.
func tableHash(flow uint64) uint64 { return bits.RotateLeft64(flow, 32) }

// offer offers flows of a batch that were counted. Of few, all; of more, about
// offersPerBatch at equal distances, each for as many as the distance. index
// gives their positions in the caller's batch from base on, nil: they are all of it.
func (k *candidates) offer(r *rows, flows []uint64, values []int64, index *[batch]uint8, base int) {
	values = values[:len(flows)] // BCE
	step, first := 1, 0
	if r.univ == nil && len(flows) > offersPerBatch {
		step = (len(flows) + offersPerBatch - 1) / offersPerBatch
		k.turn++
		first = int(hash.Reduce(hash.Uint64(k.seed, k.turn), uint64(step)))
	}
	table := k.tables.Table(0)
	for i := first; i < len(flows); i += step {
		if r.univ != nil {
			table = k.tables.Table(r.univ.Level(flows[i]))
		}
		key := table.Count(tableHash(flows[i]), values[i]*int64(step))
		if key == nil {
			continue
		}
		place := i
		if index != nil {
			place = int(index[i&(batch-1)])
		}
		k.admitted = append(k.admitted, Admission{base + place, key})
	}
}

// reset forgets all candidates.
func (k *candidates) reset() {
	k.admitted = k.admitted[:0]
	if k.tables != nil {
		k.tables.Reset()
	}
}

// merge adds those of another copy.
func (k *candidates) merge(o *candidates) error {
	if k.tables == nil || o.tables == nil {
		return nil
	}
	return k.tables.Merge(o.tables)
}

// room is that of each level.
func (k *candidates) room() int {
	if k.tables == nil {
		return 0
	}
	return k.tables.Table(0).Entries()
}

// list is all candidates, the heaviest first.
func (k *candidates) list() []Candidate {
	if k.tables == nil {
		return nil
	}
	entries := topk.Top(k.tables.AppendEntries(nil), maxCandidates)
	all := make([]Candidate, len(entries))
	for i, e := range entries {
		all[i] = Candidate{Flow: tableHash(e.Hash), Key: e.Key, Count: e.Count} // its own inverse
	}
	return all
}

// addressBytes is how long an address of a version is in a record.
func addressBytes(version uint8) (int, bool) {
	switch version {
	case 0:
		return 0, true
	case 4:
		return 4, true
	case 6:
		return 16, true
	}
	return 0, false
}

// appendCandidates appends the binary form: their number, and for each
//
//	flow(8, little-endian) count(uvarint) version(1)
//	of versions 4 and 6: protocol(1) ports(2+2, little-endian) source and destination
func appendCandidates(b []byte, all []Candidate) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for i := range all {
		c := &all[i]
		b = binary.LittleEndian.AppendUint64(b, c.Flow)
		b = binary.AppendUvarint(b, uint64(c.Count))
		b = append(b, c.Key.Version)
		n, _ := addressBytes(c.Key.Version)
		if n == 0 {
			continue
		}
		b = append(b, c.Key.Proto)
		b = binary.LittleEndian.AppendUint16(b, c.Key.SrcPort)
		b = binary.LittleEndian.AppendUint16(b, c.Key.DstPort)
		b = append(b, c.Key.Src[:n]...)
		b = append(b, c.Key.Dst[:n]...)
	}
	return b
}

// The bytes that a candidate takes: at least, and before its addresses.
const (
	leastCandidate = 8 + 1 + 1
	portsBytes     = 1 + 2 + 2
)

// decodeCandidates reads the binary form from the beginning of b.
func decodeCandidates(b []byte) (all []Candidate, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > maxCandidates || n > uint64(len(b)-size)/leastCandidate {
		return nil, nil, fmt.Errorf("%w: %d candidates in %d bytes", ErrFormat, n, len(b))
	}
	b = b[size:]
	all = make([]Candidate, n)
	for i := range all {
		if b, err = all[i].decode(b); err != nil {
			return nil, nil, err
		}
	}
	return all, b, nil
}

func (c *Candidate) decode(b []byte) (rest []byte, err error) {
	short := fmt.Errorf("%w: a candidate ends early, or is none", ErrFormat)
	if len(b) < leastCandidate {
		return nil, short
	}
	c.Flow = binary.LittleEndian.Uint64(b)
	count, size := binary.Uvarint(b[8:])
	if c.Count = int64(count); size <= 0 || c.Count <= 0 || len(b) < 8+size+1 {
		return nil, short
	}
	c.Key.Version = b[8+size]
	b = b[8+size+1:]
	n, ok := addressBytes(c.Key.Version)
	switch {
	case !ok || n > 0 && len(b) < portsBytes+2*n:
		return nil, short
	case n == 0:
		return b, nil
	}
	c.Key.Proto = b[0]
	c.Key.SrcPort, c.Key.DstPort = binary.LittleEndian.Uint16(b[1:]), binary.LittleEndian.Uint16(b[3:])
	b = b[portsBytes:]
	copy(c.Key.Src[:], b[:n])
	copy(c.Key.Dst[:], b[n:2*n])
	return b[2*n:], nil
}

// planeBytes are those of a candidate in planes: flow(8) count(8) and the key's version, protocol, ports and addresses.
const planeBytes = 8 + 8 + 1 + 1 + 2 + 2 + 16 + 16

// appendPlanes appends the other binary form: their number (uvarint), and for each byte of a candidate a row of those of all. Rows of bytes that are
// the same, or nearly so, compress to nothing. Counts, which order candidates only, are rounded down to countBits bits and zeros.
func appendPlanes(b []byte, all []Candidate) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	start := len(b)
	b = append(b, make([]byte, planeBytes*len(all))...)
	for i := range all {
		c := all[i]
		if low := bits.Len64(uint64(c.Count)) - countBits; low > 0 {
			c.Count &^= 1<<low - 1
		}
		each := c.fixed()
		for plane, x := range each {
			b[start+plane*len(all)+i] = x
		}
	}
	return b
}

// countBits are those of a candidate's count that planes keep: it is about right by 6 %.
const countBits = 5

// fixed is a candidate in planeBytes bytes.
func (c *Candidate) fixed() (b [planeBytes]byte) {
	binary.LittleEndian.PutUint64(b[:], c.Flow)
	binary.LittleEndian.PutUint64(b[8:], uint64(c.Count))
	b[16], b[17] = c.Key.Version, c.Key.Proto
	binary.LittleEndian.PutUint16(b[18:], c.Key.SrcPort)
	binary.LittleEndian.PutUint16(b[20:], c.Key.DstPort)
	copy(b[22:], c.Key.Src[:])
	copy(b[38:], c.Key.Dst[:])
	return b
}

// decodePlanes reads that form from the beginning of b. What the other form cannot say is refused.
func decodePlanes(b []byte) (all []Candidate, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > maxCandidates || n > uint64(len(b)-size)/planeBytes {
		return nil, nil, fmt.Errorf("%w: %d candidates in %d bytes", ErrFormat, n, len(b))
	}
	b = b[size:]
	all = make([]Candidate, n)
	for i := range all {
		var each [planeBytes]byte
		for plane := range each {
			each[plane] = b[plane*int(n)+i]
		}
		c := &all[i]
		c.Flow, c.Count = binary.LittleEndian.Uint64(each[:]), int64(binary.LittleEndian.Uint64(each[8:]))
		c.Key = Key{Version: each[16], Proto: each[17], SrcPort: binary.LittleEndian.Uint16(each[18:]), DstPort: binary.LittleEndian.Uint16(each[20:])}
		copy(c.Key.Src[:], each[22:])
		copy(c.Key.Dst[:], each[38:])
		addresses, ok := addressBytes(c.Key.Version)
		if !ok || c.Count <= 0 || addresses == 0 && c.Key != (Key{Version: c.Key.Version}) ||
			!zero(c.Key.Src[addresses:]) || !zero(c.Key.Dst[addresses:]) {
			return nil, nil, fmt.Errorf("%w: a candidate that is none", ErrFormat)
		}
	}
	return all, b[planeBytes*int(n):], nil
}

func zero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
