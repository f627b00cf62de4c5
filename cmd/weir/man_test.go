package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestMan: each command that help lists has a man page.
func TestMan(t *testing.T) {
	dir := t.TempDir()
	if status, _, stderr := weir("man", "--out", dir); status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	pages := 0
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		if !cmd.IsAvailableCommand() && cmd.HasParent() {
			return
		}
		text, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		if err != nil || !strings.Contains(string(text), ".SH NAME") || cmd.HasParent() && cmd.Short == "" {
			t.Errorf("%s: %v", cmd.CommandPath(), err)
		}
		if !cmd.HasParent() && !strings.Contains(string(text), `\-\-version`) && !strings.Contains(string(text), "--version") {
			t.Error("weir(1) does not have --version")
		}
		pages++
		kept, inside := 0, false
		for line := range strings.Lines(string(text)) {
			inside = inside && !strings.HasPrefix(line, ".EE") || strings.HasPrefix(line, ".EX")
			if inside && strings.HasPrefix(line, "  ") {
				kept++
			}
		}
		if want := strings.Count("\n"+cmd.Long+"\n"+cmd.Example, "\n  "); kept != want {
			t.Errorf("%s: %d lines stay as they are, of %d that are indented in help", cmd.CommandPath(), kept, want)
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newRootCommand())
	if pages < 50 {
		t.Errorf("%d pages", pages)
	}
}
