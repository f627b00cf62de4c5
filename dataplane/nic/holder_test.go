package nic

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRemedyUnseen: a user who may not see whose program it is is not advised to remove it, which may be a running switch's.
func TestRemedyUnseen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it becomes another user")
	}
	remedy := make(chan string)
	for _, user := range []int{0, 65534} {
		go func() {
			runtime.LockOSThread() // for good: the thread is of another user then, and ends with the goroutine
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(user), uintptr(user), uintptr(user)); errno != 0 {
				remedy <- errno.Error()
				return
			}
			remedy <- (*Holder)(nil).Remedy("p0")
		}()
		got := <-remedy
		if unseen := user != 0; strings.Contains(got, "xdp off") == unseen || strings.Contains(got, "run this as root to see") != unseen {
			t.Errorf("user %d: %s", user, got)
		}
	}
}
