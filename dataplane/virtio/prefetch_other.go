//go:build !(amd64 || arm64) || purego

package virtio

func prefetchRead(*uintptr, int)  {}
func prefetchWrite(*uintptr, int) {}
