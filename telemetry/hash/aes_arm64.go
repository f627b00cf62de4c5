//go:build !purego

package hash

import "golang.org/x/sys/cpu"

// hasAES says that the processor does a round of AES in two instructions. It is a variable for tests to compare both.
var hasAES = cpu.ARM64.HasAES
