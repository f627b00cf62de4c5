package hash

// Uint64s stores in dst[i] the hash of a[i]: Uint64 of many inputs at once. A
// batch's hashes cost a fraction of as many single ones, since their
// multiplications run side by side: on processors with AVX-512, eight in one
// instruction. The inputs are as long as dst, or longer; dst may be one of them.
// Shorter ones panic.
func Uint64s(dst []uint64, seed uint64, a []uint64) {
	n := len(dst)
	if n == 0 {
		return
	}
	a = a[:n]
	if wide {
		words1(&dst[0], &a[0], seed, n)
		return
	}
	for i := range dst {
		dst[i] = Uint64(seed, a[i])
	}
}

// Uint64x2s is Uint64x2 of many inputs at once, as Uint64s is Uint64.
func Uint64x2s(dst []uint64, seed uint64, a, b []uint64) {
	n := len(dst)
	if n == 0 {
		return
	}
	a, b = a[:n], b[:n]
	if wide {
		words2(&dst[0], &a[0], &b[0], seed, n)
		return
	}
	for i := range dst {
		dst[i] = Uint64x2(seed, a[i], b[i])
	}
}

// Uint64x5s is Uint64x5 of many inputs at once, as Uint64s is Uint64.
func Uint64x5s(dst []uint64, seed uint64, a, b, c, d, e []uint64) {
	n := len(dst)
	if n == 0 {
		return
	}
	a, b, c, d, e = a[:n], b[:n], c[:n], d[:n], e[:n]
	if wide {
		words5(&dst[0], &a[0], &b[0], &c[0], &d[0], &e[0], seed, n)
		return
	}
	for i := range dst {
		dst[i] = Uint64x5(seed, a[i], b[i], c[i], d[i], e[i])
	}
}
