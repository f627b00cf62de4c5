//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// Offsets of what is read of a packet.Packet, which is 64 bytes; TestStraight fails if they are others.
#define ADDR 0
#define OUTPORT 40
#define INPORT 42
#define QUEUE 44 // and reason, protocol, TTL and flags of 16 bits, from the lowest byte of a word on

// A reason, FlagVLAN or FlagMalformed in that word.
#define LEAVES (1<<43 | 1<<32 | 0xff00)

// order brings the source's bytes into the first word, and the destination's into the second.
DATA order<>+0(SB)/8, $0x80800b0a09080706
DATA order<>+8(SB)/8, $0x8080050403020100
GLOBL order<>(SB), RODATA|NOPTR, $16

// func gather(keys *[maxLookups]uint64, pkts *packet.Packet, i, n int, mem *byte, last int, from uint16, tag uint64) int
TEXT ·gather(SB), NOSPLIT, $0-72
	MOVQ keys+0(FP), R8
	MOVQ pkts+8(FP), SI
	MOVQ i+16(FP), R9
	MOVQ n+24(FP), CX
	MOVQ mem+32(FP), DI
	MOVQ last+40(FP), R11
	MOVWLZX from+48(FP), BX
	VMOVQ tag+56(FP), X2
	VPUNPCKLQDQ X2, X2, X2
	VMOVDQU order<>(SB), X1
	MOVQ $LEAVES, R12
	MOVQ R9, AX
	SHLQ $4, AX
	ADDQ AX, R8
	MOVQ R9, AX
	SHLQ $6, AX
	ADDQ AX, SI
next:
	CMPQ R9, CX
	JGE done
	MOVWLZX INPORT(SI), AX
	MOVQ ADDR(SI), DX
	CMPL AX, BX
	JNE done
	TESTQ R12, QUEUE(SI)
	JNE done
	CMPQ DX, R11
	JHI done
	VMOVDQU (DI)(DX*1), X0
	VPSHUFB X1, X0, X0
	VPOR X2, X0, X0
	VMOVDQU X0, (R8)
	ADDQ $16, R8
	ADDQ $64, SI
	INCQ R9
	JMP next
done:
	MOVQ R9, ret+64(FP)
	RET

// func straight(s *search, pkts *packet.Packet, i, n int, name, ports uint64, mark uint8) int
//
//	DX  two lookups: the source's, and the destination's behind it    AX  an entry    BX  what it is to be    DI  the port of arrival
TEXT ·straight(SB), NOSPLIT, $0-64
	MOVQ s+0(FP), R8
	MOVQ pkts+8(FP), SI
	MOVQ i+16(FP), R9
	MOVQ n+24(FP), CX
	MOVQ name+32(FP), R10
	MOVQ ports+40(FP), R11
	MOVBLZX mark+48(FP), R12
	LEAQ search_first(R8), R13
	MOVQ $0xff00, R15
	MOVQ R9, DX
	ADDQ DX, DX
	MOVQ R9, AX
	SHLQ $6, AX
	ADDQ AX, SI
next:
	CMPQ R9, CX
	JGE done
	TESTL R15, QUEUE(SI)
	JNE done
	MOVWLZX INPORT(SI), DI
	MOVQ lookups_names(R13)(DX*8), BX
	ORQ DI, BX
	CMPQ BX, lookups_entries(R13)(DX*8)
	JNE done
	MOVBLZX lookups_marks(R13)(DX*1), AX
	CMPL AX, R12
	JNE done
	TESTB $1, (search_keys+8)(R8)(DX*8) // macGroup
	JNE done
	MOVQ (lookups_entries+8)(R13)(DX*8), AX
	MOVQ (lookups_names+8)(R13)(DX*8), BX
	XORQ AX, BX
	TESTQ R10, BX
	JNE done
	ANDQ R11, AX
	CMPL AX, DI
	JEQ done
	MOVW AX, OUTPORT(SI)
	ADDQ $2, DX
	ADDQ $64, SI
	INCQ R9
	JMP next
done:
	MOVQ R9, ret+56(FP)
	RET

// func placeWide(buckets *bucket, l *lookups, keys *[maxLookups]uint64, n int, layout *layout, mixer *mixer, prefetched int)
//
// VPMULUDQ multiplies the low halves of words.
TEXT ·placeWide(SB), NOSPLIT, $0-56
	MOVQ buckets+0(FP), DI
	MOVQ l+8(FP), R8
	MOVQ keys+16(FP), SI
	MOVQ n+24(FP), CX
	MOVQ layout+32(FP), R9
	MOVQ mixer+40(FP), R10
	MOVQ prefetched+48(FP), R11
	VPBROADCASTQ layout_lines(R9), Y4
	VPBROADCASTQ layout_tag(R9), Y5
	VPBROADCASTQ layout_present(R9), Y6
	VPBROADCASTQ mixer_mask(R10), Y7
	VPBROADCASTQ mixer_factors(R10), Y8
	VPBROADCASTQ (mixer_factors+8)(R10), Y9
	VPBROADCASTQ (mixer_factors+16)(R10), Y10
	VPCMPEQD Y0, Y0, Y0
	VPSLLQ $32, Y0, Y11 // the upper half
	VPSRLQ $37, Y0, Y12
	VPSLLQ $5, Y12, Y12 // the lower half but for five bits
	XORL DX, DX
