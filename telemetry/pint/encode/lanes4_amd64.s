//go:build !purego

#include "textflag.h"

// As in lanes_amd64.s, four words at a time, for processors with AVX2. n is a multiple of four. AVX2 compares signed words, so
// their highest bits are flipped. Names of registers:
//
//	CX  words left    R9  words done    BX  the result    Y6  the highest bits

DATA lanes4<>+0(SB)/8, $1
DATA lanes4<>+8(SB)/8, $2
DATA lanes4<>+16(SB)/8, $4
DATA lanes4<>+24(SB)/8, $8
GLOBL lanes4<>(SB), RODATA|NOPTR, $32

// TURN turns the words of Y1 left.
#define TURN \
	VPSLLQ X2, Y1, Y7 \
	VPSRLQ X3, Y1, Y1 \
	VPOR Y7, Y1, Y1

#define HIGHEST \
	VPCMPEQQ Y6, Y6, Y6 \
	VPSLLQ $63, Y6, Y6

// COLLECT4 puts the lanes that are not set in Y1 where the words of this round are in the result.
#define COLLECT4 \
	VMOVMSKPD Y1, AX \
	XORL $15, AX \
	SHLXQ R9, AX, AX \
	ORQ AX, BX

// func within4(a *uint64, turn, low, width uint64, n int) uint64
TEXT ·within4(SB), NOSPLIT, $0-48
	MOVQ a+0(FP), SI
	MOVQ turn+8(FP), AX
	MOVQ n+32(FP), CX
	VPBROADCASTQ low+16(FP), Y4
	VPBROADCASTQ width+24(FP), Y5
	HIGHEST
	VPXOR Y6, Y5, Y5
	MOVL $64, DX
	SUBQ AX, DX
	MOVQ AX, X2
	MOVQ DX, X3
	XORL BX, BX
	XORL R9, R9
within:
	VMOVDQU (SI), Y1
	TURN
	VPSUBQ Y4, Y1, Y1
	VPXOR Y6, Y1, Y1
	VPCMPGTQ Y5, Y1, Y1
	COLLECT4
	ADDQ $32, SI
	ADDQ $4, R9
	SUBQ $4, CX
	JGT within
	VZEROUPPER
	MOVQ BX, ret+40(FP)
	RET

// func atMost4(a, limits *uint64, turn uint64, n int) uint64
TEXT ·atMost4(SB), NOSPLIT, $0-40
	MOVQ a+0(FP), SI
	MOVQ limits+8(FP), R8
	MOVQ turn+16(FP), AX
	MOVQ n+24(FP), CX
	HIGHEST
	MOVL $64, DX
	SUBQ AX, DX
	MOVQ AX, X2
	MOVQ DX, X3
	XORL BX, BX
	XORL R9, R9
most:
	VMOVDQU (SI), Y1
	VMOVDQU (R8), Y5
	TURN
	VPXOR Y6, Y1, Y1
	VPXOR Y6, Y5, Y5
	VPCMPGTQ Y5, Y1, Y1
	COLLECT4
	ADDQ $32, SI
	ADDQ $32, R8
	ADDQ $4, R9
	SUBQ $4, CX
	JGT most
	VZEROUPPER
	MOVQ BX, ret+32(FP)
	RET

// func merge4(dst, src *uint64, which, shift, mask, keep uint64, n int)
TEXT ·merge4(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+48(FP), CX
	VPBROADCASTQ which+16(FP), Y0
	MOVQ shift+24(FP), X3
	VPBROADCASTQ mask+32(FP), Y4
	VPBROADCASTQ keep+40(FP), Y5
	VMOVDQU lanes4<>(SB), Y6
merge:
	VPAND Y6, Y0, Y7
	VPCMPEQQ Y6, Y7, Y7 // the lanes to change
	VPSRLQ $4, Y0, Y0
	VMOVDQU (SI), Y1
	VMOVDQU (DI), Y2
	VPSLLQ X3, Y1, Y1
	VPAND Y4, Y1, Y1
	VPAND Y5, Y2, Y8
	VPXOR Y8, Y1, Y1
	VPBLENDVB Y7, Y1, Y2, Y2
	VMOVDQU Y2, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $4, CX
	JGT merge
	VZEROUPPER
	RET
