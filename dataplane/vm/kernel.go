package vm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// DirectoryVariable is the environment variable that names the folder that install.sh filled.
const DirectoryVariable = "WEIR_VM_DIR"

const defaultDirectory = "/var/cache/weir-vm"

// Kernel is what a virtual machine boots, and what runs it.
type Kernel struct {
	QEMU    string // path of the program
	Version string // as uname -r prints it
	Image   string // file
	Modules string // folder: kernel/drivers/...
}

// ErrMissing is why no virtual machine can run here.
var ErrMissing = errors.New("run dataplane/vm/install.sh as root")

// FindKernel finds QEMU and the kernel. The error is [ErrMissing] where install.sh has not been run.
func FindKernel() (*Kernel, error) {
	dir := os.Getenv(DirectoryVariable)
	if dir == "" {
		dir = defaultDirectory
	}
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrMissing)
	}
	version, err := os.ReadFile(filepath.Join(dir, "version"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrMissing)
	}
	return &Kernel{
		QEMU: qemu, Version: strings.TrimSpace(string(version)),
		Image: filepath.Join(dir, "vmlinuz"), Modules: filepath.Join(dir, "modules"),
	}, nil
}

// module finds the compressed file of a module by its name, as in "virtio_net".
func (k *Kernel) module(name string) (string, error) {
	found := ""
	err := filepath.WalkDir(filepath.Join(k.Modules, "kernel"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == name+".ko.xz" {
			found = path
			return filepath.SkipAll
		}
		return err
	})
	if err == nil && found == "" {
		err = fmt.Errorf("no module %[2]s in Linux %[1]s: name another one", k.Version, name)
	}
	return found, err
}
