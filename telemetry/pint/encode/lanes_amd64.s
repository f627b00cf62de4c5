//go:build !purego

#include "textflag.h"

// Eight words at a time, a lane each. Words are read and written under a mask, so
// any number of them will do: the last round takes what is left. Names of registers:
//
//	CX  words left    R9  words done    BX  the result    K1  the lanes of this round

// LANES sets the mask: all eight lanes, or as many as are left.
#define LANES \
	MOVL $0xff, AX    \
	MOVL $8, DX       \
	CMPQ CX, DX       \
	CMOVQLT CX, DX    \
	BZHIL DX, AX, AX  \
	KMOVB AX, K1

// COLLECT puts the lanes of K2 where the words of this round stand in the result.
#define COLLECT \
	KMOVB K2, AX       \
	SHLXQ R9, AX, AX   \
	ORQ AX, BX

// func wideWithin(a *uint64, turn, low, width uint64, n int) uint64
TEXT ·wideWithin(SB), NOSPLIT, $0-48
	MOVQ a+0(FP), SI
	MOVQ n+32(FP), CX
	VPBROADCASTQ turn+8(FP), Z3
	VPBROADCASTQ low+16(FP), Z4
	VPBROADCASTQ width+24(FP), Z5
	XORL BX, BX
	XORL R9, R9
within8:
	LANES
	VMOVDQU64.Z (SI), K1, Z1
	VPROLVQ Z3, Z1, Z1
	VPSUBQ Z4, Z1, Z1
	VPCMPUQ $2, Z5, Z1, K1, K2 // Z1 <= Z5
	COLLECT
	ADDQ $64, SI
	ADDQ $8, R9
	SUBQ $8, CX
	JGT within8
	VZEROUPPER
	MOVQ BX, ret+40(FP)
	RET

// func wideAtMost(a, limits *uint64, turn uint64, n int) uint64
TEXT ·wideAtMost(SB), NOSPLIT, $0-40
	MOVQ a+0(FP), SI
	MOVQ limits+8(FP), R8
	MOVQ n+24(FP), CX
	VPBROADCASTQ turn+16(FP), Z3
	XORL BX, BX
	XORL R9, R9
most8:
	LANES
	VMOVDQU64.Z (SI), K1, Z1
	VMOVDQU64.Z (R8), K1, Z2
	VPROLVQ Z3, Z1, Z1
	VPCMPUQ $2, Z2, Z1, K1, K2 // Z1 <= Z2
	COLLECT
	ADDQ $64, SI
	ADDQ $64, R8
	ADDQ $8, R9
	SUBQ $8, CX
	JGT most8
	VZEROUPPER
	MOVQ BX, ret+32(FP)
	RET

// func wideMerge(dst, src *uint64, which, shift, mask, keep uint64, n int)
TEXT ·wideMerge(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ which+16(FP), BX
	MOVQ n+48(FP), CX
	VPBROADCASTQ shift+24(FP), Z3
	VPBROADCASTQ mask+32(FP), Z4
	VPBROADCASTQ keep+40(FP), Z5
merge8:
	LANES
	ANDL BX, AX
	KMOVB AX, K1
	VMOVDQU64.Z (SI), K1, Z1
	VMOVDQU64.Z (DI), K1, Z2
	VPSLLVQ Z3, Z1, Z1
	VPANDQ Z4, Z1, Z1
	VPANDQ Z5, Z2, Z2
	VPXORQ Z1, Z2, Z2
	VMOVDQU64 Z2, K1, (DI)
	SHRQ $8, BX
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $8, CX
	JGT merge8
	VZEROUPPER
	RET
