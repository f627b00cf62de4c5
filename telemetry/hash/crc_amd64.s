//go:build !purego

#include "textflag.h"

// CRC-32C has an instruction. CRC-32 of a word x, in whose low half the register was mixed, takes two carry-less
// products (Barrett): with m the 64 lower bits of the quotient of x^96 by the polynomial, and p its 32 lower bits, both reflected,
//
//	q = x ^ low half of x*m, shifted by one     register = low 32 bits of the high half of q*2p
//
// Packets do not depend on each other, so the processor overlaps the rounds of a loop by itself. A sum has the CRC-32 in its low half
// and the CRC-32C in its high one, both complemented. Registers:
//
//	X14 m    X15 2p    SI sums    CX packets left

DATA barrett<>+0(SB)/8, $0x5a72d812fb808b20
DATA barrett<>+8(SB)/8, $0x00000001db710640
GLOBL barrett<>(SB), RODATA|NOPTR, $16

#define CONSTANTS \
	MOVQ barrett<>+0(SB), X14 \
	MOVQ barrett<>+8(SB), X15

// IEEE leaves the register behind the word x in r, of 32 bits.
#define IEEE(x, r) \
	MOVQ x, X0 \
	VPCLMULQDQ $0, X14, X0, X1 \
	PADDQ X1, X1 \
	PXOR X0, X1 \
	VPCLMULQDQ $0, X15, X1, X1 \
	PEXTRD $2, X1, r

// func crcStep(sums *sum, words *uint64, n int)
TEXT ·crcStep(SB), NOSPLIT, $0-24
	MOVQ sums+0(FP), SI
	MOVQ words+8(FP), DX
	MOVQ n+16(FP), CX
	CONSTANTS
step:
	MOVQ (SI), AX
	MOVQ (DX), DI
	NOTQ AX
	MOVL AX, BX
	SHRQ $32, AX
	CRC32Q DI, AX
	XORQ DI, BX
	IEEE(BX, BX)
	SHLQ $32, AX
	ORQ BX, AX
	NOTQ AX
	MOVQ AX, (SI)
	ADDQ $8, SI
	ADDQ $8, DX
	DECQ CX
	JNZ step
	RET

// func crcFinish(dst *uint64, sums *sum, k key, n int)
TEXT ·crcFinish(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ sums+8(FP), SI
	MOVL k_p+16(FP), R8
	MOVL k_q+20(FP), R9
	MOVQ n+24(FP), CX
	MOVL $0xffffffff, R10
	CONSTANTS
finish:
	MOVQ (SI), BX
	MOVQ BX, AX
	SHRQ $32, AX
	ADDL R9, AX // v
	ADDL R8, BX
	ADDL AX, BX // u
	SHLQ $32, BX
	ORQ AX, BX
	BSWAPQ BX
	MOVQ R10, AX
	CRC32Q BX, AX
	XORQ R10, BX
	IEEE(BX, BX)
	SHLQ $32, BX
	ORQ AX, BX
	NOTQ BX
	MOVQ BX, (DI)
	ADDQ $8, SI
	ADDQ $8, DI
	DECQ CX
	JNZ finish
	RET
