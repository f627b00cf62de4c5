// Package testpmd runs DPDK's testpmd for tests: drivers of virtio-user and memif that none of us wrote, as sources, as sinks, or between a
// kernel's interface and a port.
package testpmd

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Config is what a testpmd does.
type Config struct {
	Dir       string   // for DPDK's own files
	HugePages string   // see HugePages
	Forward   string   // "io" joins devices 0 and 1, 2 and 3, and so on; "flowgen" sends by all of them
	Devices   []string // as in --vdev
	// Start starts the process; nil is exec.Cmd.Start.
	Start func(*exec.Cmd) error
}

// Process is a testpmd that was started. The test's end kills it.
type Process struct {
	Done <-chan struct{} // closed when it has ended
	Err  error           // how, and Text what it wrote: to be read behind Done
	Text bytes.Buffer

	t     testing.TB
	cmd   *exec.Cmd
	input io.WriteCloser
}

// Start starts a testpmd on one core.
func Start(t testing.TB, c Config) *Process {
	t.Helper()
	done := make(chan struct{})
	p := &Process{Done: done, t: t}
	arguments := []string{"--lcores", "0@0,1@0", "--no-pci", "--no-telemetry", "--single-file-segments", "-m", "128",
		"--huge-dir", c.HugePages, "--file-prefix", "weir"}
	for _, d := range c.Devices {
		arguments = append(arguments, "--vdev", d)
	}
	arguments = append(arguments, "--", "-i", "--auto-start", "--forward-mode="+c.Forward, "--nb-cores=1",
		"--no-mlockall", "--no-flush-rx", "--total-num-mbufs=8192")
	// DPDK's virtio-user writes to its socket without MSG_NOSIGNAL, also as it quits: where the other side has just gone, it would end by SIGPIPE.
	p.cmd = exec.Command("/bin/sh", append([]string{"-c", `trap "" PIPE; exec dpdk-testpmd "$@"`, "testpmd"}, arguments...)...)
	p.cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+c.Dir)
	p.cmd.Stdout, p.cmd.Stderr = &p.Text, &p.Text
	var err error
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	start := c.Start
	if start == nil {
		start = (*exec.Cmd).Start
	}
	if err := start(p.cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.Err = p.cmd.Wait()
		close(done)
	}()
	t.Cleanup(p.Kill)
	return p
}

// PID is its process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill kills it and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.Done
}

// Quit asks it to end. Who drives its peers goes on with that until Ended.
func (p *Process) Quit() {
	p.t.Helper()
	if _, err := io.WriteString(p.input, "quit\n"); err != nil {
		p.t.Fatal(err)
	}
}

// Ended reports whether it has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// Total is its own count of the packets of all devices, "RX" or "TX", of its last report.
func (p *Process) Total(what string) uint64 {
	p.t.Helper()
	all := regexp.MustCompile(what+`-packets: (\d+)`).FindAllSubmatch(p.Text.Bytes(), -1)
	if len(all) == 0 {
		p.t.Fatalf("testpmd reports nothing:\n%s", &p.Text)
	}
	n, err := strconv.ParseUint(string(all[len(all)-1][1]), 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// HugePages mounts huge pages for a testpmd, which go with the test, or skips it.
func HugePages(t testing.TB) (directory string) {
	t.Helper()
	if _, err := exec.LookPath("dpdk-testpmd"); err != nil {
		t.Skip("dpdk-testpmd is missing: apt-get install dpdk-dev")
	}
	if os.Geteuid() != 0 {
		t.Skip("huge pages and DPDK's files are root's")
	}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	const pages = 64
	free := regexp.MustCompile(`HugePages_Free: +(\d+)`).FindSubmatch(text)
	if free == nil {
		t.Skip("the kernel has no huge pages")
	}
	if n, err := strconv.Atoi(string(free[1])); err != nil || n < pages {
		t.Skipf("%s huge pages are free, and testpmd takes %d: sysctl vm.nr_hugepages=%d", free[1], pages, 2*pages)
	}
	directory = t.TempDir()
	if err := unix.Mount("none", directory, "hugetlbfs", 0, "pagesize=2M"); err != nil {
		t.Skipf("mount hugetlbfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(directory, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return directory
}
