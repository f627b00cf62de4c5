package port

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/napi"
)

// busyDeferral is what a busy-polled interface gets. A round must outlast what
// a worker does between two polls, also when it is interrupted itself: once
// the kernel's own receive work has begun, it competes with the worker for the
// core. A sleeping worker is woken at the end of a round.
var busyDeferral = napi.Deferral{Rounds: 100, Flush: 2 * time.Millisecond}

// deferralFolder holds a file per interface whose deferral is ours, with what
// it was before: a switch that was killed cannot restore it, but the next one
// on the interface does.
const deferralFolder = "/run/weir/napi"

// deferral is a changed setting of an interface.
type deferral struct {
	device   *napi.Interface
	name     string
	file     string
	original napi.Deferral
}

// deferInterrupts changes an interface of the calling thread's namespace.
func deferInterrupts(name string) (_ *deferral, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("let the worker poll %s: %w: set busy_poll = 0 to do without", name, err)
		}
	}()
	device, err := napi.Open(name)
	if err != nil {
		return nil, err
	}
	d := &deferral{device: device, name: name}
	if err := d.begin(); err != nil {
		return nil, errors.Join(err, device.Close())
	}
	return d, nil
}

func (d *deferral) begin() (err error) {
	if d.original, err = d.device.Deferral(); err != nil {
		return err
	}
	var space unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &space); err != nil {
		return fmt.Errorf("identify the network namespace: %w", err)
	}
	d.file = filepath.Join(deferralFolder, fmt.Sprintf("%d-%s", space.Ino, d.name))
	if err := d.save(); err != nil {
		return err
	}
	if err := d.device.SetDeferral(busyDeferral); err != nil {
		return errors.Join(err, os.Remove(d.file))
	}
	return nil
}

// save writes the original down, unless a switch that was killed has left it.
func (d *deferral) save() error {
	text, err := os.ReadFile(d.file)
	if err == nil {
		return json.Unmarshal(text, &d.original)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(deferralFolder, 0o755); err != nil {
		return err
	}
	if text, err = json.Marshal(d.original); err != nil {
		return err
	}
	return os.WriteFile(d.file, text, 0o644)
}

// restore gives the interface its original setting, if it still exists. It may
// be called on any thread.
func (d *deferral) restore() error {
	err := d.device.SetDeferral(d.original)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // the interface is gone
	}
	if err != nil {
		return errors.Join(fmt.Errorf("restore the interrupts of %s: %w", d.name, err), d.device.Close())
	}
	return errors.Join(os.Remove(d.file), d.device.Close())
}