next:
	VMOVDQU (SI)(DX*8), Y0
	VPSLLQ $4, Y0, Y0
	VPXOR Y7, Y0, Y0
	VPSRLQ $32, Y0, Y1
	VPMULUDQ Y8, Y1, Y1
	VPSRLQ $16, Y1, Y1
	VPAND Y12, Y1, Y1
	VPXOR Y1, Y0, Y0
	VPMULUDQ Y9, Y0, Y1
	VPAND Y11, Y1, Y1
	VPXOR Y1, Y0, Y0
	VPSRLQ $32, Y0, Y1
	VPMULUDQ Y10, Y1, Y1
	VPSRLQ $16, Y1, Y1
	VPAND Y12, Y1, Y1
	VPXOR Y1, Y0, Y0
	VPADDQ Y0, Y0, Y1
	VPAND Y4, Y1, Y1
	VMOVDQU Y1, lookups_at(R8)(DX*8)
	VPAND Y5, Y0, Y0
	VPOR Y6, Y0, Y0
	VMOVDQU Y0, lookups_names(R8)(DX*8)
	CMPQ DX, R11
	JGE placed
	MOVQ lookups_at(R8)(DX*8), AX
	MOVQ (lookups_at+8)(R8)(DX*8), BX
	PREFETCHT0 (DI)(AX*1)
	PREFETCHT0 (DI)(BX*1)
	MOVQ (lookups_at+16)(R8)(DX*8), AX
	MOVQ (lookups_at+24)(R8)(DX*8), BX
	PREFETCHT0 (DI)(AX*1)
	PREFETCHT0 (DI)(BX*1)
placed:
	ADDQ $4, DX
	CMPQ DX, CX
	JLT next
	VZEROUPPER
	RET

// func touchWide(buckets *bucket, l *lookups, n int)
TEXT ·touchWide(SB), NOSPLIT, $0-24
	MOVQ buckets+0(FP), DI
	MOVQ l+8(FP), SI
	MOVQ n+16(FP), CX
	XORL DX, DX
next:
	MOVQ lookups_at(SI)(DX*8), AX
	MOVQ (DI)(AX*1), R11
	INCQ DX
	CMPQ DX, CX
	JLT next
	RET

// func matchWide(buckets *bucket, l *lookups, n int, name uint64, second *lookups, layout *layout) (missed int)
//
// A bucket's seven entries and its marks are eight words. BX is the number of the entry that has the name, 7 if none: its bit for
// the marks is always set.
TEXT ·matchWide(SB), NOSPLIT, $0-56
	MOVQ buckets+0(FP), DI
	MOVQ l+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ second+32(FP), R12
	VPBROADCASTQ name+24(FP), Y3
	XORL DX, DX // the lookup
	XORL R8, R8 // how many found nothing
next:
	MOVQ lookups_at(SI)(DX*8), AX
	ADDQ DI, AX
	VPBROADCASTQ lookups_names(SI)(DX*8), Y0
	VPAND (AX), Y3, Y1
	VPAND 32(AX), Y3, Y2
	VPCMPEQQ Y0, Y1, Y1
	VPCMPEQQ Y0, Y2, Y2
	VMOVMSKPD Y1, BX
	VMOVMSKPD Y2, R9
	SHLL $4, R9
	ORL R9, BX
	ORL $0x80, BX
	TZCNTL BX, BX
	MOVQ (AX)(BX*8), R10
	MOVBLZX bucket_marks(AX)(BX*1), R11
	CMPL BX, $7
	JEQ miss
found:
	MOVQ R10, lookups_entries(SI)(DX*8)
	MOVB R11, lookups_marks(SI)(DX*1)
	INCQ DX
	CMPQ DX, CX
	JLT next
	MOVQ R8, missed+48(FP)
	VZEROUPPER
	RET
miss:
	MOVB DX, lookups_missed(SI)(R8*1)
	XORL R10, R10
	TESTQ R12, R12
	JEQ counted
	MOVQ layout+40(FP), R13 // layout.other
	MOVQ lookups_names(SI)(DX*8), R9
	MOVQ layout_second(R13), BX
	XORQ R9, BX
	MOVQ BX, lookups_names(R12)(R8*8)
	ANDQ layout_tag(R13), R9
	MOVQ $const_spread, BX
	IMULQ BX, R9
	SHRQ $40, R9
	ANDQ layout_lines(R13), R9
	ORQ $const_bucketSize, R9
	XORQ lookups_at(SI)(DX*8), R9
	MOVQ R9, lookups_at(R12)(R8*8)
	PREFETCHT0 (DI)(R9*1)
counted:
	INCQ R8
	JMP found
