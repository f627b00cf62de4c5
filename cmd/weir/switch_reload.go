package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
)

// reloadSwitch is the ExecReload= of a service: the running switch reads its file again, or, if it can be taken over and its program on disk was
// replaced, a process of this program takes it over with the file.
func reloadSwitch(cmd *cobra.Command, o switchOptions, c *config.Config) error {
	main, replaced, err := control.ProcessAt(c.Control.Socket)
	if err != nil {
		return fmt.Errorf("reload the switch of %s: %w", o.config, err)
	}
	if replaced && c.Control.Takeover {
		return succeed(cmd.Context(), o, main)
	}
	if replaced {
		fmt.Fprintf(cmd.ErrOrStderr(), "weir: warning: process %d runs the program that was replaced until the switch is started again, as control.takeover is not set\n", main)
	}
	ctl := ctlOptions{socket: c.Control.Socket, timeout: time.Minute}
	return ctl.change(cmd, false, func(ctx context.Context, c *control.Client) (*api.ChangeResponse, error) {
		return c.Reload(ctx, &api.ReloadRequest{})
	})
}

// succeed starts a process that takes the switch over from the service's main one, and waits until it forwards: then it is the main one. This process ends before it, as
// ExecReload= has to, so systemd is the new one's parent from the start, as of all that it starts: by that it learns of its end.
func succeed(ctx context.Context, o switchOptions, main int) error {
	if os.Getenv(notifyVariable) == "" {
		return usageError(errors.New("the program of the running switch was replaced, and --reload takes a switch over as ExecReload= of a service with NotifyAccess=exec alone: " +
			"\"systemctl daemon-reload\" reads a changed unit, and without systemd it is \"weir switch --takeover\""))
	}
	if of := os.Getenv(mainVariable); of != strconv.Itoa(main) {
		return fmt.Errorf("the switch is that of process %d, and the main one of this service is %q: the service does not run it: stop that process, and start the service", main, of)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	ready, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	next := exec.Command(program, "switch", "-c", o.config, "--takeover", "--report", o.report)
	next.Env = append(os.Environ(), readyVariable+"=3")
	next.Stdin, next.Stdout, next.Stderr, next.ExtraFiles = os.Stdin, os.Stdout, os.Stderr, []*os.File{theirs}
	next.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_PARENT}
	if err := errors.Join(next.Start(), theirs.Close()); err != nil {
		return fmt.Errorf("start this program to take the switch over: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Now()) })()
	said, err := io.ReadAll(ready)
	if err != nil {
		return fmt.Errorf("process %d takes the switch over from process %d, and was not waited for: %w", next.Process.Pid, main, err)
	}
	if string(said) != "ready\n" {
		return fmt.Errorf("process %d did not take the switch over from process %d, for the reason that it logged: "+
			"\"systemctl restart\" starts this program in any case, and \"weir ctl reload\" reads the configuration alone", next.Process.Pid, main)
	}
	return next.Process.Release()
}
