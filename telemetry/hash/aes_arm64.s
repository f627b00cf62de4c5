//go:build !purego

#include "textflag.h"

// Eight hashes at a time, a register each. AESE adds the key before its round, where AESENC adds one behind it; so keys
// are those of the round before. Registers:
//
//	V0-V7    the states          V16-V26  round keys     V27      D
//	V8-V11   second blocks       V28-V31  keys of R1     V12-V15  keys of R2

#define ROUND(k, s) \
	AESE k.B16, s.B16 \
	AESMC s.B16, s.B16

#define ROUND8(k) \
	ROUND(k, V0) \
	ROUND(k, V1) \
	ROUND(k, V2) \
	ROUND(k, V3) \
	ROUND(k, V4) \
	ROUND(k, V5) \
	ROUND(k, V6) \
	ROUND(k, V7)

#define ROUND4(k) \
	ROUND(k, V8) \
	ROUND(k, V9) \
	ROUND(k, V10) \
	ROUND(k, V11)

#define ADD8(x) \
	VEOR x.B16, V0.B16, V0.B16 \
	VEOR x.B16, V1.B16, V1.B16 \
	VEOR x.B16, V2.B16, V2.B16 \
	VEOR x.B16, V3.B16, V3.B16 \
	VEOR x.B16, V4.B16, V4.B16 \
	VEOR x.B16, V5.B16, V5.B16 \
	VEOR x.B16, V6.B16, V6.B16 \
	VEOR x.B16, V7.B16, V7.B16

#define ADD4(s0, s1, s2, s3) \
	VEOR V8.B16, s0.B16, s0.B16 \
	VEOR V9.B16, s1.B16, s1.B16 \
	VEOR V10.B16, s2.B16, s2.B16 \
	VEOR V11.B16, s3.B16, s3.B16

#define LAST8 \
	AESE V25.B16, V0.B16 \
	AESE V25.B16, V1.B16 \
	AESE V25.B16, V2.B16 \
	AESE V25.B16, V3.B16 \
	AESE V25.B16, V4.B16 \
	AESE V25.B16, V5.B16 \
	AESE V25.B16, V6.B16 \
	AESE V25.B16, V7.B16 \
	ADD8(V26)

#define ENCRYPT8 \
	ROUND8(V16) \
	ROUND8(V17) \
	ROUND8(V18) \
	ROUND8(V19) \
	ROUND8(V20) \
	ROUND8(V21) \
	ROUND8(V22) \
	ROUND8(V23) \
	ROUND8(V24) \
	LAST8

// STORE8 stores the low halves.
#define STORE8 \
	FMOVD F0, 0(R0) \
	FMOVD F1, 8(R0) \
	FMOVD F2, 16(R0) \
	FMOVD F3, 24(R0) \
	FMOVD F4, 32(R0) \
	FMOVD F5, 40(R0) \
	FMOVD F6, 48(R0) \
	FMOVD F7, 56(R0) \
	ADD $64, R0

// LOW8 loads low halves and clears the high ones, HIGH8 loads high halves and steps on.
#define LOW8(from) \
	FMOVD 0(from), F0 \
	FMOVD 8(from), F1 \
	FMOVD 16(from), F2 \
	FMOVD 24(from), F3 \
	FMOVD 32(from), F4 \
	FMOVD 40(from), F5 \
	FMOVD 48(from), F6 \
	FMOVD 56(from), F7 \
	ADD $64, from

#define HIGH8(from) \
	VLD1.P 8(from), V0.D[1] \
	VLD1.P 8(from), V1.D[1] \
	VLD1.P 8(from), V2.D[1] \
	VLD1.P 8(from), V3.D[1] \
	VLD1.P 8(from), V4.D[1] \
	VLD1.P 8(from), V5.D[1] \
	VLD1.P 8(from), V6.D[1] \
	VLD1.P 8(from), V7.D[1]

#define LOW4(from) \
	FMOVD 0(from), F8 \
	FMOVD 8(from), F9 \
	FMOVD 16(from), F10 \
	FMOVD 24(from), F11 \
	ADD $32, from

#define HIGH4(from) \
	VLD1.P 8(from), V8.D[1] \
	VLD1.P 8(from), V9.D[1] \
	VLD1.P 8(from), V10.D[1] \
	VLD1.P 8(from), V11.D[1]

