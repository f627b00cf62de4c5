package freeport

import (
	"net"
	"testing"
)

// TestAddress: addresses differ, can be listened on, and again after that.
func TestAddress(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		a := Address(t)
		if seen[a] {
			t.Errorf("%s twice", a)
		}
		seen[a] = true
		for range 2 {
			l, err := net.Listen("tcp", a)
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Close()
		}
	}
}
