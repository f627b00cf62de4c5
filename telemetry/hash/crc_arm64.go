//go:build !purego

package hash

import "golang.org/x/sys/cpu"

// hasCRC says that the processor has instructions for both CRCs. It is a variable for tests to compare both.
var hasCRC = cpu.ARM64.HasCRC32
