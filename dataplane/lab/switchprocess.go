package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/process"
	"golang.org/x/sys/unix"
)

// readyVariable names, to a switch, the descriptor on which it writes the line
// "ready" as soon as it forwards.
const readyVariable = "WEIR_READY_FD"

// How long a switch may take.
const (
	readyWait   = 2 * time.Minute // seconds on a quiet machine
	compileWait = 3 * time.Minute // of a P4 program, on a busy machine
	killWait    = 5 * time.Minute // the kernel closes a killed process's files before it ends: sockets and XDP programs wait for its locks
)

// stopVariable is the environment's variable that says how long a weir may take to end by itself, 5 s without it: too short for its last records where
// all switches of a lab end at once on few cores.
const (
	stopVariable = "WEIR_STOP_WAIT"
	stopWait     = "50s" // below termWait
)

// termWait is the time from SIGTERM to SIGKILL, well above what a switch waits for its records. Tests shorten it.
var termWait = time.Minute

// switchProcess is a switch that this process has started. Another process that takes
// the lab down knows it by its [process.ID] only.
type switchProcess struct {
	name  string
	id    process.ID
	ended chan struct{} // closed when command.Wait has returned
	state *os.ProcessState
	ready *os.File // read end of the readiness pipe
	// patience is how long waitReady waits; 0: readyWait.
	patience time.Duration
}

func configPath(dir, name string) string { return filepath.Join(dir, name+".toml") }
func logPath(dir, name string) string    { return filepath.Join(dir, name+".log") }
func outputPath(dir, name string) string { return filepath.Join(dir, name+".out") }

// startSwitch starts a switch in its namespace, in its own session, so that neither an
// interrupt at the terminal nor the end of this process reaches it. Its log goes to NAME.log,
// its report to NAME.out.
func startSwitch(ns *netns.Namespace, command []string, dir, name string) (*switchProcess, error) {
	return startProcess(ns, append(command[:len(command):len(command)], "-c", configPath(dir, name), "--report", "json"), dir, name)
}

// firstExtra is the descriptor of the first file that startProcess passes on.
const firstExtra = 4

// startProcess starts a program with a switch's contract: it reports when it is ready, and ends at SIGTERM.
func startProcess(ns *netns.Namespace, command []string, dir, name string, files ...*os.File) (*switchProcess, error) {
	fail := func(err error) (*switchProcess, error) { return nil, fmt.Errorf("start %s: %w", name, err) }
	out, err := os.Create(outputPath(dir, name))
	if err != nil {
		return fail(err)
	}
	defer out.Close()
	log, err := os.Create(logPath(dir, name))
	if err != nil {
		return fail(err)
	}
	defer log.Close()
	ready, child, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	defer child.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = out, log
	cmd.ExtraFiles = append([]*os.File{child}, files...) // becomes descriptor 3, and firstExtra on
	cmd.Env = environment(os.Environ())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := ns.Start(cmd); err != nil {
		ready.Close()
		return fail(err)
	}
	s := &switchProcess{name: name, ended: make(chan struct{}), ready: ready}
	// Taken before Wait can reap the child, so the identity is the child's.
	s.id, err = process.Of(cmd.Process.Pid)
	go func() {
		_ = cmd.Wait()
		s.state = cmd.ProcessState
		close(s.ended)
	}()
	if err != nil && !errors.Is(err, process.ErrGone) {
		_ = cmd.Process.Kill()
		ready.Close()
		return fail(err)
	}
	return s, nil
}

// environment is what a switch gets of the lab's: another value of stopVariable stays.
func environment(of []string) []string {
	return append([]string{stopVariable + "=" + stopWait}, append(of, readyVariable+"=3")...)
}

// waitReady waits for the switch's line "ready".
func (s *switchProcess) waitReady(ctx context.Context, dir string) error {
	defer s.ready.Close()
	patience := s.patience
	if patience == 0 {
		patience = readyWait
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.ready.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := bufio.NewReader(s.ready).ReadString('\n')
	if strings.TrimSpace(line) == "ready" {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("wait for %s to be ready: %w; its log ends: %s", s.name, ctx.Err(), tail(logPath(dir, s.name)))
	}
	if errors.Is(err, io.EOF) {
		// The pipe is closed with the process; its status says more.
		select {
		case <-s.ended:
			return fmt.Errorf("%s has ended before it was ready (%s): %s", s.name, s.state, tail(logPath(dir, s.name)))
		case <-time.After(time.Second):
		}
	}
	return fmt.Errorf("%s does not say that it is ready (%q, %w)", s.name, line, err)
}

// Exit says how a switch ended.
type Exit struct {
	// Status is "exit status 0" and the like; "unknown" if the switch was no child
	// of this process; "died" if it was gone before it was asked.
	Status string `json:"status"`
	Clean  bool   `json:"clean"`  // it ended at SIGTERM, and with status 0 where that is known
	Killed bool   `json:"killed"` // it had to be killed
}

// stopProcess ends a switch by SIGTERM, and by SIGKILL if it takes too long.
func stopProcess(id process.ID) (Exit, error) {
	exit := Exit{Status: "unknown"}
	err := id.Signal(unix.SIGTERM)
	if errors.Is(err, process.ErrGone) {
		exit.Status = "died"
		return exit, nil
	}
	if err != nil {
		return exit, err
	}
	ended, err := id.Wait(termWait)
	if err != nil || ended {
		exit.Clean = err == nil
		return exit, err
	}
	exit.Killed = true
	if err := id.Signal(unix.SIGKILL); err != nil && !errors.Is(err, process.ErrGone) {
		return exit, err
	}
	if ended, err = id.Wait(killWait); err == nil && !ended {
		err = fmt.Errorf("process %d does not end at SIGKILL", id.PID)
	}
	return exit, err
}

// stop ends a child, and knows its exit status.
func (s *switchProcess) stop() (Exit, error) {
	died := false
	select {
	case <-s.ended:
		died = true
	default:
	}
	exit, err := stopProcess(s.id)
	if err != nil {
		return exit, err
	}
	select {
	case <-s.ended:
		exit.Status = s.state.String()
		exit.Clean = !died && !exit.Killed && s.state.Success()
	case <-time.After(killWait):
	}
	if died {
		exit.Status = "died: " + exit.Status
	}
	return exit, nil
}

// orphans finds switches of a run directory that its state does not name: the lab was killed
// between a start and its note. They are known by the configuration file in their arguments.
func orphans(dir string) (list []process.ID) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	mark := []byte("\x00-c\x00" + dir + "/")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		id, err := process.Of(pid)
		if err != nil {
			continue
		}
		if arguments, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")); err == nil && bytes.Contains(arguments, mark) {
			list = append(list, id)
		}
	}
	return list
}

// readReport takes the report from a switch's standard output: its last line.
func readReport(path string) (*SwitchReport, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a switch's report: %w", err)
	}
	text = bytes.TrimSpace(text)
	line := text[bytes.LastIndexByte(text, '\n')+1:]
	if len(line) == 0 {
		return nil, errors.New("it printed no report")
	}
	r := &SwitchReport{Raw: json.RawMessage(line)}
	if err := json.Unmarshal(line, r); err != nil {
		return nil, fmt.Errorf("read a switch's report: %w", err)
	}
	return r, nil
}

// tail is the end of a log, on one line.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
}
