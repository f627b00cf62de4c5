package control

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProcessAt: the process that serves a socket is found by it.
func TestProcessAt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s1.sock")
	if _, _, err := ProcessAt(path); err == nil || !strings.Contains(err.Error(), "no switch answers at control.socket") {
		t.Errorf("without a socket: %v", err)
	}
	l, err := Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if process, replaced, err := ProcessAt(path); process != os.Getpid() || replaced || err != nil {
		t.Errorf("process %d, replaced %v, %v: this is process %d", process, replaced, err, os.Getpid())
	}
}
