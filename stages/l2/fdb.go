package l2

import (
	"math/bits"
	"sync/atomic"

	"github.com/weirswitch/weir/internal/hugepage"
)

// fdb is the forwarding database: which station was last seen behind which
// port. It has one writer and any number of readers, which take no lock.
//
// It is a hash table of buckets of one cache line, with two candidate buckets
// for each key. The first is preferred, so most lookups touch one line.
//
//	bucket (64 bytes)
//	| key 0 | key 1 | key 2 | key 3 | value 0 | value 1 | value 2 | value 3 |
//
//	value    63         32 31      16 15     0
//	         |   stamp    |  check   |  port  |
//
// stamp is the second in which the station was last seen, rounded down to a
// multiple of the granule, 0 for a static entry. check is part of the key's hash, so a value identifies its key.
//
// Reading: find the slot with the key, load its value, load the key again. The
// writer fills a slot value first, key last, and frees it by clearing the key,
// so an unchanged key vouches for the value, unless the slot went to another
// key and back in between; then check differs. All loads and stores are
// sync/atomic's, which are sequentially consistent; loads are plain MOVs on
// amd64.
//
// The writer makes room by moving an entry to its other bucket. The copy is
// written first and the moves counter raised before the original is cleared.
// A reader that finds neither has read the one too early and the other too
// late, so the counter changed in between, and it looks again.
//
// Readers write one thing: they refresh the stamp of an entry, once a granule,
// by compare-and-swap of the whole value, which fails if the writer came first.
type fdb struct {
	buckets []bucket
	mask    uint64 // len(buckets) - 1
	seed    hashSeed
	ageing  uint32 // seconds; stamps are up to a granule older than they say

	// moves counts displacements. It has its own cache line: readers load it
	// for each miss.
	_     [64]byte
	moves atomic.Uint64
	_     [56]byte

	// The rest is the writer's; the counters are atomic for those who report.
	limit  int
	oldest uint32 // no dynamic entry's stamp is older
	shares []int  // dynamic entries by port
	loops  *loops // nil: moves are not looked at
	hand   uint64 // the bucket where the search for an entry to evict goes on
	fdbCounters
}

type bucket struct {
	keys [4]atomic.Uint64
	vals [4]atomic.Uint64
}

// fdbCounters are written by the table's writer only.
type fdbCounters struct {
	entries, static            atomic.Uint64
	learned, moved, aged, full atomic.Uint64
	flushed, evicted           atomic.Uint64
}

// minBuckets keeps small tables from running out of candidates: 4 KiB.
const minBuckets = 64

// newFDB returns an empty table for a number of entries, which age after so
// many seconds. The seed should be a secret, so that no station can choose
// addresses that fall into one bucket.
func newFDB(entries int, ageing uint32, seed uint64) *fdb {
	// A quarter of spare slots keeps displacement short; rounding up to a
	// power of two leaves the table 40 to 80 % full at its limit.
	n := max(minBuckets, 1<<bits.Len(uint((entries*5/4+3)/4-1)))
	return &fdb{
		buckets: hugepage.Make[bucket](n),
		mask:    uint64(n - 1),
		seed:    newHashSeed(seed),
		ageing:  ageing,
		limit:   entries,
	}
}

// The parts of a value.
const stampShift, checkShift = 32, 16

func makeValue(stamp uint32, check, port uint16) uint64 {
	return uint64(stamp)<<stampShift | uint64(check)<<checkShift | uint64(port)
}

func checkOf(hash uint64) uint16          { return uint16(hash >> 48) }
func valuePort(v uint64) uint16           { return uint16(v) }
func valueStamp(v uint64) uint32          { return uint32(v >> stampShift) }
func valueCheck(v uint64) uint16          { return uint16(v >> checkShift) }
func isStatic(v uint64) bool              { return v>>stampShift == 0 }
func withStamp(v uint64, s uint32) uint64 { return v&(1<<stampShift-1) | uint64(s)<<stampShift }

// granuleOf returns how many seconds pass between two refreshes of an entry that ages after so many: a power of two, at most a
// 64th. With a million stations a refresh each second would be a write to memory for every few packets.
func granuleOf(ageing uint32) uint32 { return 1 << (max(bits.Len32(ageing), 7) - 7) }

// stampOf returns the stamp of a time in nanoseconds: its second, modulo 2^32,
// but never the 0 that marks static entries.
func stampOf(now int64) uint32 { return max(1, uint32(now/1e9)) }

// The two candidate buckets of a hash differ by an odd number, so they are
// never the same, and other leads from each to the other.
func (t *fdb) first(h uint64) uint64            { return h & t.mask }
func (t *fdb) other(h uint64, bi uint64) uint64 { return bi ^ (h>>32&t.mask | 1) }

