//go:build !purego

#include "textflag.h"

// func PrefetchRead(at *uintptr, n int)
TEXT ·PrefetchRead(SB), NOSPLIT, $0-16
	MOVD at+0(FP), R0
	MOVD n+8(FP), R1
next:
	MOVD.P 8(R0), R2
	PRFM (R2), PLDL1KEEP
	PRFM 64(R2), PLDL1KEEP
	SUBS $1, R1
	BNE next
	RET

// func prefetchLines(at *byte, n int)
TEXT ·prefetchLines(SB), NOSPLIT, $0-16
	MOVD at+0(FP), R0
	MOVD n+8(FP), R1
next:
	PRFM (R0), PLDL1KEEP
	ADD $64, R0
	SUBS $1, R1
	BNE next
	RET

// func prefetchLinesWrite(at *byte, n int)
TEXT ·prefetchLinesWrite(SB), NOSPLIT, $0-16
	MOVD at+0(FP), R0
	MOVD n+8(FP), R1
next:
	PRFM (R0), PSTL1KEEP
	ADD $64, R0
	SUBS $1, R1
	BNE next
	RET

// func PrefetchWrite(at *uintptr, n int)
TEXT ·PrefetchWrite(SB), NOSPLIT, $0-16
	MOVD at+0(FP), R0
	MOVD n+8(FP), R1
next:
	MOVD.P 8(R0), R2
	PRFM (R2), PSTL1KEEP
	PRFM 64(R2), PSTL1KEEP
	SUBS $1, R1
	BNE next
	RET

// func PrefetchReadLine(at *uintptr, n int)
TEXT ·PrefetchReadLine(SB), NOSPLIT, $0-16
	MOVD at+0(FP), R0
	MOVD n+8(FP), R1
next:
	MOVD.P 8(R0), R2
	PRFM (R2), PLDL1KEEP
	SUBS $1, R1
	BNE next
	RET

// func PrefetchWriteLine(at *uintptr, n int)
TEXT ·PrefetchWriteLine(SB), NOSPLIT, $0-16
	MOVD at+0(FP), R0
	MOVD n+8(FP), R1
next:
	MOVD.P 8(R0), R2
	PRFM (R2), PSTL1KEEP
	SUBS $1, R1
	BNE next
	RET
