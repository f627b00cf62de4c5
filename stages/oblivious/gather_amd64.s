//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// Offsets of what is read of a packet.Packet, which is 64 bytes; TestGather fails if they are others.
#define ADDR 0
#define ID 8
#define WIRELEN 28
#define QUEUE 44 // and reason, protocol, TTL, flags of 16 bits, and L3 of 16, from the lowest byte of a word on

// packet.Flags that decide whether gather takes a packet, those of each version, and that of fragments.
#define DECIDES 0x400c // FlagCopy | FlagIP
#define FOUR 0x4
#define SIX 0x8
#define FRAGMENT 0x20

// The bytes in front of those that IP says the length of: Ethernet's header, and IPv6's.
#define BEFORE4 14
#define BEFORE6 54

// func gather(to *block, pkts *packet.Packet, i, n int, mem *byte, last int, weighs bool) int
//
//	SI  the packet    R9  its number    R8  to    DI  memory    R10  bytes on the wire    AX  the word from QUEUE on
//	R12, R13  that word's bits that tell whether the packet is taken; what they are with IPv4    R11  last
TEXT ·gather(SB), NOSPLIT, $0-64
	MOVQ to+0(FP), R8
	MOVQ pkts+8(FP), SI
	MOVQ i+16(FP), R9
	MOVQ n+24(FP), CX
	MOVQ mem+32(FP), DI
	MOVQ last+40(FP), R11
	MOVBLZX weighs+48(FP), BX
	MOVQ $(DECIDES<<32 | 0xff00), R12
	MOVQ $(FOUR<<32), R13
	XORL R10, R10
	MOVQ R9, AX
	SHLQ $6, AX
	ADDQ AX, SI
next:
	CMPQ R9, CX
	JGE done
	MOVQ QUEUE(SI), AX
	MOVQ AX, DX
	ANDQ R12, DX
	CMPQ DX, R13
	JNE others
	TESTL BX, BX
	JEQ taken
	MOVQ AX, DX
	SHRQ $48, DX
	ADDQ ADDR(SI), DX
	CMPQ DX, R11
	JHI done
	MOVWLZX 2(DI)(DX*1), DX
	ROLW $8, DX
	ADDL $BEFORE4, DX
length:
	MOVL DX, block_lengths(R8)(R9*4)
taken:
	MOVQ ID(SI), DX
	MOVQ DX, block_ids(R8)(R9*8)
	SHRQ $16, AX
	MOVB AX, block_protos(R8)(R9*1)
	MOVL WIRELEN(SI), DX
	ADDQ DX, R10
	ADDQ $64, SI
	INCQ R9
	JMP next
others:
	SHRQ $32, DX // with a reason, the shifted word may look right: so this is compared too
	TESTL $0xff00, AX
	JNE done
	CMPL DX, $SIX
	JNE done
	MOVQ AX, DX
	SHRQ $32, DX
	TESTL $FRAGMENT, DX
	JNE done
	TESTL BX, BX
	JEQ taken
	SHRL $16, DX
	ADDQ ADDR(SI), DX
	CMPQ DX, R11
	JHI done
	MOVWLZX 4(DI)(DX*1), DX
	ROLW $8, DX
	ADDL $BEFORE6, DX
	JMP length
done:
	ADDQ R10, block_bytes(R8)
	MOVQ R9, ret+56(FP)
	RET
