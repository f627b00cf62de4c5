package bmv2

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/process"
)

// A switch's sockets are in a directory whose name identifies who started it: a
// process that crashed cannot end its switches, so the next one does.
//
//	$TMPDIR/weir-bmv2-PID.START-N/{packets,notices,output,process}
const directoryPrefix = "weir-bmv2-"

var (
	directories atomic.Uint64
	sweepOnce   sync.Once
)

func newDirectory() (string, error) {
	self := process.Self()
	name := fmt.Sprintf("%s%d.%s-%d", directoryPrefix, self.PID, strconv.FormatUint(self.Start, 36), directories.Add(1))
	dir := filepath.Join(os.TempDir(), name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a directory for a switch's sockets: %w", err)
	}
	return dir, nil
}

// note writes down which process a directory's switch is.
func note(dir string, id process.ID) error {
	text, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "process"), text, 0o600)
}

// sweep ends switches whose starter has ended, and removes their directories, once in the life
// of a process. What it cannot understand belongs to somebody else.
func sweep() {
	sweepOnce.Do(func() {
		dirs, err := filepath.Glob(filepath.Join(os.TempDir(), directoryPrefix+"*"))
		if err != nil {
			return
		}
		for _, dir := range dirs {
			if starter, ok := starterOf(filepath.Base(dir)); ok && !starter.Alive() {
				if err := endOrphan(dir); err == nil {
					_ = os.RemoveAll(dir)
				}
			}
		}
	})
}

func starterOf(name string) (process.ID, bool) {
	who, _, ok := strings.Cut(strings.TrimPrefix(name, directoryPrefix), "-")
	pidText, startText, dotted := strings.Cut(who, ".")
	pid, pidErr := strconv.Atoi(pidText)
	start, startErr := strconv.ParseUint(startText, 36, 64)
	return process.ID{PID: pid, Start: start}, ok && dotted && pidErr == nil && startErr == nil
}

func endOrphan(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "process"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // it crashed before it started anything
	}
	var id process.ID
	if err == nil {
		err = json.Unmarshal(text, &id)
	}
	if err != nil {
		return err
	}
	if err := id.Signal(unix.SIGKILL); err != nil && !errors.Is(err, process.ErrGone) {
		return err
	}
	return nil
}
