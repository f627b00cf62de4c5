package topk

import (
	"encoding/binary"

	"github.com/weirswitch/weir/telemetry/sketch"
)

// AppendBinary appends the binary form of candidates:
//
//	version(1) kind(1) key size(uvarint) entries(uvarint), then for each
//	hash(8) count(uvarint) key
//
// put appends a key, which takes size bytes for each; counts are above zero.
func AppendBinary[K any](b []byte, entries []Entry[K], size int, put func([]byte, *K) []byte) []byte {
	b = sketch.AppendHeader(b, sketch.KindTopK)
	b = binary.AppendUvarint(b, uint64(size))
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for i := range entries {
		b = binary.LittleEndian.AppendUint64(b, entries[i].Hash)
		b = binary.AppendUvarint(b, uint64(entries[i].Count))
		b = put(b, &entries[i].Key)
	}
	return b
}

// Decode reads the binary form of candidates, whose keys take size bytes; get
// sets a key from them, and must not keep them.
func Decode[K any](b []byte, size int, get func(*K, []byte) error) ([]Entry[K], error) {
	d := sketch.NewReader(b, sketch.KindTopK)
	if s := d.Uvarint(); d.Err() == nil && s != uint64(size) {
		d.Fail("keys of %d bytes where %d are expected", s, size)
	}
	entries := make([]Entry[K], d.Length(8+1+size, MaxEntries))
	for i := range entries {
		e := &entries[i]
		e.Hash = d.Uint64()
		if e.Count = int64(d.Uvarint()); d.Err() == nil && e.Count <= 0 {
			d.Fail("a candidate counted %d", e.Count)
		}
		key := d.Bytes(size)
		if d.Err() != nil {
			break
		}
		if err := get(&e.Key, key); err != nil {
			d.Fail("a key: %w", err)
		}
	}
	if err := d.Close(); err != nil {
		return nil, err
	}
	return entries, nil
}

// PutKey appends a Key; it is the put of AppendBinary for tables of Key.
func PutKey(b []byte, k *Key) []byte { return append(b, k[:]...) }

// GetKey sets a Key; it is the get of Decode for tables of Key.
func GetKey(k *Key, b []byte) error {
	copy(k[:], b)
	return nil
}
