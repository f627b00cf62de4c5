package oblivious

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weirswitch/weir/telemetry/sketch/packing"
)

// The format, integers little-endian; counts of 32 bits.
//
//	header   version 8 | kind 8 | unit 8 | ranks 8 | size 32 | entries 32 | seed 64 |
//	         threshold: value 64, id 64 | packets 64 | bytes 64
//	packed   (package packing) keys, each once, in the order of their first entries, their number first, a uvarint:
//	             versions | protocols | source ports | destination ports | sources | destinations, of 4, 16 or 0 bytes each by the version;
//	         packets' bytes of each entry, uvarints;
//	         version 3: packets and bytes of each class, uvarints; how many entries were seen more than once, and for each of them
//	             how many entries are between it and the one before, and how often beyond once it was seen, uvarints;
//	         key of each entry: its number in Len(keys so far) bits; that number itself: the next one
//	ranks    by the header's byte: ranksWhole or ranksHashed
//
// Of ranksWhole an entry is an id (64) and the difference of its value to the one before (uvarint). Of ranksHashed ids follow from the
// rank's hash, which the family xxhash has of one packet alone: behind a byte k, for each entry in bits, the difference of its value to the one before in
// Rice's code with k lower bits (quotient in ones, a zero, the lower bits), and what the division of the hash by
// the packet's weight left, in Len(weight-1) bits. Values are sorted, so their differences take about half of an id.
//
// Version 2 is written of samples that do not say how often entries were seen. Version 1, of which each entry was
//
//	entry   value 64 | id 64 | bytes 32 | proto 8 | key version 8 |
//	        src port 16 | dst port 16 | src | dst: 4, 16 or 0 bytes each
//
// is read too, with 0 for ranks.
const (
	version      = 3
	plainVersion = 2
	wholeVersion = 1

	ranksWhole  = 0
	ranksHashed = 1
)

const (
	headerSize   = 4 + 4 + 4 + 8 + 16 + 16
	minEntrySize = 8 + 8 + 4 + 2 + 4
)

// ErrFormat is wrapped by all errors of UnmarshalBinary.
var ErrFormat = errors.New("not a sample")

// AppendBinary appends the sample's encoding. A union has none, and a key must
// have version 0, 4 or 6.
func (s *Sample) AppendBinary(b []byte) ([]byte, error) {
	if s.Limits != nil {
		return b, errors.New("a union of samples has no encoding: encode the samples")
	}
	ranks, hashed := s.hashedRanks()
	if !hashed {
		ranks = s.wholeRanks()
	}
	text, err := s.columns()
	if err != nil {
		return b, err
	}
	le := binary.LittleEndian
	form, ranksBy := byte(version), byte(ranksWhole)
	if !s.counted() {
		form = plainVersion
	}
	if hashed {
		ranksBy = ranksHashed
	}
	b = append(b, form, byte(s.Kind), byte(s.Unit), ranksBy)
	b = le.AppendUint32(b, uint32(s.Size))
	b = le.AppendUint32(b, uint32(len(s.Entries)))
	for _, v := range []uint64{s.Seed, s.Threshold.Value, s.Threshold.ID, s.Packets, s.Bytes} {
		b = le.AppendUint64(b, v)
	}
	return append(packing.Append(b, text), ranks...), nil
}

// MarshalBinary is AppendBinary to nothing.
func (s *Sample) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

func addressSize(version uint8) (int, error) {
	switch version {
	case 0:
		return 0, nil
	case 4:
		return 4, nil
	case 6:
		return 16, nil
	}
	return 0, fmt.Errorf("key version %d, not 0, 4 or 6", version)
}

