package shmem

// Pieces of a long copy are of at least long bytes, and the next ahead bytes are asked for before one is copied: a processor's own
// prefetching ends with each page, and what another core has written or read last takes longest.
const (
	long  = 1024
	ahead = 4096
)

// CopyFrom is copy out of memory of another process that is read piece by piece, from its beginning to its end.
func CopyFrom(dst, src []byte) int {
	n := min(len(dst), len(src))
	if n < long {
		return copy(dst, src)
	}
	if len(src) > n {
		prefetchLines(&src[n], (min(len(src)-n, ahead)+63)/64)
	}
	move(dst, src, n)
	return n
}

// CopyTo is copy into memory of another process that is written piece by piece, from its beginning to its end.
func CopyTo(dst, src []byte) int {
	n := min(len(dst), len(src))
	if n < long {
		return copy(dst, src)
	}
	if len(dst) > n {
		prefetchLinesWrite(&dst[n], (min(len(dst)-n, ahead)+63)/64)
	}
	move(dst, src, n)
	return n
}
