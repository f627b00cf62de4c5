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
		if err := WeirInfo().Check(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		r, err := c.writeRequest(WeirInfo(), Target{Election: 1})
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
	dir := t.TempDir()
	out, infoFile := filepath.Join(dir, "weir.json"), filepath.Join(dir, "weir.p4info.txtpb")
	if err := tools.CompileWithInfo(context.Background(), "../v1model/weir.p4", out, infoFile); err != nil {
		t.Fatal(err)
	}
	info, err := os.ReadFile(infoFile)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	names, err := Calculations(program)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "weir.p4info.txtpb", string(info))
	golden(t, "weir.calculations", strings.Join(names, "\n")+"\n")
	for _, name := range []string{"switch.toml", "bridge.toml", "router.toml", "sketches.toml"} {
		t.Run(name, func(t *testing.T) { loadInto(t, out, name) })
	}
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
	info := WeirInfo()
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
