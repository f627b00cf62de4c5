package bmv2test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/p4/bmv2"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	m.Run()
}

// ended is a test that notes how it ended.
type ended struct {
	testing.TB
	how string
}

func (e *ended) Helper() {}

func (e *ended) Fatal(args ...any) { e.end("failed: " + fmt.Sprint(args...)) }

func (e *ended) Skip(args ...any) { e.end("skipped: " + fmt.Sprint(args...)) }

func (e *ended) end(how string) {
	e.how = how
	runtime.Goexit()
}

// TestMissing: without the programs a test is skipped, and fails where they were asked for.
func TestMissing(t *testing.T) {
	t.Setenv("PATH", "")
	const message = "p4c-bm2-ss is not installed: put it on PATH, or its path into P4C_BM2\nsimple_switch is not installed: put it on PATH, or its path into SIMPLE_SWITCH"
	for _, c := range []struct{ variable, value, want string }{
		{RequireVariable, "", "skipped: " + message},
		{RequireVariable, "1", "failed: " + message},
		{bmv2.CompilerVariable, "/none/p4c-bm2-ss", "failed: p4c-bm2-ss is not installed: P4C_BM2 names /none/p4c-bm2-ss: exec: \"/none/p4c-bm2-ss\": stat /none/p4c-bm2-ss: no such file or directory\n" +
			"simple_switch is not installed: put it on PATH, or its path into SIMPLE_SWITCH"},
	} {
		t.Run(c.variable+"="+c.value, func(t *testing.T) {
			for _, name := range []string{RequireVariable, bmv2.CompilerVariable, bmv2.SwitchVariable} {
				t.Setenv(name, "")
			}
			t.Setenv(c.variable, c.value)
			e, done := &ended{TB: t}, make(chan struct{})
			go func() {
				defer close(done)
				Find(e)
			}()
			<-done
			if e.how != c.want {
				t.Errorf("the test %q, want %q", e.how, c.want)
			}
		})
	}
}
