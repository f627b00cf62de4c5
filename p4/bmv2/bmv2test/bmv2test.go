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

// RequireVariable is the environment variable that turns the skip of a test without the programs into a failure when it
// is 1. So does naming one of them.
const RequireVariable = "WEIR_REQUIRE_BMV2"

// Required reports whether BMv2 was asked for: by RequireVariable, or by the variable of a program.
func Required() bool {
	return os.Getenv(RequireVariable) == "1" || os.Getenv(bmv2.CompilerVariable) != "" || os.Getenv(bmv2.SwitchVariable) != ""
}

// Missing skips a test that lacks what err says, or fails it where BMv2 was asked for.
func Missing(t testing.TB, err error) {
	t.Helper()
	if Required() || !errors.Is(err, bmv2.ErrMissing) {
		t.Fatal(err)
	}
	t.Skip(err)
}

// Find finds the compiler and the switch. Without one of them, or without network namespaces, the test is
// skipped, or fails where they were asked for.
func Find(t testing.TB) bmv2.Tools {
	t.Helper()
	tools, err := bmv2.Find()
	if err != nil {
		Missing(t, err)
	}
	if err := netnstest.Available(); err != nil && Required() {
		t.Fatalf("BMv2 was asked for, which needs network namespaces (run as root): %v", err)
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
