package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// tools are where the back end's programs are, and folders of headers.
type tools struct {
	compiler, assembler string
	include             []string
}

func findTools() (t tools, err error) {
	var faults []error
	find := func(variable, name string) string {
		if v := os.Getenv(variable); v != "" {
			name = v
		}
		path, err := exec.LookPath(name)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s is not here: it is of the Tofino back end of p4c (https://github.com/p4lang/p4c); say where it is by %s", name, variable))
		}
		return path
	}
	t.compiler, t.assembler = find("P4C_BAREFOOT", "p4c-barefoot"), find("BFAS", "bfas")
	return t, errors.Join(faults...)
}

// result is what came of a program. lost warns of parsers that the compiler made and that do
// not do what the program says, also where the assembler takes them.
type result struct {
	stages    []stage
	warnings  warnings
	lost, err error
}

// measure builds a program of a folder and reads what its stages need. The folder next to
// has sources, too.
func (t tools) measure(p program, source, dir string) (r result) {
	said, err := t.compile(p, filepath.Join(source, p.name+".p4"), dir)
	if err != nil {
		r.err = fmt.Errorf("compile: %w", err)
		return r
	}
	r.warnings = readWarnings(said, filepath.Dir(filepath.Clean(source)))
	pipe := filepath.Join(dir, "pipe")
	file := filepath.Join(pipe, p.name+".bfa")
	assembly, err := os.ReadFile(file)
	if err != nil {
		r.err = fmt.Errorf("read what the compiler made: %w", err)
		return r
	}
	r.lost = lostSelections(string(assembly))
	said, err = command(t.assembler, "--target", p.target, "--no-bin", "-o", pipe, file)
	if err != nil {
		r.err = fmt.Errorf("assemble: %w", err)
		return r
	}
	r.warnings.assembler = bytes.Count(said, []byte("warning:"))
	r.stages, r.err = readStages(filepath.Join(pipe, "logs", "resources.json"))
	return r
}

// compile compiles one program into a folder, which is emptied before. A warning is
// no fault of a program: the back end has some that speak of itself.
func (t tools) compile(p program, source, dir string) (said []byte, err error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	arch := "tna"
	if p.target == "tofino2" {
		arch = "t2na"
	}
	args := []string{"--std", "p4-16", "--target", p.target, "--arch", arch, "-g", "-D__TARGET_TOFINO__=" + p.define, "-o", dir}
	for _, dir := range t.include {
		args = append(args, "-I", dir)
	}
	return command(t.compiler, append(args, source)...)
}

// command runs a program and returns what it says; the error has what it says is wrong.
func command(name string, args ...string) (said []byte, err error) {
	c := exec.Command(name, args...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, errorsAlone(out.Bytes()))
	}
	return out.Bytes(), nil
}

// errorsAlone is what a program said without the lines that are warnings, of which the
// assembler has hundreds.
func errorsAlone(said []byte) []byte {
	var left []byte
	for line := range bytes.Lines(said) {
		if !bytes.Contains(line, []byte("warning:")) {
			left = append(left, line...)
		}
	}
	return left
}
