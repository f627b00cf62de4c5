package netnstest

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/process"
)

var (
	sequence atomic.Uint64
	swept    sync.Map // prefix -> *sync.Once
)

// UniqueName returns a namespace name that no other call on this machine
// returns, begun with prefix and ended with label, which may be empty.
func UniqueName(prefix, label string) string {
	self := process.Self()
	name := fmt.Sprintf("%s-%d.%s-%d", prefix, self.PID, strconv.FormatUint(self.Start, 36), sequence.Add(1))
	if label != "" {
		name += "-" + label
	}
	return name
}

// Sweep removes namespaces of the prefix whose creator runs no more. It is done
// by the first [New] of each prefix.
func Sweep(t testing.TB, prefix string) {
	t.Helper()
	names, err := netns.List(prefix + "-")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if abandoned(name, prefix) {
			t.Logf("removing namespace %s, left behind by a test that crashed", name)
			if err := netns.Delete(name); err != nil {
				t.Log(err)
			}
		}
	}
}

func sweepOnce(t testing.TB, prefix string) {
	t.Helper()
	once, _ := swept.LoadOrStore(prefix, new(sync.Once))
	once.(*sync.Once).Do(func() { Sweep(t, prefix) })
}

// abandoned reports whether name is one of ours and its creator is gone. A name
// that is not understood belongs to somebody else.
func abandoned(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix+"-")
	if !ok {
		return false
	}
	creator, _, ok := strings.Cut(rest, "-")
	if !ok {
		return false
	}
	pidText, startText, ok := strings.Cut(creator, ".")
	if !ok {
		return false
	}
	pid, err := strconv.Atoi(pidText)
	if err != nil || pid <= 0 {
		return false
	}
	start, err := strconv.ParseUint(startText, 36, 64)
	if err != nil {
		return false
	}
	return !(process.ID{PID: pid, Start: start}).Alive()
}
