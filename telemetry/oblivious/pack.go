package oblivious

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch/packing"
)

// columns are the keys, lengths and key numbers of the entries.
func (s *Sample) columns() ([]byte, error) {
	numbers := make(map[Key]int)
	var keys []*Key
	var refs packing.Bits
	var lengths []byte
	for i := range s.Entries {
		e := &s.Entries[i]
		number, known := numbers[e.Key]
		if !known {
			if _, err := addressSize(e.Key.Version); err != nil {
				return nil, err
			}
			number = len(keys)
		}
		refs.Add(uint64(number), bits.Len(uint(len(keys))))
		if !known {
			numbers[e.Key] = number
			keys = append(keys, &e.Key)
		}
		lengths = binary.AppendUvarint(lengths, uint64(e.Bytes))
	}
	text := binary.AppendUvarint(nil, uint64(len(keys)))
	for _, column := range []func(b []byte, k *Key) []byte{
		func(b []byte, k *Key) []byte { return append(b, k.Version) },
		func(b []byte, k *Key) []byte { return append(b, k.Proto) },
		func(b []byte, k *Key) []byte { return binary.LittleEndian.AppendUint16(b, k.SrcPort) },
		func(b []byte, k *Key) []byte { return binary.LittleEndian.AppendUint16(b, k.DstPort) },
		func(b []byte, k *Key) []byte { n, _ := addressSize(k.Version); return append(b, k.Src[:n]...) },
		func(b []byte, k *Key) []byte { n, _ := addressSize(k.Version); return append(b, k.Dst[:n]...) },
	} {
		for _, k := range keys {
			text = column(text, k)
		}
	}
	text = append(text, lengths...)
	if s.counted() {
		text = s.appendCounts(text)
	}
	return append(text, refs.Bytes()...), nil
}

// appendCounts appends the totals by class, and how often entries were seen.
func (s *Sample) appendCounts(b []byte) []byte {
	for _, t := range s.Classes {
		b = binary.AppendUvarint(binary.AppendUvarint(b, t.Packets), t.Bytes)
	}
	again, between := uint64(0), uint64(0)
	var list []byte
	for _, n := range s.Seen {
		if n <= 1 {
			between++
			continue
		}
		list = binary.AppendUvarint(binary.AppendUvarint(list, between), uint64(n-1))
		again, between = again+1, 0
	}
	return append(binary.AppendUvarint(b, again), list...)
}

// readCounts reads them, and returns what is behind them.
func (s *Sample) readCounts(b []byte) ([]byte, error) {
	ok := true
	next := func(most uint64) uint64 {
		v, size := binary.Uvarint(b)
		if ok = ok && size > 0 && v <= most; !ok {
			return 0
		}
		b = b[size:]
		return v
	}
	for i := range s.Classes {
		s.Classes[i] = Totals{next(maxTotal), next(maxTotal)}
	}
	s.Seen = make([]uint32, len(s.Entries))
	for i := range s.Seen {
		s.Seen[i] = 1
	}
	at, n := uint64(0), uint64(len(s.Seen))
	for range next(n) {
		if at += next(n); !ok || at >= n {
			return nil, errors.New("an entry that was seen again is beyond the last one")
		}
		s.Seen[at] = uint32(1 + next(math.MaxUint32-1))
		at++
	}
	if !ok || !s.counted() {
		return nil, errors.New("classes are not all packets, or how often entries were seen ends early")
	}
	return b, nil
}

// unpack reads n entries of version 2 or 3, all of b.
func (s *Sample) unpack(b []byte, n int, hashed, counts bool) error {
	text, ranks, err := packing.Cut(b)
	if err != nil {
		return err
	}
	if n > 8*len(ranks) || n > len(text) { // an entry takes a bit of ranks at least, and a byte of its length
		return fmt.Errorf("%d entries in %d bytes", n, len(b))
	}
	s.Entries = make([]Entry, n)
	keys, text, err := readKeys(text)
	if err != nil {
		return err
	}
	for i := range s.Entries {
		v, size := binary.Uvarint(text)
		if size <= 0 || v > 1<<32-1 {
			return errors.New("a length ends early, or is too large")
		}
		s.Entries[i].Bytes, text = uint32(v), text[size:]
	}
	if counts {
		if text, err = s.readCounts(text); err != nil {
			return err
		}
	}
	refs, used := packing.ReadBits(text), 0
	for i := range s.Entries {
		number := int(refs.Take(bits.Len(uint(used))))
		if number > used || number >= len(keys) {
			return fmt.Errorf("entry %d has key %d, of %d so far", i, number, used)
		}
		if number == used {
			used++
		}
		s.Entries[i].Key = keys[number]
	}
	if !refs.Whole() || used != len(keys) {
		return fmt.Errorf("%d of %d keys have entries", used, len(keys))
	}
	if hashed {
		return s.readHashedRanks(ranks)
	}
	return s.readWholeRanks(ranks)
}

