//go:build !amd64 || purego

package shmem

// move is copy of the first n bytes, between memories that do not overlap.
func move(dst, src []byte, n int) { copy(dst[:n], src) }
