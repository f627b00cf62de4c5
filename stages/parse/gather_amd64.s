//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// Offsets of what is read of a packet.Packet, which is 64 bytes; TestGather fails if they are others.
#define ADDR 0
#define ARRIVAL 16
#define LEN 24
#define REASON 45
#define PROTO 46
#define FLAGS 48
#define L3 50
#define PAYLOAD 54

// func gather(q *plainBlocks, pkts *packet.Packet, from, n, k int, mem *byte, now int64, kept, keptUnfragmented uint64) int
//
//	SI  the packet    R9  its number    R8  q    CX  k    DI  memory    R10  now
//	R12  the frame    R13  its IP header    BX  protocol    R11  length
TEXT ·gather(SB), NOSPLIT, $0-80
	MOVQ q+0(FP), R8
	MOVQ pkts+8(FP), SI
	MOVQ from+16(FP), R9
	MOVQ k+32(FP), CX
	MOVQ mem+40(FP), DI
	MOVQ now+48(FP), R10
	MOVQ R9, AX
	SHLQ $6, AX
	ADDQ AX, SI
next:
	CMPQ R9, n+24(FP)
	JGE done
	CMPQ CX, $64
	JGE done
	MOVQ ARRIVAL(SI), AX
	TESTQ AX, AX
	CMOVQEQ R10, AX
	MOVQ AX, ARRIVAL(SI)
	CMPB REASON(SI), $0
	JNE done
	MOVWLZX FLAGS(SI), AX
	ANDL $(0xffff ^ const_unchanging), AX
	CMPL AX, $const_plainFlags
	JNE done
	MOVBLZX PROTO(SI), BX
	CMPL BX, $63
	JHI done
	MOVL $(1<<6 | 1<<17), AX // TCP and UDP
	BTQ BX, AX
	JCC done
	MOVWLZX L3(SI), DX
	MOVL LEN(SI), R11
	LEAQ const_plainIP(DX), AX
	CMPQ AX, R11
	JHI done
	MOVQ ADDR(SI), R12
	ADDQ DI, R12
	LEAQ (R12)(DX*1), R13
	MOVL R9, plainBlocks_at(R8)(CX*4)
	MOVQ 12(R13), AX
	MOVQ AX, plainBlocks_a(R8)(CX*8)
	MOVQ 20(R13), AX
	MOVQ AX, plainBlocks_t1(R8)(CX*8)
	MOVL AX, AX
	MOVL BX, R15
	ORL $0x400, R15
	SHLQ $32, R15
	ORQ R15, AX
	MOVQ AX, plainBlocks_key(R8)(CX*8)
	// Length, id, flags and offset, TTL, protocol; where the packet ends.
	MOVQ 2(R13), AX
	MOVL AX, R15
	ROLW $8, R15
	MOVWLZX R15, R15
	ADDQ DX, R15
	CMPQ R15, R11
	CMOVQHI R11, R15
	MOVQ AX, R11
	SHRQ $56, R11
	MOVQ AX, DX
	SHLQ $48, DX
	ORQ DX, R11
	MOVQ AX, DX
	SHRQ $32, DX
	ANDL $0xff7f, DX
	CMPL DX, $0x40
	MOVQ kept+56(FP), DX
	CMOVQEQ keptUnfragmented+64(FP), DX
	ANDQ DX, AX
	ORQ R11, AX
	MOVQ AX, plainBlocks_f(R8)(CX*8)
	// The rest of TCP's header, without its checksum.
	MOVQ 28(R13), AX
	SHLQ $16, AX
	SHRQ $16, AX
	MOVWLZX 36(R13), DX
	SHLQ $48, DX
	ORQ DX, AX
	XORL R11, R11
	CMPL BX, $17
	CMOVQEQ R11, AX
	MOVQ AX, plainBlocks_t2(R8)(CX*8)
	// The first eight bytes behind it, or 0 if the packet has fewer; then the IP header is read in their place.
	MOVWLZX PAYLOAD(SI), DX
	LEAQ (R12)(DX*1), AX
	ADDQ $8, DX
	CMPQ DX, R15
	CMOVQHI R13, AX
	MOVQ (AX), AX
	CMOVQHI R11, AX
	MOVQ AX, plainBlocks_rest(R8)(CX*8)
	ADDQ $64, SI
	INCQ R9
	INCQ CX
	JMP next
done:
	SUBQ from+16(FP), R9
	MOVQ R9, ret+72(FP)
	RET
