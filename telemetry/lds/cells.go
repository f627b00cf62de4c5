package lds

// touch brings the cells of updates into the cache, without waiting for them.
func touch(cells []Cell, updates []uint64) {
	if wide && len(updates) > 0 {
		prefetch(&cells[0], &updates[0], len(updates))
	}
}

// merge adds to the cells of updates what the packets of updates add.
func merge(cells, add []Cell, updates []uint64) {
	if len(updates) == 0 {
		return
	}
	if wide {
		mergeWide(&cells[0], &add[0], &updates[0], len(updates))
		return
	}
	for _, u := range updates {
		cells[uint32(u)].merge(&add[u>>32])
	}
}
