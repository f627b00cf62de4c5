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

// measure builds a program and reads what its stages need. lost warns of parsers that the
// compiler made and that do not do what the program says, also where the assembler takes them.
func (t tools) measure(p program, source, dir string) (stages []stage, lost, err error) {
	if err := t.compile(p, source, dir); err != nil {
		return nil, nil, fmt.Errorf("compile: %w", err)
	}
	pipe := filepath.Join(dir, "pipe")
	file := filepath.Join(pipe, p.name+".bfa")
	assembly, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("read what the compiler made: %w", err)
	}
	lost = lostSelections(string(assembly))
	if err := command(t.assembler, "--target", p.target, "--no-bin", "-o", pipe, file); err != nil {
		return nil, lost, fmt.Errorf("assemble: %w", err)
	}
	stages, err = readStages(filepath.Join(pipe, "logs", "resources.json"))
	return stages, lost, err
}

// compile compiles one program into a folder, which is emptied before. A warning is
// no fault of a program: the back end has some that speak of itself.
func (t tools) compile(p program, source, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
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

// command runs a program; its error has what the program says is wrong.
func command(name string, args ...string) error {
	c := exec.Command(name, args...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, errorsAlone(out.Bytes()))
	}
	return nil
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
