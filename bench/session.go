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

// Favoured is the nice value of threads and sessions that take part in a measurement: whatever else runs on the machine gets about
// a hundredth of their cores. Tests, which run beside others and assert no figures, set it to 0.
var Favoured = -20

// FavourSession favours this process's session beside all others. restore undoes it.
func FavourSession() (restore func() error, err error) {
	before, err := SessionNice(os.Getpid(), Favoured)
	if before == Favoured {
		// Another measurement of the session, which may end first: the last one that ends must not leave the session so.
		before = 0
	}
	return func() error {
		_, err := SessionNice(os.Getpid(), before)
		return err
	}, err
}

// InFavouredSession calls f while this process's session is favoured, as far as the process
// may do that.
func InFavouredSession(f func() error) error {
	restore, err := FavourSession()
	if err != nil {
		return f() // noisier, not wrong
	}
	return errors.Join(f(), restore())
}
