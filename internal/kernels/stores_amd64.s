//go:build linux

#include "textflag.h"

// func storeLines(dst *uint64, lines int, value uint64)
TEXT ·storeLines(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ lines+8(FP), CX
	MOVQ value+16(FP), AX
	MOVQ AX, X0
	PUNPCKLQDQ X0, X0
	TESTQ CX, CX
	JLE  stored

store:
	MOVNTO X0, (DI)
	MOVNTO X0, 16(DI)
	MOVNTO X0, 32(DI)
	MOVNTO X0, 48(DI)
	ADDQ $64, DI
	DECQ CX
	JNZ  store
	SFENCE

stored:
	RET

// func copyLines(dst, src *uint64, lines int)
TEXT ·copyLines(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ lines+16(FP), CX
	TESTQ CX, CX
	JLE  copied

copy:
	MOVOU (SI), X0
	MOVOU 16(SI), X1
	MOVOU 32(SI), X2
	MOVOU 48(SI), X3
	MOVNTO X0, (DI)
	MOVNTO X1, 16(DI)
	MOVNTO X2, 32(DI)
	MOVNTO X3, 48(DI)
	ADDQ $64, SI
	ADDQ $64, DI
	DECQ CX
	JNZ  copy
	SFENCE

copied:
	RET
