//go:build !purego

#include "textflag.h"

// func PrefetchRead(at *uintptr, n int)
TEXT ·PrefetchRead(SB), NOSPLIT, $0-16
	MOVQ at+0(FP), SI
	MOVQ n+8(FP), CX
next:
	MOVQ (SI), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	ADDQ $8, SI
	DECQ CX
	JNZ next
	RET

// func prefetchLines(at *byte, n int)
TEXT ·prefetchLines(SB), NOSPLIT, $0-16
	MOVQ at+0(FP), SI
	MOVQ n+8(FP), CX
next:
	PREFETCHT0 (SI)
	ADDQ $64, SI
	DECQ CX
	JNZ next
	RET

// func prefetchLinesWrite(at *byte, n int)
TEXT ·prefetchLinesWrite(SB), NOSPLIT, $0-16
	MOVQ at+0(FP), AX
	MOVQ n+8(FP), CX
next:
	BYTE $0x0f; BYTE $0x0d; BYTE $0x08 // PREFETCHW (AX), which the assembler does not know
	ADDQ $64, AX
	DECQ CX
	JNZ next
	RET

// func PrefetchWrite(at *uintptr, n int)
TEXT ·PrefetchWrite(SB), NOSPLIT, $0-16
	MOVQ at+0(FP), SI
	MOVQ n+8(FP), CX
next:
	MOVQ (SI), AX
	// PREFETCHW (AX) and 64(AX), which the assembler does not know.
	BYTE $0x0f; BYTE $0x0d; BYTE $0x08
	BYTE $0x0f; BYTE $0x0d; BYTE $0x48; BYTE $0x40
	ADDQ $8, SI
	DECQ CX
	JNZ next
	RET

// func PrefetchReadLine(at *uintptr, n int)
TEXT ·PrefetchReadLine(SB), NOSPLIT, $0-16
	MOVQ at+0(FP), SI
	MOVQ n+8(FP), CX
next:
	MOVQ (SI), AX
	PREFETCHT0 (AX)
	ADDQ $8, SI
	DECQ CX
	JNZ next
	RET

// func PrefetchWriteLine(at *uintptr, n int)
TEXT ·PrefetchWriteLine(SB), NOSPLIT, $0-16
	MOVQ at+0(FP), SI
	MOVQ n+8(FP), CX
next:
	MOVQ (SI), AX
	BYTE $0x0f; BYTE $0x0d; BYTE $0x08 // PREFETCHW (AX), which the assembler does not know
	ADDQ $8, SI
	DECQ CX
	JNZ next
	RET
