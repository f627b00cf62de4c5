//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// func wideClasses(to *counted, protos *[Block]uint8, bytes *[Block]uint32, which uint64)
//
//	R9  to    R8  bytes    K1, K2, K3  packets of TCP, UDP, others    Z4, Z5, Z6  their bytes, in eight parts
TEXT ·wideClasses(SB), NOSPLIT, $0-32
	MOVQ to+0(FP), R9
	MOVQ protos+8(FP), SI
	MOVQ bytes+16(FP), R8
	MOVQ which+24(FP), AX
	KMOVQ AX, K3
	VMOVDQU8 (SI), Z0
	MOVL $const_protoTCP, AX
	VPBROADCASTB AX, Z1
	MOVL $const_protoUDP, AX
	VPBROADCASTB AX, Z2
	VPCMPEQB Z1, Z0, K3, K1
	VPCMPEQB Z2, Z0, K3, K2
	KANDNQ K3, K1, K3 // K3 and not K1
	KANDNQ K3, K2, K3
	KMOVQ K1, AX
	KMOVQ K2, BX
	KMOVQ K3, CX
	POPCNTQ AX, AX
	POPCNTQ BX, BX
	POPCNTQ CX, CX
	ADDQ AX, counted_packets(R9)
	ADDQ BX, counted_packets+8(R9)
	ADDQ CX, counted_packets+16(R9)
	VMOVDQU64 counted_bytes(R9), Z4
	VMOVDQU64 counted_bytes+64(R9), Z5
	VMOVDQU64 counted_bytes+128(R9), Z6
	MOVL $8, CX
bytes8:
	VPMOVZXDQ (R8), Z0
	VPADDQ Z0, Z4, K1, Z4
	VPADDQ Z0, Z5, K2, Z5
	VPADDQ Z0, Z6, K3, Z6
	KSHIFTRQ $8, K1, K1
	KSHIFTRQ $8, K2, K2
	KSHIFTRQ $8, K3, K3
	ADDQ $32, R8
	DECL CX
	JNZ bytes8
	VMOVDQU64 Z4, counted_bytes(R9)
	VMOVDQU64 Z5, counted_bytes+64(R9)
	VMOVDQU64 Z6, counted_bytes+128(R9)
	VZEROUPPER
	RET
