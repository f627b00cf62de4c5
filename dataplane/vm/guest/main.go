// Guest is the first program of a virtual machine of package vm. It loads the kernel's modules, runs the plan's
// tests, sends their results over the second serial port, and ends the machine.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/vm"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest is the first program of a virtual machine: run make vm-test")
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Println("guest:", err)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) // QEMU ends instead
}

func run() error {
	if err := mountAll(); err != nil {
		return err
	}
	serial, err := os.OpenFile("/dev/ttyS1", os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	if err := makeRaw(serial); err != nil {
		return fmt.Errorf("set up the serial port of results: %w", err)
	}
	results := json.NewEncoder(serial)
	report := func(r vm.Result) {
		fmt.Printf("guest: %s, %s: %s %s\n", r.Row, r.Test, r.Outcome, r.Text)
		_ = results.Encode(r) // a machine without that port ends by its deadline
	}
	if err := runPlan(report); err != nil {
		report(vm.Result{Outcome: vm.Failed, Text: err.Error()})
	}
	_, err = unix.IoctlGetInt(int(serial.Fd()), unix.TIOCOUTQ)
	return err
}

// makeRaw has the terminal driver leave newlines as they are.
func makeRaw(serial *os.File) error {
	state, err := unix.IoctlGetTermios(int(serial.Fd()), unix.TCGETS)
	if err != nil {
		return err
	}
	state.Oflag &^= unix.OPOST
	state.Lflag &^= unix.ECHO
	return unix.IoctlSetTermios(int(serial.Fd()), unix.TCSETS, state)
}

func runPlan(report func(vm.Result)) error {
	text, err := os.ReadFile(vm.PlanFile)
	if err != nil {
		return err
	}
	var plan vm.Plan
	if err := json.Unmarshal(text, &plan); err != nil {
		return err
	}
	for _, name := range plan.Modules {
		if err := loadModule(filepath.Join("/modules", name+".ko.xz")); err != nil {
			return fmt.Errorf("load the module %s: %w", name, err)
		}
	}
	if plan.End != nil {
		return runEnd(context.Background(), plan.End, report)
	}
	n, err := newNetwork(&plan)
	if err != nil {
		return err
	}
	for _, row := range plan.Rows {
		n.row(context.Background(), row, report)
	}
	return nil
}

// mountAll mounts what programs of a Linux machine expect, and sets their environment.
func mountAll() error {
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"},
	} {
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	// An emulated machine takes seconds to reset a device.
	return errors.Join(os.Setenv("PATH", "/bin"), os.Setenv("WEIR_STOP_WAIT", "2m"))
}

// loadModule has the kernel decompress and load a module.
func loadModule(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return unix.FinitModule(int(file.Fd()), "", unix.MODULE_INIT_COMPRESSED_FILE)
}
