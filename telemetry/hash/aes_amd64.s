//go:build !purego

#include "textflag.h"

// Eight hashes at a time, a register each: a processor begins one or two rounds of AES per cycle, and each takes four or so.
// Offsets into schedule: round keys at 0, keys of R1 at 176, of R2 at 240. Registers:
//
//	X0-X7    the states          R9    the schedule
//	X8       the key of a round  X9    D ^ round key 0
//	X10-X13  second blocks       CX    hashes left

#define ALL8(op, k) \
	op k, X0 \
	op k, X1 \
	op k, X2 \
	op k, X3 \
	op k, X4 \
	op k, X5 \
	op k, X6 \
	op k, X7

#define ROUND8(at) \
	MOVOU at(R9), X8 \
	ALL8(AESENC, X8)

// ENCRYPT8 is E but for its first key, which the caller has added.
#define ENCRYPT8 \
	ROUND8(16) \
	ROUND8(32) \
	ROUND8(48) \
	ROUND8(64) \
	ROUND8(80) \
	ROUND8(96) \
	ROUND8(112) \
	ROUND8(128) \
	ROUND8(144) \
	MOVOU 160(R9), X8 \
	ALL8(AESENCLAST, X8)

// STORE8 stores the low halves.
#define STORE8 \
	MOVQ X0, 0(DI) \
	MOVQ X1, 8(DI) \
	MOVQ X2, 16(DI) \
	MOVQ X3, 24(DI) \
	MOVQ X4, 32(DI) \
	MOVQ X5, 40(DI) \
	MOVQ X6, 48(DI) \
	MOVQ X7, 56(DI)

// LOW8 loads low halves and clears the high ones, HIGH8 loads high halves.
#define LOW8(from) \
	MOVQ 0(from), X0 \
	MOVQ 8(from), X1 \
	MOVQ 16(from), X2 \
	MOVQ 24(from), X3 \
	MOVQ 32(from), X4 \
	MOVQ 40(from), X5 \
	MOVQ 48(from), X6 \
	MOVQ 56(from), X7

#define HIGH8(from) \
	MOVHPS 0(from), X0 \
	MOVHPS 8(from), X1 \
	MOVHPS 16(from), X2 \
	MOVHPS 24(from), X3 \
	MOVHPS 32(from), X4 \
	MOVHPS 40(from), X5 \
	MOVHPS 48(from), X6 \
	MOVHPS 56(from), X7

// SECOND4 adds R2 of the second blocks of four hashes to their states.
#define ALL4(op, k) \
	op k, X10 \
	op k, X11 \
	op k, X12 \
	op k, X13

#define SECOND4(at, s0, s1, s2, s3) \
	MOVQ 0+at(R10), X10 \
	MOVQ 8+at(R10), X11 \
	MOVQ 16+at(R10), X12 \
	MOVQ 24+at(R10), X13 \
	MOVHPS 0+at(R11), X10 \
	MOVHPS 8+at(R11), X11 \
	MOVHPS 16+at(R11), X12 \
	MOVHPS 24+at(R11), X13 \
	MOVOU 240(R9), X8 \
	ALL4(PXOR, X8) \
	MOVOU 256(R9), X8 \
	ALL4(AESENC, X8) \
	MOVOU 272(R9), X8 \
	ALL4(AESENC, X8) \
	MOVOU 288(R9), X8 \
	ALL4(AESENC, X8) \
	PXOR X8, X8 \
	ALL4(AESENC, X8) \
	PXOR X10, s0 \
	PXOR X11, s1 \
	PXOR X12, s2 \
	PXOR X13, s3 \
	MOVQ 0+at(R12), X10 \
	MOVQ 8+at(R12), X11 \
	MOVQ 16+at(R12), X12 \
	MOVQ 24+at(R12), X13 \
	PXOR X10, s0 \
	PXOR X11, s1 \
	PXOR X12, s2 \
	PXOR X13, s3

// func aesWords1(dst, a *uint64, s *schedule, d *block, n int)
TEXT ·aesWords1(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ s+16(FP), R9
	MOVQ d+24(FP), AX
	MOVQ n+32(FP), CX
	MOVOU (AX), X9
	MOVOU 0(R9), X8
	PXOR X8, X9
loop1:
	LOW8(SI)
	ALL8(PXOR, X9)
	ENCRYPT8
	STORE8
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $8, CX
	JGT loop1
	RET

// func aesWords2(dst, a, b *uint64, s *schedule, d *block, n int)
TEXT ·aesWords2(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), R8
	MOVQ s+24(FP), R9
	MOVQ d+32(FP), AX
	MOVQ n+40(FP), CX
	MOVOU (AX), X9
	MOVOU 0(R9), X8
	PXOR X8, X9
loop2:
	LOW8(R8)
	HIGH8(SI)
	ALL8(PXOR, X9)
	ENCRYPT8
	STORE8
	ADDQ $64, SI
	ADDQ $64, R8
	ADDQ $64, DI
	SUBQ $8, CX
	JGT loop2
	RET

// func aesWords5(dst, a, b, c, d, e *uint64, s *schedule, delta *block, n int)
TEXT ·aesWords5(SB), NOSPLIT, $0-72
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), R8
	MOVQ c+24(FP), R10
	MOVQ d+32(FP), R11
	MOVQ e+40(FP), R12
	MOVQ s+48(FP), R9
	MOVQ delta+56(FP), AX
	MOVQ n+64(FP), CX
	MOVOU (AX), X9
	MOVOU 0(R9), X8
	PXOR X8, X9
loop5:
	LOW8(SI)
	HIGH8(R8)
	MOVOU 176(R9), X8
	ALL8(PXOR, X8)
	ROUND8(192)
	ROUND8(208)
	ROUND8(224)
	ALL8(AESENC, X9) // the last key, and D, in one
	SECOND4(0, X0, X1, X2, X3)
	SECOND4(32, X4, X5, X6, X7)
	ENCRYPT8
	STORE8
	ADDQ $64, SI
	ADDQ $64, R8
	ADDQ $64, R10
	ADDQ $64, R11
	ADDQ $64, R12
	ADDQ $64, DI
	SUBQ $8, CX
	JGT loop5
	RET

#define ONE(at) \
	MOVOU at(R9), X8 \
	AESENC X8, X0

// func encryptOne(s *schedule, m *block)
TEXT ·encryptOne(SB), NOSPLIT, $0-16
	MOVQ s+0(FP), R9
	MOVQ m+8(FP), DI
	MOVOU (DI), X0
	MOVOU 0(R9), X8
	PXOR X8, X0
	ONE(16)
	ONE(32)
	ONE(48)
	ONE(64)
	ONE(80)
	ONE(96)
	ONE(112)
	ONE(128)
	ONE(144)
	MOVOU 160(R9), X8
	AESENCLAST X8, X0
	MOVOU X0, (DI)
	RET

// func rounds4One(keys *[4]block, m *block)
TEXT ·rounds4One(SB), NOSPLIT, $0-16
	MOVQ keys+0(FP), R9
	MOVQ m+8(FP), DI
	MOVOU (DI), X0
	MOVOU 0(R9), X8
	PXOR X8, X0
	ONE(16)
	ONE(32)
	ONE(48)
	PXOR X8, X8
	AESENC X8, X0
	MOVOU X0, (DI)
	RET
