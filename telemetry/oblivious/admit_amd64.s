//go:build !purego

#include "textflag.h"

// func wideAdmits(hashes *[admitBlock]uint64, bytes *[admitBlock]uint32, limit, shift uint64, n int) uint64
//
// With limit = h<<32 + l, limit*bytes is (h*bytes + l*bytes>>32)<<32 + the lower half of l*bytes: both products, and the
// sum in parentheses, have less than 64 bits.
TEXT ·wideAdmits(SB), NOSPLIT, $0-48
	MOVQ hashes+0(FP), SI
	MOVQ bytes+8(FP), R8
	MOVQ n+32(FP), CX
	VPBROADCASTQ limit+16(FP), Z16
	VPSRLQ $32, Z16, Z17
	VPBROADCASTQ shift+24(FP), Z18
	VPTERNLOGQ $0xff, Z19, Z19, Z19 // -1
	VPSRLQ $32, Z19, Z20
	XORL BX, BX
	XORL R9, R9
admits8:
	VPMOVZXDQ (R8), Z2
	VPMULUDQ Z16, Z2, Z3
	VPMULUDQ Z17, Z2, Z4
	VPSRLQ $32, Z3, Z5
	VPADDQ Z5, Z4, Z4
	VPSRLQ $32, Z4, Z5 // the product's bits from 2^64 on
	VPSLLQ $32, Z4, Z4
	VPTERNLOGQ $0xf8, Z20, Z3, Z4 // Z4 | Z3 & Z20: those below
	VPADDQ Z19, Z2, Z2 // bytes-1
	VPADDQ Z2, Z4, Z4
	VMOVDQU64 (SI), Z1
	VPSRLVQ Z18, Z1, Z1
	VPTESTMQ Z5, Z5, K1
	VPCMPUQ $1, Z2, Z4, K2 // Z4 < Z2: the sum had a carry
	VPCMPUQ $2, Z4, Z1, K3 // Z1 <= Z4
	KORB K2, K1, K1
	KORB K3, K1, K1
	KMOVB K1, AX
	SHLXQ R9, AX, AX
	ORQ AX, BX
	ADDQ $64, SI
	ADDQ $32, R8
	ADDQ $8, R9
	SUBQ $8, CX
	JGT admits8
	VZEROUPPER
	MOVQ BX, ret+40(FP)
	RET
