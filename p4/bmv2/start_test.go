package bmv2

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// emptyProgram is the file of a compiled program that has nothing.
func emptyProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program.json")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPortTaken: who listens at the Thrift port is not taken for the switch, and nothing is started.
func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ran := filepath.Join(t.TempDir(), "ran")
	binary := filepath.Join(t.TempDir(), "simple_switch")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\ntouch "+ran+"\nsleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = Start(context.Background(), Config{Binary: binary, Program: emptyProgram(t), ThriftPort: l.Addr().(*net.TCPAddr).Port})
	if err == nil || !strings.Contains(err.Error(), "is taken: choose another one with --thrift-port") {
		t.Errorf("Start: %v", err)
	}
	if _, err := os.Stat(ran); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the switch was started: %v", err)
	}
}

// TestErr: a switch that ended is remembered by its last words.
func TestErr(t *testing.T) {
	s := &Switch{dir: t.TempDir()}
	if err := os.WriteFile(s.socket("output"), []byte("1\n2\n3\nout of memory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Err(); err.Error() != "simple_switch has ended; it said: 2 | 3 | out of memory" {
		t.Error(err)
	}
}

// crowded is a namespace whose ports seem vacant at the first look.
type crowded struct {
	Namespace
	dialled bool
}

func (n *crowded) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if !n.dialled {
		n.dialled = true
		return nil, errors.New("connection refused")
	}
	return n.Namespace.Dial(ctx, network, address)
}

func (n *crowded) Start(c *exec.Cmd) error { return n.Namespace.Start(c) }

// TestTwoSwitches: a second switch at the same port does not write to the first one, also when both are started
// at once; at another port it runs.
func TestTwoSwitches(t *testing.T) {
	programs := tools(t)
	netnstest.Require(t)
	ctx, dir, ns := context.Background(), t.TempDir(), netnstest.New(t, "wbm")
	source, compiled := filepath.Join(dir, "program.p4"), filepath.Join(dir, "program.json")
	if err := os.WriteFile(source, []byte(reflector), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := programs.Compile(ctx, source, compiled); err != nil {
		t.Fatal(err)
	}
	c := Config{Binary: programs.Switch, Program: compiled, Namespace: ns}
	first, err := Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	stop := func(s *Switch) {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	defer stop(first)
	if err := first.Load("register_write seen 3 42"); err != nil {
		t.Fatal(err)
	}
	for _, there := range []Namespace{ns, &crowded{Namespace: ns}} {
		c.Namespace = there
		if s, err := Start(ctx, c); err == nil || !strings.Contains(err.Error(), "TCP port 9090 is taken") {
			t.Errorf("a second switch: %v", err)
			if err == nil {
				stop(s)
			}
		}
	}
	c.Namespace, c.ThriftPort = ns, 9091
	second, err := Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer stop(second)
	if err := second.Load("register_write seen 3 7"); err != nil {
		t.Fatal(err)
	}
	if seen, err := first.Registers("seen"); err != nil || !slices.Equal(seen[:5], []uint64{0, 0, 0, 42, 0}) {
		t.Errorf("register of the first switch: %v, %v", seen, err)
	}
}