// UnmarshalBinary reads what AppendBinary wrote, all of b. It takes memory only
// for entries that b has room for, and accepts only what a sampler or a merge
// can have made: ranks in order, none beyond the threshold, and a threshold
// that is the last rank or beyond all.
func (s *Sample) UnmarshalBinary(b []byte) error {
	if len(b) < headerSize {
		return fmt.Errorf("%w: %d bytes, less than a header", ErrFormat, len(b))
	}
	ranks := b[3]
	if b[0] > version || b[0] < wholeVersion || ranks > ranksHashed || b[0] == wholeVersion && ranks != 0 {
		return fmt.Errorf("%w: version %d.%d, not %d to %d", ErrFormat, b[0], ranks, wholeVersion, version)
	}
	whole, counts := b[0] == wholeVersion, b[0] == version
	le := binary.LittleEndian
	n := le.Uint32(b[8:])
	out := Sample{
		Kind: Kind(b[1]), Unit: Unit(b[2]), Size: int(le.Uint32(b[4:])), Seed: le.Uint64(b[12:]),
		Threshold: Rank{le.Uint64(b[20:]), le.Uint64(b[28:])}, Packets: le.Uint64(b[36:]), Bytes: le.Uint64(b[44:]),
	}
	if err := (Config{Kind: out.Kind, Unit: out.Unit, Size: out.Size}).Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	b = b[headerSize:]
	if !whole {
		if err := out.unpack(b, int(n), ranks == ranksHashed, counts); err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		if err := out.check(); err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		*s = out
		return nil
	}
	if uint64(n)*minEntrySize > uint64(len(b)) {
		return fmt.Errorf("%w: %d entries in %d bytes", ErrFormat, n, len(b))
	}
	out.Entries = make([]Entry, n)
	var err error
	for i := range out.Entries {
		if b, err = out.Entries[i].decode(b); err != nil {
			return fmt.Errorf("%w: entry %d: %w", ErrFormat, i, err)
		}
	}
	if len(b) > 0 {
		return fmt.Errorf("%w: %d bytes behind the last entry", ErrFormat, len(b))
	}
	if err := out.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	*s = out
	return nil
}

// decode reads one entry of version 1 and returns what is behind it.
func (e *Entry) decode(b []byte) ([]byte, error) {
	if len(b) < minEntrySize {
		return b, errors.New("cut short")
	}
	le := binary.LittleEndian
	e.Rank = Rank{le.Uint64(b), le.Uint64(b[8:])}
	e.Bytes = le.Uint32(b[16:])
	e.Key.Proto, e.Key.Version = b[20], b[21]
	e.Key.SrcPort, e.Key.DstPort = le.Uint16(b[22:]), le.Uint16(b[24:])
	b = b[minEntrySize:]
	n, err := addressSize(e.Key.Version)
	if err != nil {
		return b, err
	}
	if len(b) < 2*n {
		return b, errors.New("cut short")
	}
	copy(e.Key.Src[:], b[:n])
	copy(e.Key.Dst[:], b[n:2*n])
	return b[2*n:], nil
}

// maxTotal keeps sums of totals in 64 bits. A packet per nanosecond takes two
// years to get there.
const maxTotal = 1 << 56

// check tests what holds for all samples.
func (s *Sample) check() error {
	if s.Packets > maxTotal || s.Bytes > maxTotal {
		return fmt.Errorf("totals of %d packets, %d bytes: %d at most", s.Packets, s.Bytes, uint64(maxTotal))
	}
	for i := range s.Entries {
		if i > 0 && s.Entries[i-1].Rank.Compare(s.Entries[i].Rank) >= 0 {
			return fmt.Errorf("the rank of entry %d is not above the one before", i)
		}
		if s.Unit == Bytes && s.Entries[i].Bytes == 0 {
			return fmt.Errorf("entry %d has no bytes", i)
		}
	}
	switch n := len(s.Entries); {
	case s.complete():
		// An improved merge may have any number.
	case s.Threshold.Value == 0:
		return errors.New("a threshold of zero, below which nothing is ever sampled")
	case n < s.Size:
		return fmt.Errorf("a threshold with %d entries, of a size of %d", n, s.Size)
	case s.Entries[n-1].Rank != s.Threshold:
		return errors.New("the last rank is not the threshold")
	}
	return nil
}
