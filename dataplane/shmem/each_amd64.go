//go:build !purego

package shmem

import "unsafe"

// getShort copies packets as Get does, up to the first one that is not of 32 to 128 bytes, and returns how many.
//
//go:noescape
func getShort(mem *byte, at *uint64, from *unsafe.Pointer, lengths *uint32, count int) int

// putShort copies packets as Put does, up to the first one that is not of 32 to 128 bytes, and returns how many.
//
//go:noescape
func putShort(mem *byte, at *uint64, to *unsafe.Pointer, lengths *uint32, count int) int
