package pint

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestP4Counts: the program for P4 targets counts under the same numbers.
func TestP4Counts(t *testing.T) {
	text, err := os.ReadFile("../../p4/include/telemetry.p4")
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]count{
		"SOURCED": sourced, "TRANSITED": transited, "SUNK": sunk, "LOCAL": local,
		"LEFT_BARE": leftBare, "LEFT_MTU": leftMTU, "LEFT_ROOM": leftRoom, "LEFT_OTHER": leftOther, "LEFT_NONZERO": leftNonzero,
		"LEFT_OWN": leftOwn, "LEFT_LOOPING": leftLooping, "LEFT_FORGED": leftForged,
		"UNKNOWN_PLAN": unknownPlan, "HOP_SATURATED": hopSaturated, "HOP_UNKNOWN": hopUnknown, "LOOPS_FOUND": loopsFound,
		"RECORDED": recorded, "RING_FULL": ringFull,
	} {
		if line := fmt.Sprintf("const bit<32> %s = %d;\n", name, n); !strings.Contains(string(text), line) {
			t.Errorf("p4/include/telemetry.p4 lacks %q", line)
		}
	}
	if line := fmt.Sprintf("#define PINT_COUNTS %d\n", numCounts); !strings.Contains(string(text), line) {
		t.Errorf("p4/include/telemetry.p4 lacks %q", line)
	}
}
