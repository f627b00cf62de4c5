package vm

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// NICs of a machine: their positions, and the numbers in the last byte of their MAC addresses less 1. The first and second, third
// and fourth, fifth and sixth are the ends of a cable.
const (
	Host1 = iota
	PortA
	PortB
	Host2
	PortC
	PortD
	NICs
)

// MAC is the address of a NIC.
func MAC(nic int) string { return fmt.Sprintf("52:54:00:00:00:%02x", nic+1) }

// Machine is a virtual machine to be run.
type Machine struct {
	Kernel   *Kernel
	Programs Programs
	Plan     Plan
	// Device is QEMU's name of the NICs with their properties; empty: it has none.
	Device string
	// RootPort puts each NIC behind a PCI Express root port of its own.
	RootPort bool
	// Pairs is how many queue pairs each NIC has; above 1 the cables are multi-queue tap interfaces named vm0, vm1, ..., which the
	// caller has joined in pairs. 0 and 1: cables are within QEMU.
	Pairs int
	// Socket is that of a vhost-user back-end, for the one NIC of a machine with Plan.End, of virtio. QEMU connects to it, and
	// again within a second.
	Socket string
	// Monitor, if set, is where QEMU listens for QMP, and Incoming where it waits for the state of a machine that is to run on here, see
	// [Machine.Migrate]: paths of sockets.
	Monitor, Incoming string
	// Dir is an empty folder, for the initial RAM filesystem and the console's output.
	Dir string
}

// guestMemory is that of a machine with a Socket, in MiB.
const guestMemory = 256

// ConsoleFile is where the console's output goes.
func (m *Machine) ConsoleFile() string { return filepath.Join(m.Dir, "console") }

// MessagesFile is where QEMU's own messages go.
func (m *Machine) MessagesFile() string { return filepath.Join(m.Dir, "qemu") }

// Run runs the machine to its end, and calls each with every result. It ends the machine when ctx does.
func (m *Machine) Run(ctx context.Context, each func(Result)) error {
	plan, err := json.Marshal(m.Plan)
	if err != nil {
		return err
	}
	initramfs := filepath.Join(m.Dir, "initramfs")
	if err := writeInitramfs(initramfs, m.Kernel, m.Programs, plan, m.Plan.Modules); err != nil {
		return fmt.Errorf("write the initial RAM filesystem: %w", err)
	}
	results, serial, err := os.Pipe()
	if err != nil {
		return err
	}
	defer results.Close()
	qemu := exec.CommandContext(ctx, m.Kernel.QEMU, m.arguments(initramfs)...)
	qemu.ExtraFiles = []*os.File{serial} // descriptor 3
	messages, err := os.Create(m.MessagesFile())
	if err != nil {
		return err
	}
	defer messages.Close()
	qemu.Stdout, qemu.Stderr = messages, messages
	err = qemu.Start()
	serial.Close()
	if err != nil {
		return fmt.Errorf("start QEMU: %w", err)
	}
	lines := bufio.NewScanner(results)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r Result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("read a result of the guest: %q: %w", lines.Text(), err)
		}
		each(r)
	}
	if err := qemu.Wait(); err != nil {
		return fmt.Errorf("run QEMU: %w", err)
	}
	return nil
}

// arguments are those of QEMU.
func (m *Machine) arguments(initramfs string) []string {
	a := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-accel", "tcg,thread=multi", "-cpu", "max",
		"-kernel", m.Kernel.Image, "-initrd", initramfs,
		// A guest that panics reboots, which ends QEMU.
		"-append", "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off",
		"-serial", "file:" + m.ConsoleFile(), "-serial", "file:/proc/self/fd/3",
	}
	if m.Monitor != "" {
		a = append(a, "-qmp", "unix:"+m.Monitor+",server=on,wait=off")
	}
	if m.Incoming != "" {
		a = append(a, "-incoming", "unix:"+m.Incoming, "-S")
	}
	if m.Socket != "" {
		return append(a, "-smp", "1", "-m", fmt.Sprintf("%dM", guestMemory),
			// The back-end maps the guest's memory.
			"-object", fmt.Sprintf("memory-backend-memfd,id=memory,size=%dM,share=on", guestMemory), "-machine", "q35,memory-backend=memory",
			"-chardev", "socket,id=back-end,reconnect=1,path="+m.Socket, "-netdev", "vhost-user,id=n,chardev=back-end",
			"-device", m.Device+",netdev=n,romfile=,mac="+MAC(m.Plan.End.Number))
	}
	a = append(a, "-machine", "q35", "-smp", "2", "-m", "2048")
	if m.Device == "" {
		return a
	}
	for i := range NICs {
		n := strconv.Itoa(i)
		device := m.Device + ",netdev=n" + n + ",mac=" + MAC(i) + ",romfile="
		if m.RootPort {
			a = append(a, "-device", "pcie-root-port,id=r"+n+",chassis="+strconv.Itoa(i+1))
			device += ",bus=r" + n
		}
		netdev := "hubport,id=n" + n + ",hubid=" + strconv.Itoa(i/2)
		if m.Pairs > 1 {
			// Two vectors per queue pair, one for control, one for changes.
			netdev = fmt.Sprintf("tap,id=n%s,ifname=%s,queues=%d,script=no,downscript=no,vhost=off", n, tapName(i), m.Pairs)
			device += fmt.Sprintf(",mq=on,vectors=%d", 2*m.Pairs+2)
		}
		a = append(a, "-netdev", netdev, "-device", device)
	}
	return a
}

// tapName is the interface that is a NIC's cable, of NICs with several queues.
func tapName(nic int) string { return "vm" + strconv.Itoa(nic) }
