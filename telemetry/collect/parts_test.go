package collect

import (
	"context"
	"testing"
)

// TestHeld: partitions that are added while a collector reads are held once all is applied from before it had them, and what came until then; not
// by the one alone, nor by what another reader has read.
func TestHeld(t *testing.T) {
	c := New(Config{}, nil)
	c.next = 10 // something was read
	a, b := Mask(0).With(3), Mask(0).With(5)
	begin := func() (reads, added Mask) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		return c.begin(ctx, func(error) {})
	}
	held := func(want Mask) {
		t.Helper()
		if got := c.Holds(); got != want {
			t.Fatalf("held are %v, want %v", got.List(), want.List())
		}
	}
	c.Read(a)
	if reads, added := begin(); reads != a || added != a {
		t.Fatalf("reads %v, added %v", reads.List(), added.List())
	}
	c.reach(b) // by the reader before
	c.filled(a)
	held(0)
	if _, added := begin(); added != 0 {
		t.Errorf("%v are read from the beginning again", added.List())
	}
	c.reach(a)
	held(a)
	c.Read(a | b)
	c.reach(a | b)
	held(a)
	if _, added := begin(); added != b {
		t.Errorf("added are %v", added.List())
	}
	c.filled(b)
	held(a | b)
	c.Read(b)
	held(b)
	c.Read(a | b) // what came meanwhile was not read
	held(b)
	c.reach(a | b)
	held(b)
	if _, added := begin(); added != a {
		t.Errorf("added are %v", added.List())
	}
	c.filled(a)
	held(a | b)
}
