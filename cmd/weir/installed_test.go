package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestInstalledLabs: every lab file that a package has passes "weir lab check" from where the package's documents say to run it, and the P4 program that
// switches on BMv2 run there is whole.
func TestInstalledLabs(t *testing.T) {
	dest := t.TempDir()
	if out, err := exec.Command("make", "-s", "-C", "../..", "install-docs", "DESTDIR="+dest, "PREFIX=/usr").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Chdir(filepath.Join(dest, "usr/share/doc/weir"))
	var labs int
	for _, pattern := range []string{"config/*.toml", "examples/*/*.toml", "docs/*.toml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), "[[switch]]") && !strings.Contains(string(text), "\nswitch = [") {
				continue
			}
			labs++
			if status, _, stderr := weir("lab", "check", file); status != 0 {
				t.Errorf("weir lab check %s: status %d: %s", file, status, stderr)
			}
		}
	}
	if labs < 8 {
		t.Errorf("%d labs", labs)
	}
	wholeProgram(t, "p4/v1model/weir.p4", map[string]bool{})
}

var included = regexp.MustCompile(`(?m)^#include "(.+)"`)

// wholeProgram looks for a P4 program's files.
func wholeProgram(t *testing.T, file string, seen map[string]bool) {
	t.Helper()
	if seen[file] {
		return
	}
	seen[file] = true
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	for _, m := range included.FindAllStringSubmatch(string(text), -1) {
		wholeProgram(t, filepath.Join(filepath.Dir(file), m[1]), seen)
	}
}
