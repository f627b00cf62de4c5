//go:build (amd64 || arm64) && !purego

package hash

// crcStep goes on with a word in each of n >= 1 sums.
//
//go:noescape
func crcStep(sums *sum, words *uint64, n int)

// crcFinish stores key.hash of each of n >= 1 sums.
//
//go:noescape
func crcFinish(dst *uint64, sums *sum, k key, n int)
