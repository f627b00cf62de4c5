package pint

import (
	"fmt"
	"math/bits"
	"os"
	"strings"
	"testing"
)

// TestP4Sizes: the programs for P4 targets have the same units and tables.
func TestP4Sizes(t *testing.T) {
	text, err := os.ReadFile("../../p4/include/telemetry.p4")
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]int{
		"LOG_FRACTION": LogFraction, "UTILISATION_TABLE_BITS": utilisationTable, "UTILISATION_TABLE_SIZE": 1 << utilisationTable,
		"EXP_BITS": expBits, "UTILISATION_SCALE": utilisationScale,
	} {
		if line := fmt.Sprintf("#define %s %d\n", name, n); !strings.Contains(string(text), line) {
			t.Errorf("p4/include/telemetry.p4 lacks %q", line)
		}
	}
	for name, one := range map[string]int{"UTILISATION_VALUE_BITS": UtilisationOne, "ROUND_BITS": RoundOne} {
		if line := fmt.Sprintf("#define %s %d\n", name, bits.TrailingZeros(uint(one))); !strings.Contains(string(text), line) {
			t.Errorf("p4/include/telemetry.p4 lacks %q", line)
		}
	}
}
