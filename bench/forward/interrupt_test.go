package forward

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// TestInterrupted: a measurement of our devices that is interrupted ends with the visits that were complete, and its name says so.
func TestInterrupted(t *testing.T) {
	netnstest.Require(t)
	for complete := range 2 {
		ctx, interrupt := context.WithCancel(context.Background())
		c := DefaultConfig()
		c.Quick()
		c.Weir = []string{"/bin/false"} // not used by the bridge
		c.Devices, c.Sizes, c.Rounds, c.Trial, c.Searches = []string{"bridge"}, []string{"64"}, 3, 20*time.Millisecond, false
		c.Progress = func(done, _ int, _ string) {
			if done == complete {
				interrupt()
			}
		}
		result, err := Run(ctx, c)
		interrupt()
		if !errors.Is(err, context.Canceled) || (result == nil) != (complete == 0) {
			t.Fatalf("after %d: %+v, %v", complete, result, err)
		}
		if result == nil {
			continue
		}
		if row, ok := result.Row("bridge.64B.mrr"); !ok || row.Value <= 0 || !strings.HasSuffix(result.Name, ", INCOMPLETE: interrupted after 1 of 3 visits of a device") {
			t.Errorf("%+v", result)
		}
	}
}
