package forward

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/traffic"
)

// TestRoundTrip: a line goes to and fro between two cores, a core that is none is an error and no endless loop, and no thread keeps a
// binding.
func TestRoundTrip(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs two cores")
	}
	cores := defaultCores()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // as where a process may use one core alone
	ns, err := roundTrip(cores.Source, cores.Device)
	if err != nil || ns <= 0 {
		t.Errorf("%g ns, %v", ns, err)
	}
	t.Logf("%.0f ns", ns)
	for _, wrong := range [][2]int{{cores.Source, 1023}, {1023, cores.Device}} {
		if _, err := roundTrip(wrong[0], wrong[1]); err == nil || !strings.Contains(err.Error(), "round trip between cores") {
			t.Errorf("cores %v: %v", wrong, err)
		}
	}
	threads, err := traffic.Threads(unix.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range threads {
		s, err := readSchedule(id)
		if err != nil && !errors.Is(err, unix.ESRCH) || err == nil && s.cores.Count() < 2 {
			t.Errorf("thread %d is bound to %d cores, %v", id, s.cores.Count(), err)
		}
	}
}
