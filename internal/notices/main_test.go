package main

import (
	"bytes"
	"os"
	"testing"
)

// TestCommitted: the committed notices are those of the modules that the binary is linked with now.
func TestCommitted(t *testing.T) {
	t.Chdir("../..")
	var want bytes.Buffer
	if err := write(&want, "./cmd/weir"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("THIRD-PARTY-NOTICES")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error(`THIRD-PARTY-NOTICES is not of these modules: run "go run ./internal/notices > THIRD-PARTY-NOTICES"`)
	}
}
