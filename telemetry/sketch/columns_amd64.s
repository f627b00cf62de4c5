//go:build !purego

#include "textflag.h"

// TOUCH prefetches the cell of a column that was just stored.
#define TOUCH(at) \
	MOVQ at(DI), AX         \
	PREFETCHT0 (DX)(AX*4)

// func wideColumns(columns *[Block]uint64, add *[Block]int64, mixed *[Block]uint64, v *int64, cells *int32, width, signs uint64, n int)
//
// VPMULUDQ multiplies the lower halves of words. The width has at most 31 bits, so the sum of both products has less than 64.
TEXT ·wideColumns(SB), NOSPLIT, $0-64
	MOVQ columns+0(FP), DI
	MOVQ add+8(FP), R9
	MOVQ mixed+16(FP), SI
	MOVQ v+24(FP), R8
	MOVQ cells+32(FP), DX
	VPBROADCASTQ width+40(FP), Z3
	VPBROADCASTQ signs+48(FP), Z4
	MOVQ n+56(FP), CX
	VPXORQ Z5, Z5, Z5
	MOVL $8, R10
columns8:
	// The lanes of v: all eight, or as many as are left.
	MOVL $0xff, AX
	CMPQ CX, R10
	CMOVQLT CX, R10
	BZHIL R10, AX, AX
	KMOVB AX, K1
	VMOVDQU64 (SI), Z0
	VPMULUDQ Z3, Z0, Z1
	VPSRLQ $32, Z0, Z2
	VPMULUDQ Z3, Z2, Z2
	VPSRLQ $32, Z1, Z1
	VPADDQ Z1, Z2, Z2
	VPSRLQ $32, Z2, Z2
	VMOVDQU64 Z2, (DI)
	VMOVDQU64.Z (R8), K1, Z1
	VPTESTMQ Z4, Z0, K2
	VPSUBQ Z1, Z5, K2, Z1
	VMOVDQU64 Z1, (R9)
	TOUCH(0)
	TOUCH(8)
	TOUCH(16)
	TOUCH(24)
	TOUCH(32)
	TOUCH(40)
	TOUCH(48)
	TOUCH(56)
	ADDQ $64, SI
	ADDQ $64, DI
	ADDQ $64, R8
	ADDQ $64, R9
	SUBQ $8, CX
	JGT columns8
	VZEROUPPER
	RET

// func wideAdd(cells *int32, columns *[Block]uint64, add *[Block]int64, i, n int) int
TEXT ·wideAdd(SB), NOSPLIT, $0-48
	MOVQ cells+0(FP), DX
	MOVQ columns+8(FP), SI
	MOVQ add+16(FP), R8
	MOVQ i+24(FP), R9
	MOVQ n+32(FP), CX
	JMP whether
next:
	MOVQ (SI)(R9*8), AX
	MOVLQSX (DX)(AX*4), BX
	LEAL -0x7fffffff(BX), R10
	ADDQ (R8)(R9*8), BX
	MOVLQSX BX, R11
	CMPL R10, $1 // the limits are neighbours, as numbers without a sign
	JLS done
	CMPQ R11, BX
	JNE done
	MOVL BX, (DX)(AX*4)
	INCQ R9
whether:
	CMPQ R9, CX
	JLT next
done:
	MOVQ R9, ret+40(FP)
	RET
