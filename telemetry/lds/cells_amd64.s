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

// func placeWide(upper, lower, at, hashes *[BlockSize]uint64, columns, first uint64, n int)
//
// VPMULUDQ multiplies the low halves of words, so the lower row needs no mask.
TEXT ·placeWide(SB), NOSPLIT, $0-56
	MOVQ upper+0(FP), DI
	MOVQ lower+8(FP), DX
	MOVQ at+16(FP), SI
	MOVQ hashes+24(FP), R8
	VPBROADCASTQ columns+32(FP), Y2
	VPBROADCASTQ first+40(FP), Y3
	MOVQ n+48(FP), CX
	VPADDQ Y2, Y3, Y4 // first cell of the lower row
	XORQ AX, AX
next:
	VMOVDQU (R8)(AX*1), Y0
	VMOVDQU (SI)(AX*1), Y5
	VPSRLQ $32, Y0, Y1
	VPMULUDQ Y2, Y1, Y1
	VPMULUDQ Y2, Y0, Y0
	VPSRLQ $32, Y1, Y1
	VPSRLQ $32, Y0, Y0
	VPADDQ Y5, Y1, Y1
	VPADDQ Y5, Y0, Y0
	VPADDQ Y3, Y1, Y1
	VPADDQ Y4, Y0, Y0
	VMOVDQU Y1, (DI)(AX*1)
	VMOVDQU Y0, (DX)(AX*1)
	ADDQ $32, AX
	SUBQ $4, CX
	JGT next
	VZEROUPPER
	RET
