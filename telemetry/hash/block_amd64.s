//go:build !purego

#include "textflag.h"

// Eight hashes at a time, a lane each, with the 64-bit multiplication of
// AVX-512DQ. Inputs are read, and hashes written, under a mask, so any number
// of them will do: the last round takes what is left. Names of registers:
//
//	Z16-Z20  prime1..prime5, in all lanes    Z0, Z1-Z4  the state, the lanes of a stripe
//	Z21      the state to begin with         Z8, Z9     scratch
//	CX       hashes left                     K1         the lanes of this round

DATA primes<>+0x00(SB)/8, $0x9e3779b185ebca87
DATA primes<>+0x08(SB)/8, $0xc2b2ae3d27d4eb4f
DATA primes<>+0x10(SB)/8, $0x165667b19e3779f9
DATA primes<>+0x18(SB)/8, $0x85ebca77c2b2ae63
DATA primes<>+0x20(SB)/8, $0x27d4eb2f165667c5
GLOBL primes<>(SB), RODATA|NOPTR, $40

#define PRIMES \
	VPBROADCASTQ primes<>+0x00(SB), Z16 \
	VPBROADCASTQ primes<>+0x08(SB), Z17 \
	VPBROADCASTQ primes<>+0x10(SB), Z18 \
	VPBROADCASTQ primes<>+0x18(SB), Z19 \
	VPBROADCASTQ primes<>+0x20(SB), Z20

// LANES sets the mask: all eight lanes, or as many as are left.
#define LANES \
	MOVL $0xff, AX    \
	MOVL $8, DX       \
	CMPQ CX, DX       \
	CMOVQLT CX, DX    \
	BZHIL DX, AX, AX  \
	KMOVB AX, K1

// TAIL mixes the word w into the state, like tail.
#define TAIL(w) \
	VPMULLQ Z17, w, Z8   \
	VPROLQ $31, Z8, Z8   \
	VPMULLQ Z16, Z8, Z8  \
	VPXORQ Z8, Z0, Z0    \
	VPROLQ $27, Z0, Z0   \
	VPMULLQ Z16, Z0, Z0  \
	VPADDQ Z19, Z0, Z0

// FINISH avalanches the state, like finish.
#define FINISH \
	VPSRLQ $33, Z0, Z8   \
	VPXORQ Z8, Z0, Z0    \
	VPMULLQ Z17, Z0, Z0  \
	VPSRLQ $29, Z0, Z8   \
	VPXORQ Z8, Z0, Z0    \
	VPMULLQ Z18, Z0, Z0  \
	VPSRLQ $32, Z0, Z8   \
	VPXORQ Z8, Z0, Z0

// ROUND mixes the word w into a lane of the stripe that is acc so far.
#define ROUND(acc, w, v) \
	VPMULLQ Z17, w, v   \
	VPADDQ acc, v, v    \
	VPROLQ $31, v, v    \
	VPMULLQ Z16, v, v

// MERGE joins a lane of the stripe to the state, like a line of merge.
#define MERGE(v) \
	VPMULLQ Z17, v, Z8   \
	VPROLQ $31, Z8, Z8   \
	VPMULLQ Z16, Z8, Z8  \
	VPXORQ Z8, Z0, Z0    \
	VPMULLQ Z16, Z0, Z0  \
	VPADDQ Z19, Z0, Z0

// func words1(dst, a *uint64, seed uint64, n int)
TEXT ·words1(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ n+24(FP), CX
	PRIMES
	VPBROADCASTQ seed+16(FP), Z21
	VPADDQ Z20, Z21, Z21
	MOVQ $8, AX
	VPBROADCASTQ AX, Z9
	VPADDQ Z9, Z21, Z21 // seed + prime5 + 8
loop1:
	LANES
	VMOVDQU64.Z (SI), K1, Z1
	VMOVDQA64 Z21, Z0
	TAIL(Z1)
	FINISH
	VMOVDQU64 Z0, K1, (DI)
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $8, CX
	JGT loop1
	VZEROUPPER
	RET

// func words2(dst, a, b *uint64, seed uint64, n int)
TEXT ·words2(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), R8
	MOVQ n+32(FP), CX
	PRIMES
	VPBROADCASTQ seed+24(FP), Z21
	VPADDQ Z20, Z21, Z21
	MOVQ $16, AX
	VPBROADCASTQ AX, Z9
	VPADDQ Z9, Z21, Z21 // seed + prime5 + 16
loop2:
	LANES
	VMOVDQU64.Z (SI), K1, Z1
	VMOVDQU64.Z (R8), K1, Z2
	VMOVDQA64 Z21, Z0
	TAIL(Z1)
	TAIL(Z2)
	FINISH
	VMOVDQU64 Z0, K1, (DI)
	ADDQ $64, SI
	ADDQ $64, R8
	ADDQ $64, DI
	SUBQ $8, CX
	JGT loop2
	VZEROUPPER
	RET

// func words5(dst, a, b, c, d, e *uint64, seed uint64, n int)
TEXT ·words5(SB), NOSPLIT, $0-64
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), R8
	MOVQ c+24(FP), R9
	MOVQ d+32(FP), R10
	MOVQ e+40(FP), R11
	MOVQ n+56(FP), CX
	PRIMES
	VPBROADCASTQ seed+48(FP), Z23
	VPADDQ Z17, Z23, Z22 // lane 2: seed + prime2
	VPADDQ Z16, Z22, Z21 // lane 1: seed + prime1 + prime2
	VPSUBQ Z16, Z23, Z24 // lane 4: seed - prime1
	MOVQ $40, AX
	VPBROADCASTQ AX, Z25
loop5:
	LANES
	VMOVDQU64.Z (SI), K1, Z5
	VMOVDQU64.Z (R8), K1, Z6
	VMOVDQU64.Z (R9), K1, Z7
	VMOVDQU64.Z (R10), K1, Z10
	VMOVDQU64.Z (R11), K1, Z11
	ROUND(Z21, Z5, Z1)
	ROUND(Z22, Z6, Z2)
	ROUND(Z23, Z7, Z3)
	ROUND(Z24, Z10, Z4)
	VPROLQ $1, Z1, Z0
	VPROLQ $7, Z2, Z8
	VPROLQ $12, Z3, Z9
	VPADDQ Z8, Z0, Z0
	VPROLQ $18, Z4, Z8
	VPADDQ Z9, Z0, Z0
	VPADDQ Z8, Z0, Z0
	MERGE(Z1)
	MERGE(Z2)
	MERGE(Z3)
	MERGE(Z4)
	VPADDQ Z25, Z0, Z0
	TAIL(Z11)
	FINISH
	VMOVDQU64 Z0, K1, (DI)
	ADDQ $64, SI
	ADDQ $64, R8
	ADDQ $64, R9
	ADDQ $64, R10
	ADDQ $64, R11
	ADDQ $64, DI
	SUBQ $8, CX
	JGT loop5
	VZEROUPPER
	RET
