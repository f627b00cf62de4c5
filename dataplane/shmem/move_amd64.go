//go:build !purego

package shmem

import "golang.org/x/sys/cpu"

// Processors with enhanced REP MOVSB write whole lines without reading them first, of which a loop of vector stores cannot be sure: that
// counts where another core has the lines.
var byRep = cpu.X86.HasERMS

//go:noescape
func moveBytes(dst, src *byte, n int)

// move is copy of the first n bytes, n at least 1, between memories that do not overlap.
func move(dst, src []byte, n int) {
	if byRep {
		moveBytes(&dst[:n][0], &src[:n][0], n)
		return
	}
	copy(dst[:n], src)
}
