package progress

import (
	"strings"
	"testing"
	"time"
)

// lineWriter passes on what is written.
type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

// TestLines: without a terminal, a line says again and again where a measurement is, and none
// comes once it has ended.
func TestLines(t *testing.T) {
	w := make(lineWriter)
	report, stop := lines(w, "paper/x", time.Millisecond)
	if line := <-w; !strings.HasPrefix(line, "paper/x: begins, after ") || !strings.HasSuffix(line, "\n") {
		t.Errorf("%q", line)
	}
	report(3, 40, "nwps")
	want := "paper/x: 3 of 40 steps, now nwps, after "
	for range 2 {
		if line := <-w; !strings.HasPrefix(line, want) && !strings.HasPrefix(<-w, want) { // one line may be in flight
			t.Errorf("%q", line)
		}
	}
	stopped := make(chan struct{})
	go func() {
		stop()
		close(stopped)
	}()
	for {
		select {
		case <-w:
			continue
		case <-stopped:
		}
		break
	}
	report(40, 40, "") // a late report does not block
	select {
	case line := <-w:
		t.Errorf("%q after the end", line)
	default:
	}
}