// readKeys reads the columns of keys.
func readKeys(b []byte) ([]Key, []byte, error) {
	short := errors.New("keys end early")
	count, size := binary.Uvarint(b)
	if size <= 0 || count > uint64(len(b)) {
		return nil, nil, short
	}
	b = b[size:]
	n := int(count)
	if len(b) < 6*n {
		return nil, nil, short
	}
	keys := make([]Key, n)
	addresses := 0
	for i := range keys {
		k := &keys[i]
		k.Version, k.Proto = b[i], b[n+i]
		k.SrcPort, k.DstPort = binary.LittleEndian.Uint16(b[2*n+2*i:]), binary.LittleEndian.Uint16(b[4*n+2*i:])
		size, err := addressSize(k.Version)
		if err != nil {
			return nil, nil, err
		}
		addresses += size
	}
	b = b[6*n:]
	if len(b) < 2*addresses {
		return nil, nil, short
	}
	src, dst := b, b[addresses:]
	for i := range keys {
		k := &keys[i]
		size, _ := addressSize(k.Version)
		copy(k.Src[:], src[:size])
		copy(k.Dst[:], dst[:size])
		src, dst = src[size:], dst[size:]
	}
	return keys, b[2*addresses:], nil
}

// wholeRanks are the ranks by ids.
func (s *Sample) wholeRanks() (b []byte) {
	before := uint64(0)
	for i := range s.Entries {
		r := s.Entries[i].Rank
		b = binary.LittleEndian.AppendUint64(b, r.ID)
		b = binary.AppendUvarint(b, r.Value-before)
		before = r.Value
	}
	return b
}

func (s *Sample) readWholeRanks(b []byte) error {
	before := uint64(0)
	for i := range s.Entries {
		if len(b) < 9 {
			return errors.New("ranks end early")
		}
		r := &s.Entries[i].Rank
		r.ID = binary.LittleEndian.Uint64(b)
		step, size := binary.Uvarint(b[8:])
		value, carry := bits.Add64(before, step, 0)
		if size <= 0 || carry != 0 {
			return errors.New("a rank ends early, or is too large")
		}
		r.Value, before, b = value, value, b[8+size:]
	}
	if len(b) != 0 {
		return fmt.Errorf("%d bytes behind the last rank", len(b))
	}
	return nil
}

// weight is what the hash of an entry was divided by; 0: that is not how its rank is drawn.
func (s *Sample) weight(e *Entry) uint64 {
	switch {
	case s.Unit == Both:
		return uint64(e.Bytes) + bothBytes
	case s.Unit != Bytes:
		return 1
	case s.Kind == NWPS:
		return uint64(e.Bytes)
	}
	return 0
}

// hashedRanks are the ranks by hashes; false: they are not xxhash's of packets.
func (s *Sample) hashedRanks() ([]byte, bool) {
	if s.Hash != hash.XX || len(s.Entries) == 0 {
		return nil, false
	}
	k := max(bits.Len64(s.Entries[len(s.Entries)-1].Rank.Value/uint64(len(s.Entries)))-1, 0)
	seed := s.rankSeed()
	var w packing.Bits
	before := uint64(0)
	for i := range s.Entries {
		e := &s.Entries[i]
		weight := s.weight(e)
		h := hash.Uint64(seed, e.Rank.ID)
		if weight == 0 || h/weight != e.Rank.Value || e.Rank.Value < before {
			return nil, false
		}
		step := e.Rank.Value - before
		for range step >> k {
			w.Add(1, 1)
		}
		w.Add(0, 1)
		addWide(&w, step&(1<<k-1), k)
		w.Add(h%weight, bits.Len64(weight-1))
		before = e.Rank.Value
	}
	return append([]byte{byte(k)}, w.Bytes()...), true
}

// addWide adds up to 64 bits.
func addWide(w *packing.Bits, v uint64, n int) {
	if n > 32 {
		w.Add(v&(1<<32-1), 32)
		v, n = v>>32, n-32
	}
	w.Add(v, n)
}

func takeWide(r *packing.BitReader, n int) uint64 {
	if n > 32 {
		low := r.Take(32)
		return low | r.Take(n-32)<<32
	}
	return r.Take(n)
}

func (s *Sample) readHashedRanks(b []byte) error {
	if len(b) == 0 || b[0] > 63 || len(s.Entries) == 0 {
		return errors.New("ranks end early")
	}
	k := int(b[0])
	r := packing.ReadBits(b[1:])
	seed, before, quotients := s.rankSeed(), uint64(0), 8*len(b)
	for i := range s.Entries {
		e := &s.Entries[i]
		quotient := uint64(0)
		for r.Take(1) != 0 { // beyond the end are zeros
			quotient++
		}
		if quotients -= int(quotient); quotients < 0 || quotient > 1<<(64-k)-1 {
			return errors.New("a rank is too large")
		}
		value, carry := bits.Add64(before, quotient<<k|takeWide(r, k), 0)
		weight := s.weight(e)
		if carry != 0 || weight == 0 {
			return errors.New("a rank is too large, or of no hash")
		}
		rest := r.Take(bits.Len64(weight - 1))
		high, h := bits.Mul64(value, weight)
		h, carry = bits.Add64(h, rest, 0)
		if high != 0 || carry != 0 || rest >= weight {
			return errors.New("a rank is of no hash")
		}
		e.Rank, before = Rank{value, hash.Invert64(seed, h)}, value
	}
	if !r.Whole() {
		return errors.New("bytes are behind the last rank, or it ends early")
	}
	return nil
}

// rankSeed is that of the sampler that made the sample.
func (s *Sample) rankSeed() uint64 {
	return Config{Kind: s.Kind, Unit: s.Unit, Seed: s.Seed}.rankSeed()
}
