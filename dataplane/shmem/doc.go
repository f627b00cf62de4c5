// Package shmem is what ports in shared memory have in common, whatever their protocol: the lock of a ring that a worker uses
// while messages start and stop it, recovery from memory that vanishes, the descriptor by which a worker waits for notifications,
// and the checks of what a peer passes over its socket.
//
// A peer is hostile. It can truncate the file behind shared memory at any time, and the next access raises SIGBUS. Between
// Gate.Enter and Gate.Leave that is a panic of the goroutine, which the caller recovers and hands to Lost:
//
//	defer func() { // directly: recover works nowhere else
//		if r := recover(); r != nil && !shmem.Lost(r, memory.Holds) { ... }
//	}()
package shmem