// match returns the slot whose key is key, or any slot if none is. It is
// arithmetic instead of branches, because no predictor knows which slot it will
// be.
func (b *bucket) match(key uint64) int {
	return one(b.keys[1].Load() == key) | one(b.keys[2].Load() == key)<<1 | 3*one(b.keys[3].Load() == key)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// read returns the value in slot i of the bucket if the slot is the key's, by
// the protocol above but for the check.
func (b *bucket) read(i int, key uint64) (v uint64, ok bool) {
	if b.keys[i&3].Load() != key {
		return 0, false
	}
	v = b.vals[i&3].Load()
	return v, b.keys[i&3].Load() == key
}

// bucket returns the first bucket of a hash. Nearly all keys are in their first
// bucket, so the packet loop looks there itself, without a call, and uses find
// only if it must.
func (t *fdb) bucket(h uint64) *bucket { return &t.buckets[h&t.mask] }

// maxRetries bounds how often a reader looks again because entries move. A
// miss that is none costs one flooded packet.
const maxRetries = 64

// find returns the value of a key and its slot, or nil. It looks into
// both buckets until the writer leaves it in peace.
func (t *fdb) find(key, h uint64) (*atomic.Uint64, uint64) {
	for range maxRetries {
		moves := t.moves.Load()
		bi := t.first(h)
		for range 2 {
			b := &t.buckets[bi]
			i := b.match(key)
			if v, ok := b.read(i, key); ok && valueCheck(v) == checkOf(h) {
				return &b.vals[i&3], v
			}
			bi = t.other(h, bi)
		}
		if t.moves.Load() == moves {
			return nil, 0
		}
	}
	return nil, 0
}

// refresh marks the entry as seen in the second of stamp. Any reader may call
// it with what find returned.
func refresh(slot *atomic.Uint64, v uint64, stamp uint32) {
	slot.CompareAndSwap(v, withStamp(v, stamp))
}

// What follows is the writer's.

// learn notes that the station of key was seen on a port.
func (t *fdb) learn(key uint64, port uint16, stamp uint32) {
	h := hashKey(key, t.seed)
	if slot, v := t.find(key, h); slot != nil {
		if t.loops != nil && valuePort(v) != port && !isStatic(v) {
			t.loops.moved(key, h, valuePort(v), port)
		}
		t.refreshPort(slot, v, port, stamp)
		return
	}
	if t.entries.Load() >= uint64(t.limit) && !t.evict(port) {
		t.full.Add(1)
		return
	}
	if t.insert(key, h, makeValue(stamp, checkOf(h), port)) {
		t.count(port, 1)
		t.learned.Add(1)
		t.oldest = older(t.oldest, stamp)
	} else {
		t.full.Add(1)
	}
}

// refreshPort notes that a known station was seen on a port.
func (t *fdb) refreshPort(slot *atomic.Uint64, v uint64, port uint16, stamp uint32) {
	if isStatic(v) {
		return
	}
	if valuePort(v) != port {
		t.moved.Add(1)
	} else if int32(stamp-valueStamp(v)) <= 0 {
		return // a worker has refreshed it meanwhile
	}
	t.count(valuePort(v), -1)
	t.count(port, 1)
	slot.Store(makeValue(stamp, valueCheck(v), port))
	t.oldest = older(t.oldest, stamp)
}

// older returns the older of two stamps; 0 means no entry.
func older(a, b uint32) uint32 {
	if a == 0 || int32(b-a) < 0 {
		return b
	}
	return a
}

// addStatic adds an entry that does not age. It reports false if it has no room.
func (t *fdb) addStatic(key uint64, port uint16) bool {
	h := hashKey(key, t.seed)
	if !t.insert(key, h, makeValue(0, checkOf(h), port)) {
		return false
	}
	t.static.Add(1)
	return true
}

// count notes that a port has n dynamic entries more.
func (t *fdb) count(port uint16, n int) {
	for int(port) >= len(t.shares) {
		t.shares = append(t.shares, 0)
	}
	t.shares[port] += n
}

// evictSample is how many entries of a port are compared for the one that was silent for longest.
const evictSample = 8

// evict makes room in a full table for a station on a port: a station of the port that has most goes, so
// a flood of addresses displaces its own. Of some of them the one that was silent for longest
// goes. It reports false if all entries are static.
func (t *fdb) evict(port uint16) bool {
	most := port
	t.count(port, 0)
	for p, n := range t.shares {
		if n > t.shares[most] {
			most = uint16(p)
		}
	}
	if t.shares[most] == 0 {
		return false
	}
	var victim *atomic.Uint64
	var oldest uint64
	seen := 0
	for range t.buckets {
		b := &t.buckets[t.hand]
		t.hand = (t.hand + 1) & t.mask
		for i := range b.keys {
			v := b.vals[i].Load()
			if b.keys[i].Load() == 0 || isStatic(v) || valuePort(v) != most {
				continue
			}
			if victim == nil || int32(valueStamp(v)-valueStamp(oldest)) < 0 {
				victim, oldest = &b.keys[i], v
			}
			seen++
		}
		if seen >= evictSample {
			break
		}
	}
	t.remove(victim, oldest)
	t.evicted.Add(1)
	return true
}

// maxDepth bounds the chain of displacements. At 80 % load the chance that
// more than four are needed is beyond observation.
const maxDepth = 4

// insert puts a key that is not in the table into a free slot.
func (t *fdb) insert(key, h, v uint64) bool {
	if t.entries.Load() >= uint64(t.limit) {
		return false
	}
	first := t.first(h)
	for depth := range maxDepth + 1 {
		for _, bi := range [2]uint64{first, t.other(h, first)} {
			if i, ok := t.makeRoom(bi, depth); ok {
				t.buckets[bi].fill(i, key, v)
				t.entries.Add(1)
				return true
			}
		}
	}
	return false
}

// makeRoom returns a free slot of a bucket. To make one it may move entries to
// their other buckets, in chains of at most depth.
func (t *fdb) makeRoom(bi uint64, depth int) (int, bool) {
	b := &t.buckets[bi]
	for i := range b.keys {
		if b.keys[i].Load() == 0 {
			return i, true
		}
	}
	if depth == 0 {
		return 0, false
	}
	for i := range b.keys {
		key := b.keys[i].Load()
		oi := t.other(hashKey(key, t.seed), bi)
		j, ok := t.makeRoom(oi, depth-1)
		// The chain may have come through this bucket and changed the slot.
		if !ok || b.keys[i].Load() != key {
			continue
		}
		t.move(b, i, &t.buckets[oi], j)
		return i, true
	}
	return 0, false
}

// move takes an entry from slot i of a bucket to the free slot j of its other
// one. A refresh of the original in between is lost; the next packet repeats it.
func (t *fdb) move(from *bucket, i int, to *bucket, j int) {
	to.fill(j, from.keys[i].Load(), from.vals[i].Load())
	t.moves.Add(1)
	from.keys[i].Store(0)
}

// fill occupies a free slot: the value first, then the key that vouches for it.
func (b *bucket) fill(i int, key, v uint64) {
	b.vals[i].Store(v)
	b.keys[i].Store(key)
}

// age removes the stations that were not seen for longer than the ageing time.
// It looks through the table only when one may be due.
func (t *fdb) age(now uint32) {
	lifetime := t.ageing + granuleOf(t.ageing) - 1
	if t.oldest == 0 || int32(now-t.oldest) >= 0 && now-t.oldest <= lifetime {
		return
	}
	t.oldest = 0
	t.each(func(slot, val *atomic.Uint64) {
		v := val.Load()
		if isStatic(v) {
			return
		}
		age := int32(now - valueStamp(v))
		if age < 0 {
			// The clock was set back. Let the entry age from now on.
			refresh(val, v, now)
		} else if uint32(age) > lifetime {
			t.remove(slot, v)
			t.aged.Add(1)
			return
		}
		t.oldest = older(t.oldest, now-uint32(max(age, 0)))
	})
}

// flush removes the dynamic entries that match and returns how many.
func (t *fdb) flush(match func(vlan, port uint16) bool) int {
	n := 0
	t.each(func(slot, val *atomic.Uint64) {
		v := val.Load()
		if !isStatic(v) && match(keyVLAN(slot.Load()), valuePort(v)) {
			t.remove(slot, v)
			n++
		}
	})
	t.flushed.Add(uint64(n))
	return n
}

// remove frees the slot of a key, whose value is v but for the stamp.
func (t *fdb) remove(slot *atomic.Uint64, v uint64) {
	if !isStatic(v) {
		t.count(valuePort(v), -1)
	}
	slot.Store(0)
	t.entries.Add(^uint64(0))
}

// each calls f for every occupied slot. f may remove it.
func (t *fdb) each(f func(key, val *atomic.Uint64)) {
	for bi := range t.buckets {
		b := &t.buckets[bi]
		for i := range b.keys {
			if b.keys[i].Load() != 0 {
				f(&b.keys[i], &b.vals[i])
			}
		}
	}
}
