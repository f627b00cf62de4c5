//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// Offsets of what is read of a packet.Packet, which is 64 bytes; TestStraight fails if they are others.
#define ADDR 0
#define ID 8
#define ARRIVAL 16
#define WIRELEN 28

// Turns the eight bytes of each word.
DATA turned<>+0(SB)/8, $0x0001020304050607
DATA turned<>+8(SB)/8, $0x08090a0b0c0d0e0f
GLOBL turned<>(SB), RODATA|NOPTR, $16

// LANES sets the mask for as many words of eight as CX says are left. R15 is 0xff.
#define LANES \
	MOVL $8, DX       \
	CMPQ CX, DX       \
	CMOVQLT CX, DX    \
	BZHIL DX, R15, AX \
	KMOVB AX, K1

// func gather(how *gathering, pkts *packet.Packet, n int, mem *byte, last int) int
//
//	SI  the packet    R9  how many are taken    DI  memory    R8  how    R10, R11, R12, R13  at, words, ids, waits
TEXT ·gather(SB), NOSPLIT, $0-48
	MOVQ how+0(FP), R8
	MOVQ pkts+8(FP), SI
	MOVQ mem+24(FP), DI
	VMOVDQU64 gathering_mask(R8), Z16
	VMOVDQU64 gathering_least(R8), Z17
	VMOVDQU64 gathering_most(R8), Z18
	MOVQ gathering_at(R8), R10
	MOVQ gathering_words(R8), R11
	MOVQ gathering_ids(R8), R12
	MOVQ gathering_waits(R8), R13
	MOVQ gathering_now(R8), R15
	MOVQ gathering_first(R8), BX
	XORL CX, CX // of what differ is
	XORL R9, R9
	VPXORQ X4, X4, X4 // bytes
next:
	VPANDD (SI), Z16, Z0
	VPCMPUD $5, Z17, Z0, K1     // no less than least
	VPCMPUD $2, Z18, Z0, K1, K1 // no more than most
	KORTESTW K1, K1
	JCC taken // not all sixteen
	MOVQ ID(SI), AX
	TESTQ AX, AX
	JEQ taken
	MOVQ AX, (R12)(R9*8)
	MOVQ ADDR(SI), AX
	ADDQ $14, AX
	CMPQ AX, last+32(FP)
	JHI taken
	MOVQ AX, (R10)(R9*8)
	MOVQ (DI)(AX*1), AX
	BSWAPQ AX
	MOVQ AX, (R11)(R9*8)
	SHRQ $32, AX
	MOVL AX, DX
	ANDL $0x0700ffff, DX // headMask
	CMPL DX, gathering_head(R8)
	JNE taken
	NOTL AX
	TESTL $0x00ff0000, AX
	JEQ taken // hop 255
	MOVQ R15, DX
	SUBQ ARRIVAL(SI), DX
	MOVQ DX, AX
	SARQ $63, AX
	ANDNQ DX, AX, DX // no less than 0
	MOVQ DX, (R13)(R9*8)
	XORQ BX, DX
	ORQ DX, CX
	MOVL WIRELEN(SI), AX
	ADDQ AX, gathering_bytes(R8)
	ADDQ $64, SI
	INCQ R9
	CMPQ R9, n+16(FP)
	JLT next
taken:
	MOVQ CX, gathering_differ(R8)
	MOVQ R9, ret+40(FP)
	// Hops and digests, eight at a time.
	MOVQ R9, CX
	TESTQ CX, CX
	JEQ none
	MOVQ gathering_hops(R8), R12
	MOVQ gathering_digests(R8), R13
	VPBROADCASTQ gathering_shift(R8), Z3
	MOVL $0xff, R15
	VPBROADCASTQ R15, Z5
	MOVL $1, AX
	VPBROADCASTQ AX, Z6
derived8:
	LANES
	VMOVDQU64.Z (R11), K1, Z0
	VPSRLQ $48, Z0, Z1
	VPANDQ Z5, Z1, Z1
	VPADDQ Z6, Z1, Z1
	VMOVDQU64 Z1, K1, (R12)
	VPSLLQ $32, Z0, Z0
	VPSRLQ $32, Z0, Z0
	VPSRLVQ Z3, Z0, Z0
	VMOVDQU64 Z0, K1, (R13)
	ADDQ $64, R11
	ADDQ $64, R12
	ADDQ $64, R13
	SUBQ $8, CX
	JGT derived8
none:
	VZEROUPPER
	RET

// func scatter(mem *byte, at, words, digests *[encode.BlockSize]uint64, keep, shift uint64, n int)
TEXT ·scatter(SB), NOSPLIT, $0-56
	MOVQ mem+0(FP), DI
	MOVQ at+8(FP), R10
	MOVQ words+16(FP), R11
	MOVQ digests+24(FP), R13
	VPBROADCASTQ keep+32(FP), Z3
	VPBROADCASTQ shift+40(FP), Z4
	MOVQ n+48(FP), CX
	MOVQ $0x0001000000000000, AX // the next hop
	VPBROADCASTQ AX, Z5
	VBROADCASTI32X4 turned<>(SB), Z6
	XORL R9, R9
words8:
	VPANDQ (R11)(R9*8), Z3, Z0
	VPADDQ Z5, Z0, Z0
	VMOVDQU64 (R13)(R9*8), Z1
	VPSLLVQ Z4, Z1, Z1
	VPORQ Z1, Z0, Z0
	VPSHUFB Z6, Z0, Z0
	VMOVDQU64 Z0, (R11)(R9*8)
	ADDQ $8, R9
	CMPQ R9, CX
	JLT words8
	VZEROUPPER
	XORL R9, R9
store:
	MOVQ (R10)(R9*8), AX
	MOVQ (R11)(R9*8), BX
	MOVQ BX, (DI)(AX*1)
	INCQ R9
	CMPQ R9, CX
	JLT store
	RET
