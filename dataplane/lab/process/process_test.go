package process

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	tail := " 1 1 1 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 "
	for _, test := range []struct {
		stat, state string
		start       uint64
		ok          bool
	}{
		{"12 (sh) S" + tail + "777 1 2", "S", 777, true},
		{"12 (a) b) (c) R" + tail + "8 1", "R", 8, true},
		{"12 () Z" + tail + "9", "Z", 9, true},
		{"12 (sh) S" + tail + "x", "", 0, false},
		{"12 (sh) S 1 2 3", "", 0, false},
		{"", "", 0, false},
	} {
		state, start, err := parseStat(test.stat)
		if (err == nil) != test.ok || test.ok && (state != test.state || start != test.start) {
			t.Errorf("parseStat(%q) = %q, %d, %v", test.stat, state, start, err)
		}
	}
}

func TestLifeOfAProcess(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "read x")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := Of(cmd.Process.Pid)
	if err != nil || !id.Alive() {
		t.Fatalf("Of = %v, %v", id, err)
	}
	stranger := ID{id.PID, id.Start + 1}
	if stranger.Alive() {
		t.Error("a pid with another start time is alive")
	}
	if err := stranger.Signal(unix.SIGKILL); !errors.Is(err, ErrGone) {
		t.Errorf("Signal of a reused pid: %v, want ErrGone", err)
	}
	if ended, err := id.Wait(0); ended || err != nil {
		t.Errorf("Wait of a running process = %t, %v", ended, err)
	}
	if err := id.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// Not waited for yet: a zombie counts as gone.
	if ended, err := id.Wait(2 * time.Minute); !ended || err != nil {
		t.Errorf("Wait after SIGKILL = %t, %v", ended, err)
	}
	if id.Alive() {
		t.Error("a zombie counts as alive")
	}
	_ = cmd.Wait()
	if err := id.Signal(unix.SIGTERM); !errors.Is(err, ErrGone) {
		t.Errorf("Signal of an ended process: %v, want ErrGone", err)
	}
	if !Self().Alive() || (ID{}).Alive() {
		t.Error("Self is not alive, or the zero ID is")
	}
}
