//go:build !purego

#include "textflag.h"

// func prefetchRead(at *uintptr, n int)
TEXT ·prefetchRead(SB), NOSPLIT, $0-16
	MOVD at+0(FP), R0
	MOVD n+8(FP), R1
next:
	MOVD.P 8(R0), R2
	PRFM (R2), PLDL1KEEP
	PRFM 64(R2), PLDL1KEEP
	SUBS $1, R1
	BNE next
	RET

// func prefetchWrite(at *uintptr, n int)
TEXT ·prefetchWrite(SB), NOSPLIT, $0-16
	MOVD at+0(FP), R0
	MOVD n+8(FP), R1
next:
	MOVD.P 8(R0), R2
	PRFM (R2), PSTL1KEEP
	PRFM 64(R2), PSTL1KEEP
	SUBS $1, R1
	BNE next
	RET
