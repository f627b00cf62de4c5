package l2

import "math/bits"

// A stamp is the second in which a station was last seen, rounded down to a multiple of the granule, which is a part of the
// ageing time. With a million stations a refresh each second would be a write to memory for every few packets.
//
// An entry has room for a mark only, the low eight bits of the granule's number. The writer knows which 256 granules it may
// be of: those around the time at which it last looked, since it looks again before that is 32 granules off, and
// then no entry is of more than 129 before. If its clock jumps further, it looks through the table at once; stations that workers have
// refreshed by the new clock before it did may be forgotten.
//
//	now - 191 ........ now - 32 - 129 ........ now ..... now + 64
//	         not used                 marks         clocks that are ahead

// granuleOf returns the binary logarithm of the seconds that pass between two refreshes of an entry that ages after so many: at
// most a 64th.
func granuleOf(ageing uint32) uint8 { return uint8(max(bits.Len32(ageing), 7) - 7) }

// stampOf returns the second of a time in nanoseconds, modulo 2^32, but never 0, which is no time.
func stampOf(now int64) uint32 { return max(1, uint32(now/1e9)) }

// markOf returns the mark of a stamp.
func (t *fdb) markOf(stamp uint32) uint8 { return uint8(stamp >> t.granule) }

// The granules of marks begin so many before the present one; the writer looks again after so many.
const marksBefore, lookAgain = 191, 32

// stamp returns the stamp of entry i. What follows is the writer's.
func (t *fdb) stamp(b *bucket, i int) uint32 {
	from := t.now>>t.granule - marksBefore
	return (from + uint32(b.mark(i)-uint8(from))) << t.granule
}

// lifetime is how old a stamp may become, in seconds.
func (t *fdb) lifetime() uint32 { return t.ageing + 1<<t.granule - 1 }

// advance has the table take note of the time, and look through its entries if that is far from the time before.
func (t *fdb) advance(now uint32) {
	passed := int32(now - t.now)
	if t.oldest == 0 {
		t.now = now
	} else if far := int32(lookAgain) << t.granule; passed > far || passed < -far {
		t.sweep(now)
	} else if passed > 0 {
		t.now = now
	}
}

// age removes the stations that were not seen for longer than the ageing time.
// It looks through the table only when one may be due.
func (t *fdb) age(now uint32) {
	t.advance(now)
	if t.oldest != 0 && (int32(now-t.oldest) < 0 || now-t.oldest > t.lifetime()) {
		t.sweep(now)
	}
}

// sweep removes what is too old.
func (t *fdb) sweep(now uint32) {
	oldest := uint32(0)
	t.each(func(b *bucket, i int, _, entry uint64) {
		if entry&t.static != 0 {
			return
		}
		age := int32(now - t.stamp(b, i))
		if age < 0 {
			// The clock was set back. Let the entry age from now on.
			b.refresh(i, entry, t.markOf(now))
		} else if uint32(age) > t.lifetime() {
			t.remove(b, i, entry)
			t.aged.Add(1)
			return
		}
		oldest = older(oldest, max(1, now-uint32(max(age, 0))))
	})
	t.oldest, t.now = oldest, now
}

// setAgeing changes the ageing time. Entries that a worker refreshes meanwhile, by the time before, may get a wrong stamp, which is as
// good as forgetting a few stations.
func (t *fdb) setAgeing(ageing uint32) {
	granule := granuleOf(ageing)
	if granule != t.granule {
		t.each(func(b *bucket, i int, _, entry uint64) {
			b.refresh(i, entry, uint8(t.stamp(b, i)>>granule))
		})
	}
	t.ageing, t.granule = ageing, granule
}

// older returns the older of two stamps; 0 means no entry.
func older(a, b uint32) uint32 {
	if a == 0 || int32(b-a) < 0 {
		return b
	}
	return a
}
