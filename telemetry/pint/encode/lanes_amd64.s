//go:build !purego

#include "go_asm.h"
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

// The functions below are for columns of a Block, of which all 64 words may be read: eight at a time, without a mask.
// Words whose bit is not set in which are written as they were: the next function reads what this one wrote at once, and
// a load does not get its words from a store under a mask before that has left the store queue.

// OVERWRITES sets the bits of K2 for the words of Z1 that are at most the limits of their hops, which are in Z2. Z23 and Z24
// have the first sixteen limits, R11 points to all of them, and Z25 has 16 in all lanes.
#define OVERWRITES(large, decided) \
	VPCMPUQ $5, Z25, Z2, K3           \
	KORTESTB K3, K3                   \
	JNZ large                         \
	VPERMI2Q Z24, Z23, Z2             \
decided:                              \
	VPCMPUQ $2, Z2, Z1, K2

// LOOKUP is for hops of 16 and more.
#define LOOKUP(large, decided) \
large:                                \
	VMOVDQA64 Z2, Z6                  \
	KXNORB K3, K3, K3                 \
	VPGATHERQQ (R11)(Z6*8), K3, Z2    \
	JMP decided

#define LIMITS \
	VMOVDQU64 (R11), Z23   \
	VMOVDQU64 64(R11), Z24 \
	MOVQ $16, AX           \
	VPBROADCASTQ AX, Z25

// func wideReservoir(words, hops *[BlockSize]uint64, turn uint64, limits *[pint.MaxHops + 1]uint64, n int) uint64
TEXT ·wideReservoir(SB), NOSPLIT, $0-48
	MOVQ words+0(FP), SI
	MOVQ hops+8(FP), R8
	VPBROADCASTQ turn+16(FP), Z3
	MOVQ limits+24(FP), R11
	MOVQ n+32(FP), CX
	LIMITS
	XORL BX, BX
	XORL R9, R9
reservoir8:
	VMOVDQU64 (SI), Z1
	VPROLVQ Z3, Z1, Z1
	VMOVDQU64 (R8), Z2
	OVERWRITES(large, decided)
	COLLECT
	ADDQ $64, SI
	ADDQ $64, R8
	ADDQ $8, R9
	SUBQ $8, CX
	JGT reservoir8
	VZEROUPPER
	MOVQ BX, ret+40(FP)
	RET
	LOOKUP(large, decided)

// func wideLinear(dst, keys *[BlockSize]uint64, which, value, shift, mask uint64, n int)
TEXT ·wideLinear(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ keys+8(FP), SI
	MOVQ which+16(FP), BX
	MOVQ value+24(FP), R8
	MOVQ n+48(FP), CX
	VPBROADCASTQ shift+32(FP), Z30
	VPBROADCASTQ mask+40(FP), Z31
	// 32 words at a time, so that their sums do not wait for each other.
linear32:
	VMOVDQU64 (SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	VPXORQ Z8, Z8, Z8
	VPXORQ Z9, Z9, Z9
	VPXORQ Z10, Z10, Z10
	VPXORQ Z11, Z11, Z11
	MOVQ R8, R10
	TESTQ R10, R10
	JZ added
bit:
	TZCNTQ R10, AX
	MOVQ AX, X12
	VPSRLQ X12, Z0, Z4
	VPSRLQ X12, Z1, Z5
	VPSRLQ X12, Z2, Z6
	VPSRLQ X12, Z3, Z7
	VPXORQ Z4, Z8, Z8
	VPXORQ Z5, Z9, Z9
	VPXORQ Z6, Z10, Z10
	VPXORQ Z7, Z11, Z11
	BLSRQ R10, R10
	JNZ bit
added:
#define ADD(sum, at) \
	KMOVB BX, K1                  \
	SHRQ $8, BX                   \
	VPSLLVQ Z30, sum, sum         \
	VPANDQ.Z Z31, sum, K1, sum    \
	VPXORQ at(DI), sum, sum       \
	VMOVDQU64 sum, at(DI)
	ADD(Z8, 0)
	ADD(Z9, 64)
	ADD(Z10, 128)
	ADD(Z11, 192)
	ADDQ $256, SI
	ADDQ $256, DI
	SUBQ $32, CX
	JGT linear32
	VZEROUPPER
	RET

// func wideCodes(b *Block, bases *[BlockSize]uint64, step, which uint64, c *codes, n int)
TEXT ·wideCodes(SB), NOSPLIT, $0-48
	MOVQ b+0(FP), DI
	MOVQ bases+8(FP), SI
	MOVQ step+16(FP), R10
	MOVQ which+24(FP), BX
	MOVQ c+32(FP), DX
	MOVQ n+40(FP), CX
	LEAQ Block_chosen(DI), R8
	LEAQ Block_Digest(DI), DI
	VPBROADCASTQ codes_random(DX), Z16
	VPBROADCASTQ codes_fixed(DX), Z17
	VPBROADCASTQ codes_top(DX), Z18
	VPBROADCASTQ codes_flip(DX), Z19
	VPBROADCASTQ codes_shift(DX), Z20
	VPBROADCASTQ codes_mask(DX), Z21
	VPBROADCASTQ codes_atLeast(DX), Z22
	VPXORQ Z3, Z3, Z3
codes8:
	VMOVDQU64 (DI), Z2
	VPANDQ (R8), Z16, Z1
	VPADDQ Z17, Z1, Z1
	VPADDQ (SI), Z1, Z1
	VPSRAQ $16, Z1, Z1
	VPMAXSQ Z3, Z1, Z1
	VPMINUQ Z18, Z1, Z1
	VPXORQ Z19, Z1, Z1
	VPSLLVQ Z20, Z1, Z1
	VPANDQ Z22, Z2, Z4
	VPMAXUQ Z4, Z1, Z1
	VPTERNLOGQ $0xf4, Z21, Z2, Z1 // Z1 | Z2 &^ Z21
	KMOVB BX, K1
	VMOVDQA64 Z1, K1, Z2
	VMOVDQU64 Z2, (DI)
	SHRQ $8, BX
	ADDQ R10, SI
	ADDQ $64, R8
	ADDQ $64, DI
	SUBQ $8, CX
	JGT codes8
	VZEROUPPER
	RET
