package bmv2

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// The environment variables that name the programs; without them, PATH does.
const (
	CompilerVariable = "P4C_BM2"
	SwitchVariable   = "SIMPLE_SWITCH"
)

// Tools are the programs of others that this package runs.
type Tools struct {
	Compiler string // p4c-bm2-ss
	Switch   string // simple_switch
}

// ErrMissing says that a program is not installed.
var ErrMissing = errors.New("not installed")

// Find looks for the compiler and the switch. The error names each one that is
// missing and is [ErrMissing].
func Find() (Tools, error) {
	compiler, compilerErr := find("p4c-bm2-ss", CompilerVariable)
	simple, switchErr := find("simple_switch", SwitchVariable)
	return Tools{compiler, simple}, errors.Join(compilerErr, switchErr)
}

// FindCompiler looks for the compiler alone.
func FindCompiler() (Tools, error) {
	compiler, err := find("p4c-bm2-ss", CompilerVariable)
	return Tools{Compiler: compiler}, err
}

// FindSwitch looks for the switch alone, for programs that are compiled.
func FindSwitch() (Tools, error) {
	simple, err := find("simple_switch", SwitchVariable)
	return Tools{Switch: simple}, err
}

func find(name, variable string) (string, error) {
	asked := name
	if path := os.Getenv(variable); path != "" {
		asked = path
	}
	path, err := exec.LookPath(asked)
	if err == nil {
		return path, nil
	}
	if asked != name {
		return "", fmt.Errorf("%s is %w: %s names %s: %w", name, ErrMissing, variable, asked, err)
	}
	return "", fmt.Errorf("%s is %w: put it on PATH, or its path into %s", name, ErrMissing, variable)
}

// Compile makes a program's JSON for simple_switch. Defines are preprocessor names, such as
// "WEIR_GIVEN_TIME". A warning of the compiler is an error.
func (t Tools) Compile(ctx context.Context, source, json string, defines ...string) error {
	return t.compile(ctx, source, json, defines)
}

// CompileWithInfo makes the program's P4Info too, which P4Runtime needs, as text.
func (t Tools) CompileWithInfo(ctx context.Context, source, json, info string, defines ...string) error {
	return t.compile(ctx, source, json, defines, "--p4runtime-files", info)
}

func (t Tools) compile(ctx context.Context, source, json string, defines []string, more ...string) error {
	args := append([]string{"--std", "p4-16", "--Werror", "-o", json}, more...)
	for _, d := range defines {
		args = append(args, "-D"+d)
	}
	out, err := exec.CommandContext(ctx, t.Compiler, append(args, source)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("compile %s: %w: %s", source, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Versions says which compiler and which switch these are.
func (t Tools) Versions(ctx context.Context) (compiler, simple string, err error) {
	if compiler, err = t.CompilerVersion(ctx); err != nil {
		return "", "", err
	}
	simple, err = version(ctx, t.Switch)
	return compiler, simple, err
}

// CompilerVersion says which compiler this is.
func (t Tools) CompilerVersion(ctx context.Context) (string, error) { return version(ctx, t.Compiler) }

// version is the last word of what a program says of itself: p4c names itself first,
// simple_switch says that alone.
func version(ctx context.Context, program string) (string, error) {
	out, err := exec.CommandContext(ctx, program, "--version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", program, err)
	}
	for _, line := range strings.Split(string(out), "\n") {
		for _, word := range strings.Fields(line) {
			if strings.ContainsAny(word[:1], "0123456789") && strings.Contains(word, ".") {
				return strings.Trim(word, "(),"), nil
			}
		}
	}
	return "", fmt.Errorf("%s prints no version: %q", program, out)
}
