package lds

// touch brings the cells of updates into the cache, without waiting for them.
func touch(cells []packed, updates []uint64) {
	if wide && len(updates) > 0 {
		prefetch(&cells[0], &updates[0], len(updates))
	}
}

// merge adds to the cells of updates what the packets of updates add. It returns less than 0 if one of them has
// reached a guard.
func merge(cells, add []packed, updates []uint64) (guarded int64) {
	if len(updates) == 0 {
		return 0
	}
	if wide {
		return mergeWide(&cells[0], &add[0], &updates[0], len(updates))
	}
	for _, u := range updates {
		c := &cells[uint32(u)]
		c.add(add[u>>32])
		guarded |= c.guarded()
	}
	return guarded
}
