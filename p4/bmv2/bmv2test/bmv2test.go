package bmv2test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/p4/bmv2"
)

// Find finds the compiler and the switch. Without one of them, or without network namespaces, the test is
// skipped.
func Find(t testing.TB) bmv2.Tools {
	t.Helper()
	tools, err := bmv2.Find()
	if errors.Is(err, bmv2.ErrMissing) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	netnstest.Require(t)
	return tools
}

// Compile compiles a program, and returns the file.
func Compile(t testing.TB, tools bmv2.Tools, source string, defines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program.json")
	if err := tools.Compile(context.Background(), source, path, defines...); err != nil {
		t.Fatal(err)
	}
	return path
}

// logVariable names a file for a switch's log of what it does to each packet, for who looks for a fault.
const logVariable = "WEIR_P4_LOG"

// Start starts a switch that takes packets from its test, in a namespace whose name begins with prefix.
func Start(t testing.TB, tools bmv2.Tools, compiled, prefix string) *bmv2.Switch {
	t.Helper()
	sw, err := bmv2.Start(context.Background(), bmv2.Config{
		Binary: tools.Switch, Program: compiled, Namespace: netnstest.New(t, prefix), Log: os.Getenv(logVariable),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sw.Stop(); err != nil {
			t.Error(err)
		}
	})
	return sw
}
