//go:build !(amd64 || arm64) || purego

package shmem

func PrefetchRead(*uintptr, int)  {}
func PrefetchWrite(*uintptr, int) {}

func PrefetchReadLine(*uintptr, int)  {}
func PrefetchWriteLine(*uintptr, int) {}

func prefetchLines(*byte, int)      {}
func prefetchLinesWrite(*byte, int) {}