// SECOND4 adds R2 of the second blocks, and the last words, of four hashes to their states.
#define SECOND4(s0, s1, s2, s3) \
	LOW4(R3) \
	HIGH4(R4) \
	ROUND4(V12) \
	ROUND4(V13) \
	ROUND4(V14) \
	ROUND4(V15) \
	ADD4(s0, s1, s2, s3) \
	LOW4(R5) \
	ADD4(s0, s1, s2, s3)

// KEYS loads the round keys of the schedule at R9, and leaves R9 at the keys of R1.
#define KEYS \
	VLD1.P 64(R9), [V16.B16, V17.B16, V18.B16, V19.B16] \
	VLD1.P 64(R9), [V20.B16, V21.B16, V22.B16, V23.B16] \
	VLD1.P 48(R9), [V24.B16, V25.B16, V26.B16]

// func aesWords1(dst, a *uint64, s *schedule, d *block, n int)
TEXT ·aesWords1(SB), NOSPLIT, $0-40
	MOVD dst+0(FP), R0
	MOVD a+8(FP), R1
	MOVD s+16(FP), R9
	MOVD d+24(FP), R10
	MOVD n+32(FP), R11
	VLD1 (R10), [V27.B16]
	KEYS
loop1:
	LOW8(R1)
	ADD8(V27)
	ENCRYPT8
	STORE8
	SUBS $8, R11
	BGT loop1
	RET

// func aesWords2(dst, a, b *uint64, s *schedule, d *block, n int)
TEXT ·aesWords2(SB), NOSPLIT, $0-48
	MOVD dst+0(FP), R0
	MOVD a+8(FP), R1
	MOVD b+16(FP), R2
	MOVD s+24(FP), R9
	MOVD d+32(FP), R10
	MOVD n+40(FP), R11
	VLD1 (R10), [V27.B16]
	KEYS
loop2:
	LOW8(R2)
	HIGH8(R1)
	ADD8(V27)
	ENCRYPT8
	STORE8
	SUBS $8, R11
	BGT loop2
	RET

// func aesWords5(dst, a, b, c, d, e *uint64, s *schedule, delta *block, n int)
TEXT ·aesWords5(SB), NOSPLIT, $0-72
	MOVD dst+0(FP), R0
	MOVD a+8(FP), R1
	MOVD b+16(FP), R2
	MOVD c+24(FP), R3
	MOVD d+32(FP), R4
	MOVD e+40(FP), R5
	MOVD s+48(FP), R9
	MOVD delta+56(FP), R10
	MOVD n+64(FP), R11
	VLD1 (R10), [V27.B16]
	KEYS
	VLD1.P 64(R9), [V28.B16, V29.B16, V30.B16, V31.B16]
	VLD1 (R9), [V12.B16, V13.B16, V14.B16, V15.B16]
loop5:
	LOW8(R1)
	HIGH8(R2)
	ROUND8(V28)
	ROUND8(V29)
	ROUND8(V30)
	ROUND8(V31)
	ADD8(V27)
	SECOND4(V0, V1, V2, V3)
	SECOND4(V4, V5, V6, V7)
	ENCRYPT8
	STORE8
	SUBS $8, R11
	BGT loop5
	RET

// func encryptOne(s *schedule, m *block)
TEXT ·encryptOne(SB), NOSPLIT, $0-16
	MOVD s+0(FP), R9
	MOVD m+8(FP), R1
	VLD1 (R1), [V0.B16]
	KEYS
	ROUND(V16, V0)
	ROUND(V17, V0)
	ROUND(V18, V0)
	ROUND(V19, V0)
	ROUND(V20, V0)
	ROUND(V21, V0)
	ROUND(V22, V0)
	ROUND(V23, V0)
	ROUND(V24, V0)
	AESE V25.B16, V0.B16
	VEOR V26.B16, V0.B16, V0.B16
	VST1 [V0.B16], (R1)
	RET

// func rounds4One(keys *[4]block, m *block)
TEXT ·rounds4One(SB), NOSPLIT, $0-16
	MOVD keys+0(FP), R9
	MOVD m+8(FP), R1
	VLD1 (R1), [V0.B16]
	VLD1 (R9), [V28.B16, V29.B16, V30.B16, V31.B16]
	ROUND(V28, V0)
	ROUND(V29, V0)
	ROUND(V30, V0)
	ROUND(V31, V0)
	VST1 [V0.B16], (R1)
	RET
