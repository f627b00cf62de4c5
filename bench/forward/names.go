package forward

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/process"
)

// prefix begins the names of all namespaces of this benchmark. The rest names their maker, so
// that a later run recognises what a crashed one has left.
const prefix = "wb"

var sequence atomic.Uint64

func namespaceName(role string) string {
	self := process.Self()
	return fmt.Sprintf("%s-%d.%s-%d-%s", prefix, self.PID, strconv.FormatUint(self.Start, 36), sequence.Add(1), role)
}

// sweep deletes the namespaces whose maker has ended. Its processes ended with it.
func sweep() error {
	names, err := netns.List(prefix + "-")
	if err != nil {
		return err
	}
	for _, name := range names {
		if id, ok := maker(name); ok && !id.Alive() {
			if err := netns.Delete(name); err != nil {
				return fmt.Errorf("remove what a crashed run has left: %w", err)
			}
		}
	}
	return nil
}

// maker takes the process from a namespace's name.
func maker(name string) (id process.ID, ok bool) {
	parts := strings.Split(name, "-")
	if len(parts) != 4 || parts[0] != prefix {
		return id, false
	}
	pid, start, ok := strings.Cut(parts[1], ".")
	if !ok {
		return id, false
	}
	var errPID, errStart error
	id.PID, errPID = strconv.Atoi(pid)
	id.Start, errStart = strconv.ParseUint(start, 36, 64)
	return id, errPID == nil && errStart == nil && id.PID > 0
}
