//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// Eight messages at a time, a lane each. A CRC is linear, so all words but the last are folded onto it: word number i of n has the weight
// x^64(n-1-i), so it is multiplied by that power's remainder, and only the sum of the products is reduced. A carry-less product takes
// one half of each lane of 128 bits, so there are two: of even and of odd packets. Names of registers:
//
//	Z0, Z1  products of CRC-32, even and odd    Z2, Z3  of CRC-32C    Z5, Z6  the present word, or register, of both
//	Z16, Z17  the registers to begin with       Z18-Z23  m, 2p and x^63 of both (see crcFolds)
//	Z24, Z25  the key    Z26  the low halves    Z27  the turn of bytes
//	DI dst    SI words   R9 folds   R10 offset in bytes    CX messages left    K1 the lanes of this round

DATA turn<>+0(SB)/8, $0x0001020304050607
DATA turn<>+8(SB)/8, $0x08090a0b0c0d0e0f
GLOBL turn<>(SB), RODATA|NOPTR, $16

// REDUCE leaves the register behind the words x in the low halves of r. Barrett's reduction, as in crc_amd64.s.
#define REDUCE(x, m, twice, t, r) \
	VPCLMULQDQ $0x00, m, x, t     \
	VPCLMULQDQ $0x11, m, x, r     \
	VPUNPCKLQDQ r, t, t           \
	VPADDQ t, t, t                \
	VPXORQ x, t, t                \
	VPCLMULQDQ $0x00, twice, t, r \
	VPCLMULQDQ $0x11, twice, t, t \
	VPUNPCKHQDQ t, r, r

// FOLD adds the products of the words w and a power to those of even and odd packets.
#define FOLD(w, power, even, odd) \
	VPBROADCASTQ power, Z7       \
	VPCLMULQDQ $0x00, Z7, w, Z8  \
	VPCLMULQDQ $0x11, Z7, w, Z9  \
	VPXORQ Z8, even, even        \
	VPXORQ Z9, odd, odd

// JOIN adds the products, without their highest 32 bits, and these times x^64, to the words w.
#define JOIN(even, odd, power, w) \
	VPCLMULQDQ $0x00, power, even, Z8 \
	VPCLMULQDQ $0x00, power, odd, Z9  \
	VPXORQ Z8, even, even             \
	VPXORQ Z9, odd, odd               \
	VPUNPCKHQDQ odd, even, Z8         \
	VPXORQ Z8, w, w

// func crcWide(dst *uint64, words **uint64, n, count int, first sum, k key, folds *crcFolds)
TEXT ·crcWide(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ count+24(FP), CX
	MOVQ folds+48(FP), R9
	MOVL first_p+32(FP), AX
	NOTL AX
	VPBROADCASTQ AX, Z16
	MOVL first_q+36(FP), AX
	NOTL AX
	VPBROADCASTQ AX, Z17
	MOVL k_p+40(FP), AX
	VPBROADCASTQ AX, Z24
	MOVL k_q+44(FP), AX
	VPBROADCASTQ AX, Z25
	MOVL $0xffffffff, AX
	VPBROADCASTQ AX, Z26
	VBROADCASTI32X4 turn<>+0(SB), Z27
	VPBROADCASTQ (crcFolds_p+crcFold_quotient)(R9), Z18
	VPBROADCASTQ (crcFolds_p+crcFold_twice)(R9), Z19
	VPBROADCASTQ (crcFolds_p+crcFold_powers+8)(R9), Z20
	VPBROADCASTQ (crcFolds_q+crcFold_quotient)(R9), Z21
	VPBROADCASTQ (crcFolds_q+crcFold_twice)(R9), Z22
	VPBROADCASTQ (crcFolds_q+crcFold_powers+8)(R9), Z23
	XORL R10, R10
round:
	MOVL $0xff, AX
	MOVL $8, DX
	CMPQ CX, DX
	CMOVQLT CX, DX
	BZHIL DX, AX, AX
	KMOVB AX, K1
	VPXORQ Z0, Z0, Z0
	VPXORQ Z1, Z1, Z1
	VPXORQ Z2, Z2, Z2
	VPXORQ Z3, Z3, Z3
	MOVQ words+8(FP), SI
	MOVQ n+16(FP), BX
	MOVQ (SI), DX
	VMOVDQU64.Z (DX)(R10*1), K1, Z4
	VPXORQ Z16, Z4, Z5
	VPXORQ Z17, Z4, Z6
	DECQ BX
	JEQ last
fold:
	FOLD(Z5, crcFolds_p+crcFold_powers(R9)(BX*8), Z0, Z1)
	FOLD(Z6, crcFolds_q+crcFold_powers(R9)(BX*8), Z2, Z3)
	ADDQ $8, SI
	MOVQ (SI), DX
	VMOVDQU64.Z (DX)(R10*1), K1, Z5
	VMOVDQA64 Z5, Z6
	DECQ BX
	JNE fold
	JOIN(Z0, Z1, Z20, Z5)
	JOIN(Z2, Z3, Z23, Z6)
last:
	REDUCE(Z5, Z18, Z19, Z7, Z10)
	REDUCE(Z6, Z21, Z22, Z8, Z11)
	VPANDNQ Z26, Z10, Z10
	VPANDNQ Z26, Z11, Z11
	VPADDD Z25, Z11, Z11 // v
	VPADDD Z24, Z10, Z10
	VPADDD Z11, Z10, Z10 // u
	VPSLLQ $32, Z10, Z10
	VPORQ Z11, Z10, Z10
	VPSHUFB Z27, Z10, Z10
	VPXORQ Z26, Z10, Z10
	REDUCE(Z10, Z18, Z19, Z7, Z5)
	REDUCE(Z10, Z21, Z22, Z8, Z6)
	VPANDNQ Z26, Z5, Z5
	VPANDNQ Z26, Z6, Z6
	VPSLLQ $32, Z5, Z5
	VPORQ Z6, Z5, Z5
	VMOVDQU64 Z5, K1, (DI)(R10*1)
	ADDQ $64, R10
	SUBQ $8, CX
	JG round
	VZEROUPPER
	RET
