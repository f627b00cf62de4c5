//go:build !purego

#include "textflag.h"

// Both copy packets of 32 to 128 bytes: what is in front and what is at the end, of 32 or 64 bytes each, which overlap.
#define COPY(from, to, n) \
	MOVOU (from), X0 \
	MOVOU 16(from), X1 \
	MOVOU -32(from)(n*1), X2 \
	MOVOU -16(from)(n*1), X3 \
	CMPL n, $64 \
	JA wide \
	MOVOU X0, (to) \
	MOVOU X1, 16(to) \
	MOVOU X2, -32(to)(n*1) \
	MOVOU X3, -16(to)(n*1) \
	JMP copied \
wide: \
	MOVOU 32(from), X4 \
	MOVOU 48(from), X5 \
	MOVOU -64(from)(n*1), X6 \
	MOVOU -48(from)(n*1), X7 \
	MOVOU X0, (to) \
	MOVOU X1, 16(to) \
	MOVOU X4, 32(to) \
	MOVOU X5, 48(to) \
	MOVOU X6, -64(to)(n*1) \
	MOVOU X7, -48(to)(n*1) \
	MOVOU X2, -32(to)(n*1) \
	MOVOU X3, -16(to)(n*1) \
copied:

// func getShort(mem *byte, at *uint64, from *unsafe.Pointer, lengths *uint32, count int) int
TEXT ·getShort(SB), NOSPLIT, $0-48
	MOVQ mem+0(FP), BX
	MOVQ at+8(FP), DI
	MOVQ from+16(FP), SI
	MOVQ lengths+24(FP), DX
	MOVQ count+32(FP), CX
	XORL AX, AX
next:
	CMPQ AX, CX
	JGE done
	MOVL (DX)(AX*4), R10
	LEAL -32(R10), R11
	CMPL R11, $96
	JA done
	MOVQ (DI)(AX*8), R8
	ADDQ BX, R8
	MOVQ (SI)(AX*8), R9
	COPY(R9, R8, R10)
	INCQ AX
	JMP next
done:
	MOVQ AX, ret+40(FP)
	RET

// func putShort(mem *byte, at *uint64, to *unsafe.Pointer, lengths *uint32, count int) int
TEXT ·putShort(SB), NOSPLIT, $0-48
	MOVQ mem+0(FP), BX
	MOVQ at+8(FP), SI
	MOVQ to+16(FP), DI
	MOVQ lengths+24(FP), DX
	MOVQ count+32(FP), CX
	XORL AX, AX
next:
	CMPQ AX, CX
	JGE done
	MOVL (DX)(AX*4), R10
	LEAL -32(R10), R11
	CMPL R11, $96
	JA done
	MOVQ (SI)(AX*8), R9
	ADDQ BX, R9
	MOVQ (DI)(AX*8), R8
	COPY(R9, R8, R10)
	INCQ AX
	JMP next
done:
	MOVQ AX, ret+40(FP)
	RET
