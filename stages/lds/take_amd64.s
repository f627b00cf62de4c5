//go:build !purego

#include "textflag.h"

// Offsets of what is read of a packet.Packet, which is 64 bytes, and of a packet.FlowName; TestTake fails if they are others.
#define ID 8
#define ARRIVAL 16
#define WIRELEN 28
#define PORTS 40
#define FLAGS 48
#define NAME 8

// func take(how *taking, pkts *packet.Packet, names *packet.FlowName, n int, ids, flows *uint64, at *int64, bytes *uint32) int
//
//	SI  the packet    DX  its name    CX  how many are taken    DI, R8, R9, R15  ids, flows, at, bytes
//	R10  what names are not of    R11  what arrivals differ in from now    R12  waited    R13  how
TEXT ·take(SB), NOSPLIT, $0-72
	MOVQ how+0(FP), R13
	MOVQ pkts+8(FP), SI
	MOVQ names+16(FP), DX
	MOVQ ids+32(FP), DI
	MOVQ flows+40(FP), R8
	MOVQ at+48(FP), R9
	MOVQ bytes+56(FP), R15
	XORL CX, CX
	XORL R10, R10
	XORL R11, R11
	XORL R12, R12
next:
	MOVQ PORTS(SI), AX
	ANDQ 0(R13), AX // mask
	CMPQ AX, 8(R13) // ports
	JNE out
	MOVL 16(R13), AX // ip
	TESTW AX, FLAGS(SI)
	JEQ out
	MOVQ ID(SI), AX
	MOVQ AX, (DI)(CX*8)
	XORQ (DX), AX
	ORQ AX, R10
	MOVQ NAME(DX), AX
	MOVQ AX, (R8)(CX*8)
	MOVQ ARRIVAL(SI), AX
	MOVQ 24(R13), BX // now
	SUBQ AX, BX
	ORQ BX, R11
	MOVQ BX, R14
	SARQ $63, R14
	NOTQ R14
	ANDQ R14, BX // no less than 0
	ANDQ 32(R13), BX // egress
	ADDQ BX, R12
	ADDQ BX, AX
	MOVQ AX, (R9)(CX*8)
	MOVL WIRELEN(SI), AX
	MOVL AX, (R15)(CX*4)
	ADDQ $64, SI
	ADDQ $16, DX
	INCQ CX
	CMPQ CX, n+24(FP)
	JLT next
out:
	MOVQ R10, 40(R13)
	MOVQ R11, 48(R13)
	MOVQ R12, 56(R13)
	MOVQ CX, ret+64(FP)
	RET
