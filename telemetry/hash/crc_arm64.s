//go:build !purego

#include "textflag.h"

// Both CRCs have an instruction. A sum has the CRC-32 in its low half and the CRC-32C in its high one, both complemented.

// func crcStep(sums *sum, words *uint64, n int)
TEXT ·crcStep(SB), NOSPLIT, $0-24
	MOVD sums+0(FP), R0
	MOVD words+8(FP), R1
	MOVD n+16(FP), R2
step:
	MOVD (R0), R3
	MOVD.P 8(R1), R5
	MVN R3, R3
	LSR $32, R3, R4
	CRC32X R5, R3
	CRC32CX R5, R4
	ORR R4<<32, R3, R3
	MVN R3, R3
	MOVD.P R3, 8(R0)
	SUBS $1, R2
	BNE step
	RET

// func crcFinish(dst *uint64, sums *sum, k key, n int)
TEXT ·crcFinish(SB), NOSPLIT, $0-32
	MOVD dst+0(FP), R0
	MOVD sums+8(FP), R1
	MOVWU k_p+16(FP), R6
	MOVWU k_q+20(FP), R7
	MOVD n+24(FP), R2
	MOVD $0xffffffff, R10
finish:
	MOVD.P 8(R1), R3
	LSR $32, R3, R4
	ADDW R7, R4, R4 // v
	ADDW R6, R3, R3
	ADDW R4, R3, R3 // u
	ORR R3<<32, R4, R4
	REV R4, R4
	MOVD R10, R8
	MOVD R10, R9
	CRC32X R4, R8
	CRC32CX R4, R9
	ORR R8<<32, R9, R9
	MVN R9, R9
	MOVD.P R9, 8(R0)
	SUBS $1, R2
	BNE finish
	RET
