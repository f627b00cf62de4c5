//go:build !purego

#include "textflag.h"

// An update is a packet's number in the high half and a cell's in the low one; a
// cell is 32 bytes, four words. Registers:
//
//	DI  the cells    DX  what packets add    SI, CX  the updates left

// func prefetch(cells *Cell, updates *uint64, n int)
TEXT ·prefetch(SB), NOSPLIT, $0-24
	MOVQ cells+0(FP), DI
	MOVQ updates+8(FP), SI
	MOVQ n+16(FP), CX
next:
	MOVL (SI), AX
	SHLQ $5, AX
	PREFETCHT0 (DI)(AX*1)
	ADDQ $8, SI
	DECQ CX
	JNZ next
	RET

// func mergeWide(cells, add *Cell, updates *uint64, n int)
TEXT ·mergeWide(SB), NOSPLIT, $0-32
	MOVQ cells+0(FP), DI
	MOVQ add+8(FP), DX
	MOVQ updates+16(FP), SI
	MOVQ n+24(FP), CX
next:
	MOVL (SI), AX
	MOVL 4(SI), BX
	SHLQ $5, AX
	SHLQ $5, BX
	VMOVDQU (DX)(BX*1), Y0
	VPADDQ (DI)(AX*1), Y0, Y0
	VMOVDQU Y0, (DI)(AX*1)
	ADDQ $8, SI
	DECQ CX
	JNZ next
	VZEROUPPER
	RET
