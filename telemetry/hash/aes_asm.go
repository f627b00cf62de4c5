//go:build (amd64 || arm64) && !purego

package hash

// The functions of aes_amd64.s and aes_arm64.s. The many ones take n hashes, a multiple of group; each pointer is to as many
// words.

//go:noescape
func encryptOne(s *schedule, m *block)

//go:noescape
func rounds4One(keys *[4]block, m *block)

//go:noescape
func aesWords1(dst, a *uint64, s *schedule, d *block, n int)

//go:noescape
func aesWords2(dst, a, b *uint64, s *schedule, d *block, n int)

//go:noescape
func aesWords5(dst, a, b, c, d, e *uint64, s *schedule, delta *block, n int)
