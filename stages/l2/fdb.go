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
//	| entry 0 | entry 1 | ... | entry 6 | marks |
//
//	entry    63            b+5   b+4      b+3      b+2   b+1   0
//	         |      tag       | second | present | static | port |
//
//	marks    63      56 55     48    15      8 7       0
//	         | version | mark 6 | ... | mark 1 | mark 0 |
//
// Keys are mixed by a function that can be undone (mixer), and b bits of the mixed key are the number of the first of
// 2^b buckets. An entry has the others, its tag: with its bucket's number they are the key, so
// eight bytes have room for the port as well. second is set in the second candidate. A free entry is 0.
//
// A mark is the number of the granule in which the station was last seen, modulo 256: see stamp.
//
// Reading: an entry is one word, so a reader sees it whole or not at all.
//
// The writer makes room by moving an entry to its other bucket. The copy is
// written first and the moves counter raised before the original is cleared.
// A reader that finds neither has read the one too early and the other too
// late, so the counter changed in between, and it looks again. All loads and stores are
// sync/atomic's, which are sequentially consistent; loads are plain MOVs on amd64. Only lookups of batches
// (lookups.go) are not, and look again by find if they find nothing.
//
// Readers write one thing: they refresh the mark of an entry, once a granule,
// by compare-and-swap of the bucket's marks. The writer raises their version when it fills an entry, so that the mark is
// of the entry that the reader saw, unless 256 were filled in between.
type fdb struct {
	buckets []bucket
	layout
	mixer
	ageing  uint32 // seconds; stamps are up to a granule older than they say
	granule uint8  // its binary logarithm, in seconds

	// moves counts displacements. It has its own cache line: readers load it
	// for each miss.
	_     [64]byte
	moves atomic.Uint64
	_     [56]byte

	// The rest is the writer's; the counters are atomic for those who report.
	limit  int
	now    uint32 // marks are relative to it: see stamp
	oldest uint32 // no dynamic entry's stamp is older
	shares []int  // dynamic entries by port
	loops  *loops // nil: moves are not looked at
	hand   uint64 // the bucket where the search for an entry to evict goes on
	fdbCounters
}

// slots is the number of entries of a bucket.
const slots = 7

type bucket struct {
	entries [slots]atomic.Uint64
	marks   atomic.Uint64
}

// layout says which bits of an entry are what. name is what identifies it within a bucket: tag, second and present.
type layout struct {
	lines                   uint64 // of a mixed key, shifted by one, those that are the first bucket's offset in bytes
	tag, name               uint64
	second, present, static uint64
	ports                   uint64
}

func newLayout(buckets int) layout {
	b := bits.Len(uint(buckets - 1))
	l := layout{
		lines:  uint64(buckets-1) * bucketSize,
		second: 1 << (b + 4), present: 1 << (b + 3), static: 1 << (b + 2), ports: 1<<min(b+2, 16) - 1,
	}
	l.tag = ^(2*l.second - 1)
	l.name = l.tag | l.second | l.present
	return l
}

// bucketSize in bytes.
const bucketSize = 64

func (l *layout) port(entry uint64) uint16 { return uint16(entry & l.ports) }

// first returns the offset of a mixed key's first bucket, and the name that the key's entry has there.
func (l *layout) first(mixed uint64) (at, name uint64) {
	return mixed << 1 & l.lines, mixed&l.tag | l.present
}

// spread is 2^64 over the golden ratio: its products spread tags over buckets.
const spread = 0x9e3779b97f4a7c15

// other returns the offset of the other bucket of an entry, and its name there. The two offsets differ
// by what the tag says, and never by nothing, so other leads from each to the other.
func (l *layout) other(at, name uint64) (uint64, uint64) {
	return at ^ (name&l.tag*spread>>40&l.lines | bucketSize), name ^ l.second
}

// fdbCounters are written by the table's writer only.
type fdbCounters struct {
	entries, statics           atomic.Uint64
	learned, moved, aged, full atomic.Uint64
	flushed, evicted           atomic.Uint64
}

// minBuckets leaves bits for the numbers of 4096 ports (MaxPorts), and keeps small tables from running out of candidates: 64 KiB.
const minBuckets = 1 << 10

// fullBucket is how many entries there are to a bucket at most in a table at its limit, on the average: spare ones keep
// displacements short and second buckets rare.
const fullBucket = 5

// newFDB returns an empty table for a number of entries, which age after so
// many seconds. The seed should be a secret, so that no station can choose
// addresses that fall into one bucket.
func newFDB(entries int, ageing uint32, seed uint64) *fdb {
	return newFDBOf(max(minBuckets, 1<<bits.Len(uint((entries+fullBucket-1)/fullBucket-1))), entries, ageing, seed)
}

// newFDBOf is newFDB with so many buckets, a power of two.
func newFDBOf(buckets, entries int, ageing uint32, seed uint64) *fdb {
	return &fdb{
		buckets: hugepage.Make[bucket](buckets),
		layout:  newLayout(buckets),
		mixer:   newMixer(seed),
		ageing:  ageing,
		granule: granuleOf(ageing),
		limit:   entries,
	}
}

// bucket returns the bucket at an offset.
func (t *fdb) bucket(at uint64) *bucket { return &t.buckets[at/bucketSize] }

// match returns the number of the entry with a name, and the entry: slots and 0 if there is none. It is arithmetic instead of
// branches, because no predictor knows which entry it will be.
func (t *fdb) match(b *bucket, name uint64) (i int, entry uint64) {
	i = slots
	for k := range b.entries {
		if e := b.entries[k].Load(); e&t.name == name {
			i, entry = k, e
		}
	}
	return i, entry
}

// maxRetries bounds how often a reader looks again because entries move. A
// miss that is none costs one flooded packet.
const maxRetries = 64

// find returns the bucket of a mixed key's entry, its number there, and the entry as it was found: nil and 0 if there is
// none. It looks into both buckets until the writer leaves it in peace.
func (t *fdb) find(mixed uint64) (b *bucket, i int, entry uint64) {
	for range maxRetries {
		moves := t.moves.Load()
		at, name := t.first(mixed)
		for range 2 {
			b := t.bucket(at)
			if i, entry := t.match(b, name); entry != 0 {
				return b, i, entry
			}
			at, name = t.other(at, name)
		}
		if t.moves.Load() == moves {
			break
		}
	}
	return nil, 0, 0
}

// mark returns the mark of entry i.
func (b *bucket) mark(i int) uint8 { return uint8(b.marks.Load() >> (8 * i)) }

// withMark returns marks with that of entry i.
func withMark(marks uint64, i int, mark uint8) uint64 {
	return marks&^(0xff<<(8*i)) | uint64(mark)<<(8*i)
}

// refresh marks an entry as seen in a granule, if it is still what was found. Any reader may call it.
func (b *bucket) refresh(i int, entry uint64, mark uint8) {
	for {
		marks := b.marks.Load()
		if b.entries[i].Load() != entry || b.marks.CompareAndSwap(marks, withMark(marks, i, mark)) {
			return
		}
	}
}
