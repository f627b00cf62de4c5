//go:build !purego

#include "textflag.h"

// An update is a packet's number in the high half and a cell's in the low one; a
// cell is 16 bytes, two words. Registers:
//
//	DI  the cells    DX  what packets add    SI, CX  the updates left

// The shifts that bring the guards of count and bytes to the highest bit, and a mask of the sum's.
DATA guards<>+0(SB)/8, $46
DATA guards<>+8(SB)/8, $32
GLOBL guards<>(SB), RODATA|NOPTR, $16
DATA sums<>+0(SB)/8, $0x8000000000000000
DATA sums<>+8(SB)/8, $0
GLOBL sums<>(SB), RODATA|NOPTR, $16

// func prefetch(cells *packed, updates *uint64, n int)
TEXT ·prefetch(SB), NOSPLIT, $0-24
	MOVQ cells+0(FP), DI
	MOVQ updates+8(FP), SI
	MOVQ n+16(FP), CX
next:
	MOVL (SI), AX
	SHLQ $4, AX
	PREFETCHT0 (DI)(AX*1)
	ADDQ $8, SI
	DECQ CX
	JNZ next
	RET

// func mergeWide(cells, add *packed, updates *uint64, n int) (guarded int64)
TEXT ·mergeWide(SB), NOSPLIT, $0-40
	MOVQ cells+0(FP), DI
	MOVQ add+8(FP), DX
	MOVQ updates+16(FP), SI
	MOVQ n+24(FP), CX
	VPXOR X3, X3, X3
	VMOVDQU guards<>(SB), X4
	VMOVDQU sums<>(SB), X5
next:
	MOVL (SI), AX
	MOVL 4(SI), BX
	SHLQ $4, AX
	SHLQ $4, BX
	VMOVDQU (DX)(BX*1), X0
	VPADDQ (DI)(AX*1), X0, X0
	VMOVDQU X0, (DI)(AX*1)
	VPADDQ X0, X0, X1 // shifted by one: the two highest bits of a sum within its guard are equal
	VPSLLVQ X4, X0, X2
	VPXOR X0, X1, X1
	VPAND X5, X1, X1
	VPOR X2, X3, X3
	VPOR X1, X3, X3
	ADDQ $8, SI
	DECQ CX
	JNZ next
	VMOVMSKPD X3, AX
	NEGQ AX
	MOVQ AX, guarded+32(FP)
	VZEROUPPER
	RET

// func placeWide(upper, lower, at, columns, hashes *[BlockSize]uint64, n int)
//
// VPMULUDQ multiplies the low halves of words, so the lower row needs no mask.
TEXT ·placeWide(SB), NOSPLIT, $0-48
	MOVQ upper+0(FP), DI
	MOVQ lower+8(FP), DX
	MOVQ at+16(FP), SI
	MOVQ columns+24(FP), R9
	MOVQ hashes+32(FP), R8
	MOVQ n+40(FP), CX
	XORQ AX, AX
next:
	VMOVDQU (R8)(AX*1), Y0
	VMOVDQU (R9)(AX*1), Y2
	VMOVDQU (SI)(AX*1), Y5
	VPSRLQ $32, Y0, Y1
	VPMULUDQ Y2, Y1, Y1
	VPMULUDQ Y2, Y0, Y0
	VPSRLQ $32, Y1, Y1
	VPSRLQ $32, Y0, Y0
	VPADDQ Y5, Y1, Y1
	VPADDQ Y2, Y5, Y5
	VPADDQ Y5, Y0, Y0
	VPADDQ Y2, Y5, Y5
	VMOVDQU Y1, (DI)(AX*1)
	VMOVDQU Y0, (DX)(AX*1)
	VMOVDQU Y5, (SI)(AX*1)
	ADDQ $32, AX
	SUBQ $4, CX
	JGT next
	VZEROUPPER
	RET
