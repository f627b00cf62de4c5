package tables

import (
	"bytes"
	"math"
	"testing"

	"github.com/weirswitch/weir/p4/bmv2/bmv2test"
	"github.com/weirswitch/weir/telemetry/hash"
)

// loadInto: simple_switch with a compiled program takes all commands of a configuration,
// and its registers hold what was written.
func loadInto(t *testing.T, program, name string) {
	t.Helper()
	s := bmv2test.Start(t, bmv2test.Find(t), program, "wp4tab")
	var commands bytes.Buffer
	c := build(t, load(t, name)).Contents
	if err := c.WriteCommands(&commands, WeirCalculations(hash.CRC)); err != nil {
		t.Fatal(err)
	}
	if err := s.Load(commands.String()); err != nil {
		t.Fatal(err)
	}
	held := map[string][]uint64{}
	for _, r := range c.registers() {
		if held[r.Name] == nil {
			cells, err := s.Registers(r.Name)
			if err != nil {
				t.Fatal(err)
			}
			held[r.Name] = cells
		}
		// BMv2 tells numbers as signed ones: from 2^63 on as the largest of these.
		if got := held[r.Name][r.Index]; got != min(r.Value, math.MaxInt64) {
			t.Fatalf("%s[%d] is %#x, written was %#x", r.Name, r.Index, got, r.Value)
		}
	}
}
