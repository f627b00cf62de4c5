//go:build !purego

package hash

import "golang.org/x/sys/cpu"

// hasCRC says that the processor has an instruction for CRC-32C and a carry-less product for CRC-32. It is a variable
// for tests to compare both.
var hasCRC = cpu.X86.HasSSE42 && cpu.X86.HasPCLMULQDQ && cpu.X86.HasAVX
