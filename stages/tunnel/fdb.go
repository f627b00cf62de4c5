package tunnel

import (
	"math/bits"
	"sync/atomic"
)

// fdb knows at which remote end a station is. All workers read it without a lock, and renew the stamps of what they see;
// one writer, under the module's lock, adds and removes. A slot is a key and a value:
//
//	key    tunnel's port (16 bits) | MAC address (48 bits, the first byte lowest); 0 is a free slot
//	value  static (1 bit) | end (31 bits) | stamp (32 bits, seconds)
//
// A new station displaces the one of its bucket that was silent for longest. Static ones stay, and so do those of
// other tunnels that were heard in the last second: a tenant cannot displace another's.
type fdb struct {
	buckets []bucket
	seed    uint64
	entries atomic.Int64
	evicted atomic.Uint64
	full    atomic.Uint64 // stations refused: none of the bucket may be displaced
	learned atomic.Uint64
	moved   atomic.Uint64
	aged    atomic.Uint64
}

// bucket is one cache line.
type bucket struct{ keys, vals [4]atomic.Uint64 }

const staticBit = 1 << 63

func newFDB(size int, seed uint64) *fdb {
	n := max(1, 1<<bits.Len(uint(size-1))/4)
	return &fdb{buckets: make([]bucket, n), seed: seed | 1}
}

func stationKey(port uint16, mac uint64) uint64 { return uint64(port)<<48 | mac&(1<<48-1) }

func entryValue(end uint32, stamp uint32) uint64 { return uint64(end)<<32 | uint64(stamp) }

func valueEnd(v uint64) uint32 { return uint32(v>>32) &^ (1 << 31) }

func (t *fdb) bucket(key uint64) *bucket {
	hi, lo := bits.Mul64(key^t.seed, 0x9e3779b97f4a7c15)
	hi, lo = bits.Mul64(hi^lo, t.seed)
	return &t.buckets[(hi^lo)&uint64(len(t.buckets)-1)]
}

// find returns the slot and the value of a key, nil if it is not known. The key is read again behind the value: a slot that
// the writer gave to another station meanwhile counts as not known.
func (t *fdb) find(key uint64) (slot *atomic.Uint64, v uint64) {
	b := t.bucket(key)
	for i := range b.keys {
		if b.keys[i].Load() == key {
			v = b.vals[i].Load()
			if b.keys[i].Load() == key {
				return &b.vals[i], v
			}
		}
	}
	return nil, 0
}

// put adds a station or moves it. For the writer.
func (t *fdb) put(key uint64, v uint64) bool {
	b := t.bucket(key)
	victim := -1
	for i := range b.keys {
		switch k := b.keys[i].Load(); {
		case k == key:
			old := b.vals[i].Load()
			if old&staticBit != 0 && v&staticBit == 0 {
				return true
			}
			if valueEnd(old) != valueEnd(v) {
				t.moved.Add(1)
			}
			b.vals[i].Store(v)
			return true
		case victim >= 0 && b.keys[victim].Load() == 0:
		case k == 0:
			victim = i
		case b.vals[i].Load()&staticBit != 0:
		case victim < 0 || int32(uint32(b.vals[i].Load())-uint32(b.vals[victim].Load())) < 0:
			victim = i
		}
	}
	if victim < 0 {
		t.full.Add(1)
		return false
	}
	if k := b.keys[victim].Load(); k != 0 && k>>48 != key>>48 && v&staticBit == 0 && int32(uint32(v)-uint32(b.vals[victim].Load())) < 2 {
		t.full.Add(1) // a station of another tunnel that was heard just now stays
		return false
	}
	if b.keys[victim].Load() != 0 {
		t.evicted.Add(1)
		t.entries.Add(-1)
	}
	b.keys[victim].Store(0)
	b.vals[victim].Store(v)
	b.keys[victim].Store(key)
	t.entries.Add(1)
	t.learned.Add(1)
	return true
}

// sweep removes what is stale, or what drop says. For the writer.
func (t *fdb) sweep(now, ageing uint32, drop func(key, v uint64) bool) {
	for i := range t.buckets {
		b := &t.buckets[i]
		for k := range b.keys {
			key := b.keys[k].Load()
			if key == 0 {
				continue
			}
			v := b.vals[k].Load()
			old := v&staticBit == 0 && int32(now-uint32(v)) > int32(ageing)
			if !old && (drop == nil || !drop(key, v)) {
				continue
			}
			if old {
				t.aged.Add(1)
			}
			b.keys[k].Store(0)
			t.entries.Add(-1)
		}
	}
}

// macAt loads a MAC address, its first byte lowest.
func macAt(d *[6]byte) (mac uint64) {
	for i, c := range d {
		mac |= uint64(c) << (8 * i)
	}
	return mac
}

func macBytes(mac uint64) (d [6]byte) {
	for i := range d {
		d[i] = byte(mac >> (8 * i))
	}
	return d
}
