package forward

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/dataplane/lab/netns"
)

// How long a device under test may take to begin, and to end when it is killed: both take no time on a quiet machine.
const (
	startWait = 2 * time.Minute
	killWait  = 30 * time.Second
)

// child is a process of a device under test. It is killed when this process ends in any
// way.
type child struct {
	name  string
	log   string // path
	cmd   *exec.Cmd
	stdin *os.File      // write end; some programs run as long as it is open
	ended chan struct{} // closed when the process has ended; then err says how
	err   error
}

// startChild starts a program in a namespace, bound to cores, with its output in a file. The
// command may have its own standard output.
//
// Its death signal follows the thread that made it, not the process; so that thread, locked, does
// nothing else until the child ends.
func startChild(ns *netns.Namespace, cores unix.CPUSet, dir string, cmd *exec.Cmd) (*child, error) {
	c := &child{name: filepath.Base(cmd.Path), cmd: cmd, ended: make(chan struct{})}
	log, err := os.CreateTemp(dir, c.name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.log = log.Name()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	c.stdin = write
	cmd.Stdin, cmd.Stderr = read, log
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}

	started := make(chan error, 1)
	go func() {
		defer close(c.ended)
		err := ns.Do(func() error {
			err := bind(cores, cmd.Start)
			if started <- err; err != nil {
				return nil
			}
			c.err = cmd.Wait()
			return nil
		})
		if err != nil { // the namespace could not be entered, so nothing was started
			started <- err
		}
	}()
	if err := <-started; err != nil {
		write.Close()
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	// It has its own session, and no terminal's interrupt reaches it.
	if _, err := bench.SessionNice(cmd.Process.Pid, bench.Favoured); err != nil {
		return nil, errors.Join(err, c.end())
	}
	return c, nil
}

// bind calls f with the calling thread bound to cores and favoured, both of which a child inherits.
func bind(cores unix.CPUSet, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := readSchedule(0)
	if err != nil {
		return err
	}
	if err := (schedule{cores, bench.Favoured}).apply(0); err != nil {
		return err
	}
	return errors.Join(f(), before.apply(0))
}

// waitFor waits until ready says true, or the child ends, or time is up.
func (c *child) waitFor(what string, most time.Duration, ready func() bool) error {
	deadline := time.Now().Add(most)
	for !ready() {
		select {
		case <-c.ended:
			return fmt.Errorf("%s ended before %s (%v): %s", c.name, what, c.err, c.tail())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: no %s within %v: %s", c.name, what, most, c.tail())
		}
	}
	return nil
}

// printed reports whether the child has printed a text.
func (c *child) printed(text string) bool {
	log, err := os.ReadFile(c.log)
	return err == nil && bytes.Contains(log, []byte(text))
}

// tail is the end of what the child printed, on one line.
func (c *child) tail() string {
	log, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(lines[max(0, len(lines)-4):], " | ")
}

// stop ends the child as end does; that it has ended before is an error. Its exit status plays
// no part.
func (c *child) stop() error {
	select {
	case <-c.ended:
		c.stdin.Close()
		return fmt.Errorf("%s ended during the measurement (%v): %s", c.name, c.err, c.tail())
	default:
	}
	return c.end()
}

// end ends the child, if it runs, by SIGTERM, and by SIGKILL where that takes longer than killWait.
func (c *child) end() error {
	defer c.stdin.Close()
	for _, signal := range []os.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := c.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("end %s: %w", c.name, err)
		}
		select {
		case <-c.ended:
			return nil
		case <-time.After(killWait):
		}
	}
	return fmt.Errorf("%s does not end", c.name)
}
