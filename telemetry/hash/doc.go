// Package hash is the seeded hash family of the switch: packet ids, flow
// hashes, the global hash functions of PINT, the rows of sketches and the
// priorities of samples all come from here, so two parts that hash the same
// value under the same seed agree.
//
// There are three implementations, and a Family names one: XXH64, which is fast everywhere; crc, which P4
// targets can do too (crc.go); and aes, which is keyed (aes.go). Switches that share digests or sketches use the same. A member of
// the family is a seed; seeds made of seeds are XXH64 in all, as only the control plane
// makes them.
//
// The functions of the package are XXH64, those of Family are the family's. Hot loops ask once for
// the family, and call the package's functions if it is XX: the compiler puts these in line. Variable
// lengths go through Bytes, on github.com/cespare/xxhash; the short fixed
// lengths of the packet path have special functions, without buffers or
// calls, that give the same value as XXH64 over their words in little-endian
// order:
//
//	Uint64(s, a) == Bytes(s, a as 8 bytes)
//	Uint64x2(s, a, b) == Bytes(s, a and b as 16 bytes), and so on
//
// Uint64s, Uint64x2s and Uint64x5s are the same for many inputs at once, at a
// fraction of the cost: of XXH64 eight in one instruction where the processor has AVX-512
// (the build tag purego leaves that out), side by side elsewhere; of aes eight side by side, by the instructions that amd64
// and arm64 have for a round of AES. Elsewhere, and with purego, a hash by aes takes a hundred nanoseconds.
//
// Members with different seeds, consecutive ones too, behave as independent
// functions; the tests state what "behave" means and how often chance would
// fail them. Members of xxhash and crc are no match for an adversary who knows the seed, and those of crc and xxhash
// no match for one who sees their values either. Those of aes are, against an adversary without the network's key: a Family carries the key's
// id alone, and Keyed makes the key known to the process.
//
// All functions are pure, allocate nothing and are safe for concurrent use.
// The package imports nothing of ours.
package hash
