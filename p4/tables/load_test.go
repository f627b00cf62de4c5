package tables

import (
	"bytes"
	"context"
	"errors"
	"math"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/p4/bmv2"
)

// loadInto: simple_switch with a compiled program takes all commands of a configuration,
// and its registers hold what was written.
func loadInto(t *testing.T, program, name string) {
	tools, err := bmv2.Find()
	if errors.Is(err, bmv2.ErrMissing) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	netnstest.Require(t)
	s, err := bmv2.Start(context.Background(), bmv2.Config{Binary: tools.Switch, Program: program, Namespace: netnstest.New(t, "wp4tab")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	var commands bytes.Buffer
	c := build(t, load(t, name)).Contents
	if err := c.WriteCommands(&commands, WeirCalculations()); err != nil {
		t.Fatal(err)
	}
	if err := s.Load(commands.String()); err != nil {
		t.Fatal(err)
	}
	held := map[string][]uint64{}
	for _, r := range c.registers() {
		if held[r.Name] == nil {
			if held[r.Name], err = s.Registers(r.Name); err != nil {
				t.Fatal(err)
			}
		}
		// BMv2 tells numbers as signed ones: from 2^63 on as the largest of these.
		if got := held[r.Name][r.Index]; got != min(r.Value, math.MaxInt64) {
			t.Fatalf("%s[%d] is %#x, written was %#x", r.Name, r.Index, got, r.Value)
		}
	}
}
