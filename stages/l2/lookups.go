package l2

import "github.com/weirswitch/weir/pipeline/packet"

// maxLookups are those of a batch: source and destination of each packet.
const maxLookups = 2 * packet.BatchSize

// lookups are those of a batch. First all buckets are loaded, in so short a loop that tens of loads are in flight; then each is
// compared with a name, without a branch that depends on what is there.
type lookups struct {
	at    [maxLookups]uint64 // offsets of buckets
	names [maxLookups]uint64 // of entries in them
	// entries are what was found, 0 or another entry if nothing was, and marks theirs.
	entries [maxLookups]uint64
	marks   [maxLookups]uint8
	missed  [maxLookups]uint8 // the numbers of lookups that found nothing
	touched uint64            // see touchPlain
}

// search is lookups in first buckets, and those that go on in second ones.
type search struct {
	keys          [maxLookups]uint64
	first, second lookups
}

// find looks the first n keys up, in first buckets, and in second ones what is not there. It may miss an entry that moves
// meanwhile, and return one that is another's: the caller compares the name.
func (s *search) find(t *fdb, n int) {
	l, second := &s.first, &s.second
	t.place(l, &s.keys, n)
	if len(t.buckets) >= touchFrom {
		t.touch(l, n)
	}
	missed := t.matchAll(l, n, second)
	if missed == 0 {
		return
	}
	t.matchAll(second, missed, nil)
	for k, i := range l.missed[:missed] {
		l.names[i], l.entries[i], l.marks[i] = second.names[k], second.entries[k], second.marks[k]
	}
}

// place finds the first buckets of n keys. The one with vectors prefetches them, which costs little and suffices for a small table.
func (t *fdb) place(l *lookups, keys *[maxLookups]uint64, n int) {
	if wide {
		prefetched := n
		if len(t.buckets) >= touchFrom {
			prefetched = inFlight
		}
		placeWide(&t.buckets[0], l, keys, n, &t.layout, &t.mixer, prefetched)
	} else {
		t.placePlain(l, keys, n)
	}
}

// placePlain is place without vectors.
func (t *fdb) placePlain(l *lookups, keys *[maxLookups]uint64, n int) {
	for i, key := range keys[:n] {
		l.at[i], l.names[i] = t.first(t.mix(key))
	}
}

// touchFrom is the number of buckets, 4 MiB of them, from which a table is not in the second-level cache, nor its pages in the
// first TLB. Then a processor does not do all prefetches that are asked for at once: loads are more certain.
const touchFrom = 1 << 16

// inFlight is about how many lines a core waits for at once.
const inFlight = 24

// touch loads the buckets of n lookups.
func (t *fdb) touch(l *lookups, n int) {
	if wide {
		touchWide(&t.buckets[0], l, n)
	} else {
		l.touched = t.touchPlain(l, n)
	}
}

// touchPlain is touch without vectors. What is loaded is returned, mixed, for the loads to be of use.
func (t *fdb) touchPlain(l *lookups, n int) (mix uint64) {
	for _, at := range l.at[:n] {
		mix ^= t.bucket(at).entries[0].Load()
	}
	return mix
}

// matchAll compares n lookups with their buckets, and returns how many found nothing. These are placed in their second buckets, which
// are loaded, unless second is nil.
func (t *fdb) matchAll(l *lookups, n int, second *lookups) (missed int) {
	if wide {
		return matchWide(&t.buckets[0], l, n, t.name, second, &t.layout)
	}
	missed = t.matchPlain(l, n)
	if second != nil {
		for k, i := range l.missed[:missed] {
			second.at[k], second.names[k] = t.other(l.at[i], l.names[i])
		}
		second.touched = t.touchPlain(second, missed)
	}
	return missed
}

// matchPlain is matchAll without vectors and second buckets.
func (t *fdb) matchPlain(l *lookups, n int) (missed int) {
	for i := range n {
		b := t.bucket(l.at[i])
		k, entry := t.match(b, l.names[i])
		l.entries[i] = entry
		l.marks[i] = b.mark(k)
		l.missed[missed&(maxLookups-1)] = uint8(i)
		missed += k / slots
	}
	return missed
}
