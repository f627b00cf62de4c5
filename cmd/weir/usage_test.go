package main

import (
	"bytes"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/view/text"
)

// TestStaleSocket: the socket of a killed switch is none to choose.
func TestStaleSocket(t *testing.T) {
	dir := t.TempDir()
	listen := func(name string, killed bool) string {
		path := filepath.Join(dir, name+".sock")
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(!killed)
		t.Cleanup(func() { _ = l.Close() })
		if killed {
			_ = l.Close()
		}
		return path
	}
	dead, alive, second := listen("dead", true), listen("alive", false), listen("second", false)
	for _, tt := range []struct {
		found     []string
		path, err string
	}{
		{nil, "", "no switch has a control socket at the default path: start one"},
		{[]string{dead}, "", "no switch runs: dead ended without removing its control socket: start it again"},
		{[]string{dead, alive}, alive, ""},
		{[]string{alive, dead, second}, "", "there are several switches: choose one with --name, from alive, second"},
	} {
		path, err := chooseSocket(tt.found, nil)
		if path != tt.path || (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
			t.Errorf("%v: %q, %v, want %q, %s", tt.found, path, err, tt.path, tt.err)
		}
		if none := strings.HasPrefix(tt.err, "no switch"); none != errors.Is(err, errNoSwitch) {
			t.Errorf("%v: %v is errNoSwitch: %v", tt.found, err, !none)
		}
	}
}

// TestColours: where they are wanted, faults and titles have them, and columns stay as wide.
func TestColours(t *testing.T) {
	table := func() string {
		var b bytes.Buffer
		rows := text.NewTable("PORT", "~LINK", "!>DROPPED")
		rows.Row("p0", "up", 0)
		rows.Row("p1", "gone", 17)
		if err := rows.Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("CLICOLOR_FORCE", "")
	plain := table()
	if want := "PORT  LINK  DROPPED\np0    up          0\np1    gone       17\n"; plain != want {
		t.Errorf("got %q, want %q", plain, want)
	}
	t.Setenv("CLICOLOR_FORCE", "1")
	want := "\x1b[1mPORT\x1b[0m  \x1b[1mLINK\x1b[0m  \x1b[1mDROPPED\x1b[0m\np0    \x1b[32mup\x1b[0m          0\np1    \x1b[31mgone\x1b[0m       \x1b[31m17\x1b[0m\n"
	if got := table(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	t.Setenv("NO_COLOR", "1")
	if got := table(); got != plain {
		t.Errorf("with NO_COLOR: %q", got)
	}
}
