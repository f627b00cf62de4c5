package l2

// What the table's one writer does with it, but for time (stamp.go).

// learn notes that the station of key was seen on a port.
func (t *fdb) learn(key uint64, port uint16, stamp uint32) {
	if t.oldest == 0 || int32(stamp-t.now) > 0 { // a clock that was set back is the business of age
		t.advance(stamp)
	}
	mixed := t.mix(key)
	if b, i, entry := t.find(mixed); b != nil {
		if before := t.port(entry); t.loops != nil && before != port && entry&t.static == 0 {
			t.loops.moved(key, mixed, before, port)
		}
		t.refreshPort(b, i, entry, port, stamp)
		return
	}
	if t.entries.Load() >= uint64(t.limit) && !t.evict(port) {
		t.full.Add(1)
		return
	}
	if t.insert(mixed, uint64(port), t.markOf(stamp)) {
		t.count(port, 1)
		t.learned.Add(1)
		t.oldest = older(t.oldest, stamp)
	} else {
		t.full.Add(1)
	}
}

// refreshPort notes that a known station was seen on a port.
func (t *fdb) refreshPort(b *bucket, i int, entry uint64, port uint16, stamp uint32) {
	if entry&t.static != 0 {
		return
	}
	before := t.port(entry)
	if before != port {
		t.moved.Add(1)
		t.count(before, -1)
		t.count(port, 1)
		entry = entry&^t.ports | uint64(port)
		b.entries[i].Store(entry)
	} else if int32(stamp-t.stamp(b, i)) <= 0 {
		return // a worker has refreshed it meanwhile
	}
	b.refresh(i, entry, t.markOf(stamp))
	t.oldest = older(t.oldest, stamp)
}

// addStatic adds an entry that does not age. It reports false if it has no room.
func (t *fdb) addStatic(key uint64, port uint16) bool {
	if !t.insert(t.mix(key), uint64(port)|t.static, 0) {
		return false
	}
	t.statics.Add(1)
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
	var victim struct {
		b     *bucket
		i     int
		entry uint64
		stamp uint32
	}
	seen := 0
	for range t.buckets {
		b := &t.buckets[t.hand]
		t.hand = (t.hand + 1) & uint64(len(t.buckets)-1)
		for i := range b.entries {
			entry := b.entries[i].Load()
			if entry == 0 || entry&t.static != 0 || t.port(entry) != most {
				continue
			}
			if stamp := t.stamp(b, i); victim.b == nil || int32(stamp-victim.stamp) < 0 {
				victim.b, victim.i, victim.entry, victim.stamp = b, i, entry, stamp
			}
			seen++
		}
		if seen >= evictSample {
			break
		}
	}
	t.remove(victim.b, victim.i, victim.entry)
	t.evicted.Add(1)
	return true
}

// maxDepth bounds the chain of displacements. At 80 % load the chance that
// more than four are needed is beyond observation.
const maxDepth = 4

// insert puts a key that is not in the table, with a port and static or not, into a free entry.
func (t *fdb) insert(mixed, value uint64, mark uint8) bool {
	if t.entries.Load() >= uint64(t.limit) {
		return false
	}
	for depth := range maxDepth + 1 {
		at, name := t.first(mixed)
		for range 2 {
			if i, ok := t.makeRoom(at, depth); ok {
				t.bucket(at).fill(i, name|value, mark)
				t.entries.Add(1)
				return true
			}
			at, name = t.other(at, name)
		}
	}
	return false
}

// makeRoom returns a free entry of a bucket. To make one it may move others to
// their other buckets, in chains of at most depth.
func (t *fdb) makeRoom(at uint64, depth int) (int, bool) {
	b := t.bucket(at)
	for i := range b.entries {
		if b.entries[i].Load() == 0 {
			return i, true
		}
	}
	if depth == 0 {
		return 0, false
	}
	for i := range b.entries {
		entry := b.entries[i].Load()
		to, _ := t.other(at, entry)
		j, ok := t.makeRoom(to, depth-1)
		// The chain may have come through this bucket and changed the entry.
		if !ok || b.entries[i].Load() != entry {
			continue
		}
		t.move(at, i, j)
		return i, true
	}
	return 0, false
}

// move takes entry i of a bucket to the free entry j of its other one. A refresh of the original in between is lost; the
// next packet repeats it.
func (t *fdb) move(at uint64, i, j int) {
	from := t.bucket(at)
	to, entry := t.other(at, from.entries[i].Load())
	t.bucket(to).fill(j, entry, from.mark(i))
	t.moves.Add(1)
	from.entries[i].Store(0)
}

// fill occupies a free entry: its mark first, with a new version.
func (b *bucket) fill(i int, entry uint64, mark uint8) {
	for {
		marks := b.marks.Load()
		if b.marks.CompareAndSwap(marks, withMark(marks, i, mark)+1<<(8*slots)) {
			break
		}
	}
	b.entries[i].Store(entry)
}

// flush removes the dynamic entries that match and returns how many.
func (t *fdb) flush(match func(vlan, port uint16) bool) int {
	n := 0
	t.each(func(b *bucket, i int, at, entry uint64) {
		if entry&t.static == 0 && match(keyVLAN(t.key(at, entry)), t.port(entry)) {
			t.remove(b, i, entry)
			n++
		}
	})
	t.flushed.Add(uint64(n))
	return n
}

// removeKey removes the entry of a key, static or not, if there is one.
func (t *fdb) removeKey(key uint64) {
	if b, i, entry := t.find(t.mix(key)); b != nil {
		if entry&t.static != 0 {
			t.statics.Add(^uint64(0))
		}
		t.remove(b, i, entry)
	}
}

// remove frees entry i.
func (t *fdb) remove(b *bucket, i int, entry uint64) {
	if entry&t.static == 0 {
		t.count(t.port(entry), -1)
	}
	b.entries[i].Store(0)
	t.entries.Add(^uint64(0))
}

// each calls f for every occupied entry, with its bucket's offset. f may remove it.
func (t *fdb) each(f func(b *bucket, i int, at, entry uint64)) {
	for n := range t.buckets {
		b := &t.buckets[n]
		for i := range b.entries {
			if entry := b.entries[i].Load(); entry != 0 {
				f(b, i, uint64(n)*bucketSize, entry)
			}
		}
	}
}

// key returns the key of an entry in the bucket at an offset.
func (t *fdb) key(at, entry uint64) uint64 {
	if entry&t.second != 0 {
		at, _ = t.other(at, entry)
	}
	return t.unmix(entry&t.tag | at>>1)
}
