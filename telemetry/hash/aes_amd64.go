//go:build !purego

package hash

import "golang.org/x/sys/cpu"

// hasAES says that the processor does a round of AES in an instruction, and hasVAES that it does two of them. They are
// variables for tests to compare all.
var (
	hasAES  = cpu.X86.HasAES && cpu.X86.HasSSE41
	hasVAES = hasAES && cpu.X86.HasAVX2 && cpuid7()&(1<<9) != 0 // with HasAVX2 there is a leaf 7
)

// cpuid7 is the feature word of CPUID that x/sys/cpu reads with AVX-512 only.
func cpuid7() (ecx uint32)

// vaesGroup is how many hashes the functions below compute side by side: n is a multiple of it.
const vaesGroup = 16

//go:noescape
func vaesWords1(dst, a *uint64, s *schedule, d *block, n int)

//go:noescape
func vaesWords2(dst, a, b *uint64, s *schedule, d *block, n int)

//go:noescape
func vaesWords5(dst, a, b, c, d, e *uint64, s *schedule, delta *block, n int)
