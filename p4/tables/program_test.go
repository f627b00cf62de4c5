package tables

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/bmv2/bmv2test"
	p4 "github.com/weirswitch/weir/p4/tables/p4rt"
	"github.com/weirswitch/weir/telemetry/hash"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	m.Run()
}

// TestContentsFit: the tables of all configurations fit the program: names, order
// of keys and parameters, widths, sizes. So does what a control plane adds later.
func TestContentsFit(t *testing.T) {
	for _, name := range []string{"switch.toml", "bridge.toml", "router.toml", "sketches.toml"} {
		c := build(t, load(t, name)).Contents
		if err := WeirInfo(hash.CRC).Check(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		r, err := c.writeRequest(WeirInfo(hash.CRC), Target{Election: 1})
		if err != nil {
			t.Fatal(err)
		}
		entries := 0
		for _, u := range r.Updates {
			if e, ok := u.Entity.Entity.(*p4.Entity_TableEntry); ok && !e.TableEntry.IsDefaultAction {
				entries++
			}
		}
		if entries != len(c.Entries) {
			t.Errorf("%s: %d entries in the request, %d in the contents", name, entries, len(c.Entries))
		}
	}
}

// TestProgram: the embedded P4Info and names of CRCs are those that the compiler
// makes of the program; with -update they are written. And simple_switch takes all commands.
func TestProgram(t *testing.T) {
	tools, err := bmv2.FindCompiler()
	if err != nil {
		bmv2test.Missing(t, fmt.Errorf("the embedded P4Info is compared with the sources' names only: %w", err))
	}
	compiled := compileWeir(t, tools, hash.CRC)
	golden(t, "weir.p4info.txtpb", string(compiled.info))
	golden(t, "weir.calculations", strings.Join(compiled.program.CRC32C, "\n")+"\n")
	for _, name := range []string{"switch.toml", "bridge.toml", "router.toml", "sketches.toml"} {
		t.Run(name, func(t *testing.T) { loadInto(t, compiled.file, name) })
	}
	for _, f := range []hash.Family{hash.CRC, hash.XX} {
		compiled := compileWeir(t, tools, f)
		if string(compiled.info) != string(infoOf(f)) {
			t.Errorf("the P4Info for %q is not the embedded one, but for the name of a parameter", f)
		}
		if !slices.Equal(compiled.program.CRC32C, WeirCalculations(f)) {
			t.Errorf("the program for %q has the CRC-32Cs %q, known are %q", f, compiled.program.CRC32C, WeirCalculations(f))
		}
		info, err := ReadInfo(compiled.info)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range []hash.Family{hash.CRC, hash.XX, hash.AES} {
			for _, err := range []error{compiled.program.CheckFamily(other), info.CheckFamily(other)} {
				if (err == nil) != (other == f) {
					t.Errorf("a program for %q and a switch with %q: %v", f, other, err)
				}
			}
		}
	}
}

// weirProgram is what the compiler makes of the program.
type weirProgram struct {
	file    string
	program *Program
	info    []byte
}

// compileWeir compiles the program for a hash family.
func compileWeir(t *testing.T, tools bmv2.Tools, f hash.Family) (p weirProgram) {
	t.Helper()
	dir := t.TempDir()
	infoFile := filepath.Join(dir, "weir.p4info.txtpb")
	p.file = filepath.Join(dir, "weir.json")
	if err := tools.CompileWithInfo(context.Background(), "../v1model/weir.p4", p.file, infoFile, Defines(f)...); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	if p.program, err = ReadProgram(text); err != nil {
		t.Fatal(err)
	}
	if p.info, err = os.ReadFile(infoFile); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestNames: without a compiler, too, the embedded P4Info has the tables, registers and
// actions that the sources have.
func TestNames(t *testing.T) {
	files, err := filepath.Glob("../v1model/*.p4")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var source strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	info := WeirInfo(hash.CRC)
	for _, c := range []struct {
		what  string
		of    *regexp.Regexp
		names []string
	}{
		{"table", regexp.MustCompile(`(?m)^ +table (\w+) \{`), lastWords(info.tables)},
		{"register", regexp.MustCompile(`(?m)^ +register<.*>\(.*\) (\w+);`), lastWords(info.registers)},
	} {
		var want []string
		for _, m := range c.of.FindAllStringSubmatch(source.String(), -1) {
			want = append(want, m[1])
		}
		slices.Sort(want)
		if want = slices.Compact(want); !slices.Equal(want, c.names) {
			t.Errorf("%ss of the sources: %q\nof the embedded P4Info: %q\ncompile anew: P4C_BM2=... go test ./p4/tables -run TestProgram -update", c.what, want, c.names)
		}
	}
}

// lastWords are the names without the controls in front.
func lastWords[T any](all map[string]T) (names []string) {
	for name := range all {
		names = append(names, name[strings.LastIndex(name, ".")+1:])
	}
	slices.Sort(names)
	return slices.Compact(names)
}
