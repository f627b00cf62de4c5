//go:build !purego

package hash

import "golang.org/x/sys/cpu"

// hasAES says that the processor does a round of AES in an instruction. It is a variable for tests to compare both.
var hasAES = cpu.X86.HasAES && cpu.X86.HasSSE41
