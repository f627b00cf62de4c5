package vm

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

// archive writes an initial RAM filesystem: a cpio archive of the format "newc" (Documentation/driver-api/early-userspace/
// buffer-format.rst). The first error stays, and Close returns it.
type archive struct {
	file   *os.File
	out    *bufio.Writer
	offset int // bytes written
	inode  int
	err    error
}

// Modes of entries, as in stat.
const (
	modeDirectory = 0o40755
	modeProgram   = 0o100755
	modeCharacter = 0o20600
)

func newArchive(path string) (*archive, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &archive{file: file, out: bufio.NewWriter(file)}, nil
}

// entry writes the header of an entry, whose size bytes of data follow; major and minor are a device's.
func (a *archive) entry(name string, mode, size, major, minor int) {
	a.inode++
	// Magic, inode, mode, uid, gid, links, time, size, device twice, length of the name, checksum (none).
	a.text(fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		a.inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, len(name)+1, 0, name))
	a.pad()
}

func (a *archive) text(s string) {
	n, err := a.out.WriteString(s)
	a.offset += n
	if a.err == nil {
		a.err = err
	}
}

// pad fills to a multiple of 4 bytes.
func (a *archive) pad() { a.text("\x00\x00\x00"[:-a.offset&3]) }

func (a *archive) directory(name string) { a.entry(name, modeDirectory, 0, 0, 0) }

func (a *archive) device(name string, major, minor int) {
	a.entry(name, modeCharacter, 0, major, minor)
}

func (a *archive) bytes(name string, data []byte) {
	a.entry(name, modeProgram, len(data), 0, 0)
	a.text(string(data))
	a.pad()
}

// add copies a file of this machine.
func (a *archive) add(name, path string) {
	in, err := os.Open(path)
	if err != nil {
		a.err = err
		return
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		a.err = err
		return
	}
	a.entry(name, modeProgram, int(info.Size()), 0, 0)
	n, err := io.Copy(a.out, in)
	a.offset += int(n)
	if a.err == nil {
		a.err = err
	}
	a.pad()
}

// Close ends the archive.
func (a *archive) Close() error {
	a.entry("TRAILER!!!", 0, 0, 0, 0)
	if err := a.out.Flush(); a.err == nil {
		a.err = err
	}
	if err := a.file.Close(); a.err == nil {
		a.err = err
	}
	return a.err
}

// Programs are the static binaries that a guest runs.
type Programs struct{ Weir, Guest string }

// writeInitramfs writes what a guest boots from: the programs, the modules and the plan.
func writeInitramfs(path string, k *Kernel, programs Programs, plan []byte, modules []string) error {
	a, err := newArchive(path)
	if err != nil {
		return err
	}
	for _, dir := range []string{"dev", "proc", "sys", "run", "tmp", "bin", "modules", "root"} {
		a.directory(dir)
	}
	a.device("dev/console", 5, 1) // the standard output of /init
	a.add("init", programs.Guest)
	if programs.Weir != "" {
		a.add("bin/weir", programs.Weir)
	}
	a.bytes(PlanFile[1:], plan)
	for _, name := range modules {
		file, err := k.module(name)
		if err != nil {
			a.err = err
			break
		}
		a.add("modules/"+name+".ko.xz", file)
	}
	return a.Close()
}

// PlanFile is where a guest finds its [Plan] as JSON.
const PlanFile = "/plan.json"
