package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
)

// SessionNice reads and sets the nice value of a process's session as a whole. Where the kernel groups
// tasks by session (CONFIG_SCHED_AUTOGROUP, see sched(7)) nice values of threads count only within it,
// and this one beside other sessions. Without groups it does nothing.
func SessionNice(pid, nice int) (before int, err error) {
	path := fmt.Sprintf("/proc/%d/autogroup", pid)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err == nil && len(text) == 0 {
		return 0, nil // in no group
	}
	if err == nil {
		var group int
		if _, err = fmt.Sscanf(string(text), "/autogroup-%d nice %d", &group, &before); err == nil {
			err = os.WriteFile(path, strconv.AppendInt(nil, int64(nice), 10), 0)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("set the priority of the session of process %d: %w", pid, err)
	}
	return before, nil
}

// InFavouredSession calls f while this process's session is favoured beside all others, as far as the process
// may do that, and has the session as it was afterwards.
func InFavouredSession(f func() error) error {
	before, err := SessionNice(os.Getpid(), -20)
	if err != nil {
		return f() // noisier, not wrong
	}
	err = f()
	_, restoreErr := SessionNice(os.Getpid(), before)
	return errors.Join(err, restoreErr)
}
