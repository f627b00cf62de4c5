package encode

import "math/bits"

// The functions below decide for the packets of a block at once, bit i for packet i: at
// most 64. On processors with AVX-512 eight are decided by one instruction, on those with AVX2 four. Bits beyond the
// last packet are 0.

// within reports which words, turned left by turn bits, are in low..low+width, modulo 2^64.
func within(a []uint64, turn int, low, width uint64) (m uint64) {
	if len(a) == 0 {
		return 0
	}
	a = a[:min(len(a), BlockSize)]
	if wide {
		return wideWithin(&a[0], uint64(turn), low, width, len(a))
	}
	done := 0
	if n := len(a) &^ 3; four && n > 0 {
		m, done = within4(&a[0], uint64(turn), low, width, n), n
	}
	for i := done; i < len(a); i++ {
		m |= bit(bits.RotateLeft64(a[i], turn)-low <= width) << (i & 63)
	}
	return m
}

// atMost reports which words, turned left by turn bits, do not exceed their limits, of which there
// are as many.
func atMost(a, limits []uint64, turn int) (m uint64) {
	if len(a) == 0 {
		return 0
	}
	a = a[:min(len(a), BlockSize)]
	limits = limits[:len(a)]
	if wide {
		return wideAtMost(&a[0], &limits[0], uint64(turn), len(a))
	}
	done := 0
	if n := len(a) &^ 3; four && n > 0 {
		m, done = atMost4(&a[0], &limits[0], uint64(turn), n), n
	}
	for i := done; i < len(a); i++ {
		m |= bit(bits.RotateLeft64(a[i], turn) <= limits[i]) << (i & 63)
	}
	return m
}

// merge replaces, in the words whose bit is set, the bits of keep's complement by 0, and
// then adds those of src, shifted left and under mask, modulo 2. src is as long as dst.
func merge(dst, src []uint64, which uint64, shift uint8, mask, keep uint64) {
	if len(dst) == 0 {
		return
	}
	dst = dst[:min(len(dst), BlockSize)]
	src = src[:len(dst)]
	if wide {
		wideMerge(&dst[0], &src[0], which, uint64(shift), mask, keep, len(dst))
		return
	}
	done := 0
	if n := len(dst) &^ 3; four && n > 0 {
		merge4(&dst[0], &src[0], which, uint64(shift), mask, keep, n)
		done = n
	}
	for i := done; i < len(dst); i++ {
		old := dst[i]
		dst[i] = old ^ (old^(old&keep^src[i]<<(shift&63)&mask))&-(which>>(i&63)&1)
	}
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
