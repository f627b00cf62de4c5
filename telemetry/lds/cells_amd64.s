//go:build !purego

#include "go_asm.h"
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

// func packWide(add *[BlockSize]packed, times *[BlockSize]int64, bytes *[BlockSize]uint32, digests *[BlockSize]uint64, middle, low, high int64, n int) (outside int64)
//
// A number outside of its range sets the highest bit of a difference to one of the limits.
TEXT ·packWide(SB), NOSPLIT, $0-72
	MOVQ add+0(FP), DI
	MOVQ times+8(FP), SI
	MOVQ bytes+16(FP), R8
	MOVQ digests+24(FP), R9
	VPBROADCASTQ middle+32(FP), Y8
	VPBROADCASTQ low+40(FP), Y9
	VPBROADCASTQ high+48(FP), Y10
	MOVQ n+56(FP), CX
	MOVQ $const_mostBytes, AX
	VMOVQ AX, X12
	VPBROADCASTQ X12, Y12
	MOVQ $1, AX // a packet
	VMOVQ AX, X11
	VPBROADCASTQ X11, Y11
	VPXOR Y7, Y7, Y7
next:
	VMOVDQU (SI), Y0
	VPMOVZXDQ (R8), Y3
	VMOVDQU (R9), Y5
	VPSUBQ Y8, Y0, Y0
	VPSUBQ Y9, Y0, Y1
	VPSUBQ Y0, Y10, Y2
	VPSUBQ Y3, Y12, Y4
	VPOR Y1, Y7, Y7
	VPOR Y2, Y4, Y4
	VPOR Y4, Y7, Y7
	VPSLLQ $const_countBits, Y0, Y0
	VPADDQ Y11, Y0, Y0
	VPSLLQ $const_digestOffset, Y5, Y5
	VPOR Y5, Y3, Y3
	VPUNPCKLQDQ Y3, Y0, Y1
	VPUNPCKHQDQ Y3, Y0, Y2
	VMOVDQU X1, (DI)
	VMOVDQU X2, 16(DI)
	VEXTRACTI128 $1, Y1, 32(DI)
	VEXTRACTI128 $1, Y2, 48(DI)
	ADDQ $32, SI
	ADDQ $16, R8
	ADDQ $32, R9
	ADDQ $64, DI
	SUBQ $4, CX
	JGT next
	VMOVMSKPD Y7, AX
	MOVQ AX, outside+64(FP)
	VZEROUPPER
	RET

// The numbers of packets in the high halves of updates, and what four later ones have more.
DATA numbers<>+0(SB)/8, $0x000000000
DATA numbers<>+8(SB)/8, $0x100000000
DATA numbers<>+16(SB)/8, $0x200000000
DATA numbers<>+24(SB)/8, $0x300000000
GLOBL numbers<>(SB), RODATA|NOPTR, $32

// func placeAloneWide(upper, lower, hashes *[BlockSize]uint64, first, columns uint64, n int)
TEXT ·placeAloneWide(SB), NOSPLIT, $0-48
	MOVQ upper+0(FP), DI
	MOVQ lower+8(FP), DX
	MOVQ hashes+16(FP), R8
	VPBROADCASTQ first+24(FP), Y5
	VPBROADCASTQ columns+32(FP), Y2
	MOVQ n+40(FP), CX
	VPADDQ numbers<>(SB), Y5, Y5
	VPADDQ Y2, Y5, Y6
	MOVQ $0x400000000, AX
	VMOVQ AX, X7
	VPBROADCASTQ X7, Y7
	XORQ AX, AX
next:
	VMOVDQU (R8)(AX*1), Y0
	VPSRLQ $32, Y0, Y1
	VPMULUDQ Y2, Y1, Y1
	VPMULUDQ Y2, Y0, Y0
	VPSRLQ $32, Y1, Y1
	VPSRLQ $32, Y0, Y0
	VPADDQ Y5, Y1, Y1
	VPADDQ Y6, Y0, Y0
	VMOVDQU Y1, (DI)(AX*1)
	VMOVDQU Y0, (DX)(AX*1)
	VPADDQ Y7, Y5, Y5
	VPADDQ Y7, Y6, Y6
	ADDQ $32, AX
	SUBQ $4, CX
	JGT next
	VZEROUPPER
	RET
