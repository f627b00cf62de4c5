package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const weirProgram = "/bin/weir"

// How long a switch may take. The processor is emulated.
const (
	readyWait = 5 * time.Minute
	endWait   = 5 * time.Minute
)

// refusal is why a switch did not start, in its own words.
type refusal struct{ text string }

func (r refusal) Error() string { return r.text }

// switchProcess is a running switch.
type switchProcess struct {
	name     string
	command  *exec.Cmd
	log, out bytes.Buffer
	ended    chan struct{} // closed when command.Wait has returned
	status   error         // of command.Wait
}

// startSwitch starts a switch and waits until it forwards. The error is a [refusal] if the switch could not be set up.
func startSwitch(name, config string) (*switchProcess, error) {
	path := "/run/" + name + ".toml"
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, err
	}
	ready, child, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	s := &switchProcess{name: name, command: exec.Command(weirProgram, "switch", "-c", path, "--report", "json"), ended: make(chan struct{})}
	s.command.Stdout, s.command.Stderr = &s.out, &s.log
	s.command.ExtraFiles = []*os.File{child}
	s.command.Env = append(os.Environ(), "WEIR_READY_FD=3")
	err = s.command.Start()
	child.Close()
	if err != nil {
		return nil, err
	}
	go func() {
		s.status = s.command.Wait()
		close(s.ended)
	}()
	_ = ready.SetReadDeadline(time.Now().Add(readyWait))
	line, err := bufio.NewReader(ready).ReadString('\n')
	if strings.TrimSpace(line) == "ready" {
		return s, nil
	}
	if !errors.Is(err, io.EOF) {
		s.dump()
	}
	<-s.ended
	if s.command.ProcessState.ExitCode() == 2 {
		return nil, refusal{s.complaint()}
	}
	return nil, fmt.Errorf("switch %s: not ready (%w), %w: %s", name, err, s.status, s.tail())
}

// complaint is what the switch printed on why it did not start.
func (s *switchProcess) complaint() string {
	var lines []string
	for line := range strings.Lines(s.log.String()) {
		if text, ok := strings.CutPrefix(line, "weir: "); ok {
			lines = append(lines, strings.TrimSpace(text))
		}
	}
	return strings.Join(lines, "; ")
}

// tail is the end of the switch's log.
func (s *switchProcess) tail() string {
	lines := strings.Split(strings.TrimSpace(s.log.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], " | ")
}

// switchReport is what the guest reads of a switch's report.
type switchReport struct {
	Ports []struct {
		Name string `json:"name"`
		Mode string `json:"mode"`
	} `json:"ports"`
	Balanced bool `json:"balanced"`
	Frames   struct {
		Lost int `json:"lost"`
	} `json:"frames"`
}

// stop ends the switch by SIGTERM. It is an error if that does not end well: the counters add up, no frame is
// lost, and the audit found no wrong owner.
func (s *switchProcess) stop() (*switchReport, error) {
	fail := func(format string, args ...any) (*switchReport, error) {
		return nil, fmt.Errorf("switch %s: %s: %s", s.name, fmt.Sprintf(format, args...), s.tail())
	}
	_ = s.command.Process.Signal(unix.SIGTERM) // one that has ended is found below
	select {
	case <-s.ended:
	case <-time.After(endWait):
		s.dump()
		return fail("does not end at SIGTERM")
	}
	if s.status != nil {
		return fail("ended with %v, report %s", s.status, bytes.TrimSpace(s.out.Bytes()))
	}
	report := &switchReport{}
	if err := json.Unmarshal(s.out.Bytes(), report); err != nil {
		return fail("its report: %v", err)
	}
	if !report.Balanced || report.Frames.Lost != 0 {
		return fail("balanced %t, %d frames lost", report.Balanced, report.Frames.Lost)
	}
	return report, nil
}

// dump ends a switch that hangs, with its goroutines in its log and what its threads do in the kernel on the console.
func (s *switchProcess) dump() {
	stacks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stack", s.command.Process.Pid))
	for _, path := range stacks {
		text, _ := os.ReadFile(path)
		fmt.Printf("guest: %s:\n%s", path, text)
	}
	_ = s.command.Process.Signal(unix.SIGQUIT)
	select {
	case <-s.ended:
	case <-time.After(readyWait):
		s.kill()
	}
	fmt.Printf("guest: the log of %s, which hung:\n%s\n", s.name, s.log.String())
}

// kill ends the switch as nothing that it could prepare for.
func (s *switchProcess) kill() {
	_ = s.command.Process.Kill()
	<-s.ended
}

// weir runs a command of weir to its end and returns its standard output.
func weir(args ...string) ([]byte, error) {
	command := exec.Command(weirProgram, args...)
	var messages bytes.Buffer
	command.Stderr = &messages
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("weir %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(messages.Bytes()))
	}
	return out, err
}
