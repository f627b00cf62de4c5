//go:build (amd64 || arm64) && !purego

package shmem

// PrefetchRead asks the processor for two cache lines at each of n addresses, n at least 1. An address may be of no memory: a prefetch does
// not fault.
//
//go:noescape
func PrefetchRead(at *uintptr, n int)

// PrefetchWrite is PrefetchRead of lines that will be written: other cores give theirs up at once, instead of at the first write.
//
//go:noescape
func PrefetchWrite(at *uintptr, n int)

// PrefetchReadLine is PrefetchRead of one cache line at each address.
//
//go:noescape
func PrefetchReadLine(at *uintptr, n int)

// PrefetchWriteLine is PrefetchWrite of one cache line at each address.
//
//go:noescape
func PrefetchWriteLine(at *uintptr, n int)

//go:noescape
func prefetchLines(at *byte, n int)

//go:noescape
func prefetchLinesWrite(at *byte, n int)
