//go:build !purego

#include "textflag.h"

// As in aes_amd64.s, with two hashes in a register and sixteen at a time, for processors with VAES. Words are read in fours, and
// unpacked with those of the other half: of b0 b1 b2 b3 and a0 a1 a2 a3, a register gets b0 a0 b2 a2 and another one b1 a1 b3 a3,
// and their low halves unpacked are h0 h1 h2 h3 again. Registers:
//
//	Y0-Y7   the states          R9   the schedule
//	Y8-Y11  second blocks       Y12  scratch         Y13  zero
//	Y14     the key of a round  Y15  D ^ round key 0

#define ALL8(op, k) \
	op k, Y0, Y0 \
	op k, Y1, Y1 \
	op k, Y2, Y2 \
	op k, Y3, Y3 \
	op k, Y4, Y4 \
	op k, Y5, Y5 \
	op k, Y6, Y6 \
	op k, Y7, Y7

#define ALL4(op, k) \
	op k, Y8, Y8 \
	op k, Y9, Y9 \
	op k, Y10, Y10 \
	op k, Y11, Y11

#define KEY(at) VBROADCASTI128 at(R9), Y14

#define ROUND8(at) \
	KEY(at) \
	ALL8(VAESENC, Y14)

#define ENCRYPT16 \
	ROUND8(16) \
	ROUND8(32) \
	ROUND8(48) \
	ROUND8(64) \
	ROUND8(80) \
	ROUND8(96) \
	ROUND8(112) \
	ROUND8(128) \
	ROUND8(144) \
	KEY(160) \
	ALL8(VAESENCLAST, Y14)

// STORE16 stores the low halves.
#define STORE16 \
	VPUNPCKLQDQ Y1, Y0, Y0 \
	VPUNPCKLQDQ Y3, Y2, Y2 \
	VPUNPCKLQDQ Y5, Y4, Y4 \
	VPUNPCKLQDQ Y7, Y6, Y6 \
	VMOVDQU Y0, 0(DI) \
	VMOVDQU Y2, 32(DI) \
	VMOVDQU Y4, 64(DI) \
	VMOVDQU Y6, 96(DI)

// ONE4 reads four words as low halves, TWO4 four words as low and four as high halves.
#define ONE4(at, low, s0, s1) \
	VMOVDQU at(low), Y12 \
	VPUNPCKLQDQ Y13, Y12, s0 \
	VPUNPCKHQDQ Y13, Y12, s1

#define TWO4(at, low, high, s0, s1) \
	VMOVDQU at(low), Y12 \
	VMOVDQU at(high), Y14 \
	VPUNPCKLQDQ Y14, Y12, s0 \
	VPUNPCKHQDQ Y14, Y12, s1

#define TWO16(low, high) \
	TWO4(0, low, high, Y0, Y1) \
	TWO4(32, low, high, Y2, Y3) \
	TWO4(64, low, high, Y4, Y5) \
	TWO4(96, low, high, Y6, Y7)

// DELTA is D ^ round key 0, of D at AX.
#define DELTA \
	VBROADCASTI128 (AX), Y15 \
	KEY(0) \
	VPXOR Y14, Y15, Y15 \
	VPXOR Y13, Y13, Y13

// SECOND8 adds R2 of the second blocks of eight hashes, and their last words, to their states.
#define SECOND8(at, s0, s1, s2, s3) \
	TWO4(0+at, R10, R11, Y8, Y9) \
	TWO4(32+at, R10, R11, Y10, Y11) \
	KEY(240) \
	ALL4(VPXOR, Y14) \
	KEY(256) \
	ALL4(VAESENC, Y14) \
	KEY(272) \
	ALL4(VAESENC, Y14) \
	KEY(288) \
	ALL4(VAESENC, Y14) \
	ALL4(VAESENC, Y13) \
	VPXOR Y8, s0, s0 \
	VPXOR Y9, s1, s1 \
	VPXOR Y10, s2, s2 \
	VPXOR Y11, s3, s3 \
	ONE4(0+at, R12, Y8, Y9) \
	ONE4(32+at, R12, Y10, Y11) \
	VPXOR Y8, s0, s0 \
	VPXOR Y9, s1, s1 \
	VPXOR Y10, s2, s2 \
	VPXOR Y11, s3, s3

// func vaesWords1(dst, a *uint64, s *schedule, d *block, n int)
TEXT ·vaesWords1(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ s+16(FP), R9
	MOVQ d+24(FP), AX
	MOVQ n+32(FP), CX
	DELTA
loop1:
	ONE4(0, SI, Y0, Y1)
	ONE4(32, SI, Y2, Y3)
	ONE4(64, SI, Y4, Y5)
	ONE4(96, SI, Y6, Y7)
	ALL8(VPXOR, Y15)
	ENCRYPT16
	STORE16
	ADDQ $128, SI
	ADDQ $128, DI
	SUBQ $16, CX
	JGT loop1
	VZEROUPPER
	RET

// func vaesWords2(dst, a, b *uint64, s *schedule, d *block, n int)
TEXT ·vaesWords2(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), R8
	MOVQ s+24(FP), R9
	MOVQ d+32(FP), AX
	MOVQ n+40(FP), CX
	DELTA
loop2:
	TWO16(R8, SI)
	ALL8(VPXOR, Y15)
	ENCRYPT16
	STORE16
	ADDQ $128, SI
	ADDQ $128, R8
	ADDQ $128, DI
	SUBQ $16, CX
	JGT loop2
	VZEROUPPER
	RET

// func vaesWords5(dst, a, b, c, d, e *uint64, s *schedule, delta *block, n int)
TEXT ·vaesWords5(SB), NOSPLIT, $0-72
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), R8
	MOVQ c+24(FP), R10
	MOVQ d+32(FP), R11
	MOVQ e+40(FP), R12
	MOVQ s+48(FP), R9
	MOVQ delta+56(FP), AX
	MOVQ n+64(FP), CX
	DELTA
loop5:
	TWO16(SI, R8)
	KEY(176)
	ALL8(VPXOR, Y14)
	ROUND8(192)
	ROUND8(208)
	ROUND8(224)
	ALL8(VAESENC, Y15) // the last key, and D, in one
	SECOND8(0, Y0, Y1, Y2, Y3)
	SECOND8(64, Y4, Y5, Y6, Y7)
	ENCRYPT16
	STORE16
	ADDQ $128, SI
	ADDQ $128, R8
	ADDQ $128, R10
	ADDQ $128, R11
	ADDQ $128, R12
	ADDQ $128, DI
	SUBQ $16, CX
	JGT loop5
	VZEROUPPER
	RET

// func cpuid7() (ecx uint32)
TEXT ·cpuid7(SB), NOSPLIT, $0-4
	MOVL $7, AX
	XORL CX, CX
	CPUID
	MOVL CX, ecx+0(FP)
	RET
