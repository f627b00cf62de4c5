package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a part that runs, or a collector. None outlives the measurement, in whatever way that ends.
type process struct {
	name     string
	cmd      *exec.Cmd
	in       io.WriteCloser
	ready    chan struct{} // closed when the part said so
	ended    chan struct{} // closed when the process has; err then says how
	expected atomic.Bool   // its end is no fault
	err      error
	log      string // file
}

// start starts the program with arguments; what it logs goes to a file.
func (r *run) start(name string, args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(r.config.Program, args...), ready: make(chan struct{}), ended: make(chan struct{}), log: filepath.Join(r.folder, name+".log")}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Stderr = log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// A terminal's interrupt is for the measurement alone, which then ends all.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // whose end sends the signal
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		if started <- err; err != nil {
			return
		}
		for s := bufio.NewScanner(out); s.Scan(); {
			if s.Text() == readyLine {
				close(p.ready)
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
		p.err = p.cmd.Wait()
		close(p.ended)
		if !p.expected.Load() {
			select {
			case r.died <- p:
			default: // one is enough
			}
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	r.processes = append(r.processes, p)
	return p, nil
}

// part starts a part of the measurement.
func (r *run) part(name string, p Part) (*process, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(r.folder, name+".json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	return r.start(name, "bench", "scale", "--live-part", file)
}

// awaitReady waits until parts are.
func (r *run) awaitReady(ctx context.Context, parts ...*process) error {
	for _, p := range parts {
		select {
		case <-p.ready:
		case <-p.ended:
			return p.fault()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// fault says how a process ended that should not have.
func (p *process) fault() error {
	text, _ := os.ReadFile(p.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	why := "without an error"
	if p.err != nil {
		why = p.err.Error()
	}
	return fmt.Errorf("%s has ended: %s: %s", p.name, why, lines[len(lines)-1])
}

// kill ends a process by SIGKILL.
func (p *process) kill() {
	p.expected.Store(true)
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// cpu is what a process has used of processors.
func (p *process) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, errors.New("/proc/PID/stat is of another form")
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * (time.Second / clockTicks), err
}

// clockTicks are those of a second in /proc, on all of Linux' architectures that Weir runs on.
const clockTicks = 100

// memory is the most memory that a process has had, in bytes.
func (p *process) memory() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if kb, found := strings.CutPrefix(line, "VmHWM:"); found {
			n, _ := strconv.ParseFloat(strings.Fields(kb)[0], 64)
			return n * 1024
		}
	}
	return 0
}
