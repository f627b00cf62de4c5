package nic

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Refusal is a setting that could not be changed.
type Refusal struct {
	Name string `json:"name"`
	Why  string `json:"why"` // the reason, and what follows
}

// Held are the settings of an interface that a port has changed. Its methods may be called on any thread; Release
// once, when no one calls the others.
type Held struct {
	device  *device
	owner   owner
	ledger  *ledger // nil until something is changed
	killed  bool    // a switch was that had changed something
	moved   bool    // see Moved
	refused []Refusal
	found   *Interface
	queues  int
	put     []Change // back, see putBackOne
	stayed  []Change // as the operator has them; Was is what we had set
}

// Take gives an interface of the calling thread's namespace the settings that a port needs, before an XDP program is attached.
// Originals of settings that a killed switch has left are taken from its ledger; those that this port does not need are put
// back. A setting that cannot be changed is among Refused; it is an error only where the port would not work at all. Then, everything
// is as it was.
func Take(name string, c Config) (_ *Held, err error) {
	d, err := open(name)
	if err != nil {
		return nil, err
	}
	h := &Held{device: d}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Release())
		}
	}()
	if h.owner, err = here(name, d.index); err != nil {
		return nil, err
	}
	if h.ledger, err = findLedger(h.owner); err != nil {
		if !errors.Is(err, errDamaged) {
			return nil, err
		}
		h.refused = append(h.refused, Refusal{"ledger", err.Error()})
	}
	h.killed = h.ledger != nil
	if h.found, err = d.look(); err != nil {
		return nil, err
	}
	if h.found.Program != 0 {
		// That of a switch which had nothing to change, perhaps. Its queues and hash must stay as they are.
		return nil, AttachedError(d.name, h.found.Program, unix.EBUSY)
	}
	wishes := h.found.wishes(c)
	if err := h.putBackAllBut(wishes); err != nil {
		return nil, err
	}
	if r := h.found.addedQueues(c); r != nil {
		h.refused = append(h.refused, *r)
	}
	for i := range wishes {
		if err := h.grant(&wishes[i]); err != nil {
			return nil, err
		}
	}
	h.confirm(wishes)
	h.queues = h.found.Serve(c)
	if now, err := d.channels(d.name); err == nil && now.receive() != 0 && c.Queues == 0 {
		h.queues = min(h.queues, now.receive())
	}
	return h, h.tidy()
}

// Queues is how many receive queues the port is to serve. Where a Config named a number the interface
// may have fewer.
func (h *Held) Queues() int { return h.queues }

// Changed lists the settings that Release puts back.
func (h *Held) Changed() []Change {
	if h.ledger == nil {
		return nil
	}
	return slices.Clone(h.ledger.entries)
}

// Refused lists the settings that could not be changed.
func (h *Held) Refused() []Refusal { return slices.Clone(h.refused) }

// putBackAllBut puts back what a killed switch left and no wish wants.
func (h *Held) putBackAllBut(wishes []wish) error {
	if h.ledger == nil {
		return nil
	}
	wanted := func(s Setting) bool {
		return slices.ContainsFunc(wishes, func(w wish) bool { return w.setting == s || w.or != nil && w.or.setting == s })
	}
	return h.putBack(func(c Change) bool { return !wanted(Setting(c.Name)) })
}

// grant fulfils a wish, or its second choice, or notes the refusal.
func (h *Held) grant(w *wish) error {
	err := h.set(w.setting, w.value)
	switch {
	case err == nil:
		return nil
	case w.required:
		return fmt.Errorf("set %s of %s: %w: %s", w.setting, h.device.name, err, w.lacking)
	case w.or != nil && h.set(w.or.setting, w.or.value) == nil:
		return nil
	}
	h.refused = append(h.refused, Refusal{string(w.setting), reason(err) + ": " + w.lacking})
	return nil
}

// confirm sets again what another setting has changed back, or notes that: drivers join features, such as the tags of both kinds.
func (h *Held) confirm(wishes []wish) {
	for i := range wishes {
		w := &wishes[i]
		refused := slices.ContainsFunc(h.refused, func(r Refusal) bool { return r.Name == string(w.setting) })
		if w.or != nil || w.required || refused {
			continue
		}
		if err := h.set(w.setting, w.value); err != nil {
			h.refused = append(h.refused, Refusal{string(w.setting), "another setting has changed it back: " + w.lacking})
		}
	}
}

// reason says in words why a driver did not change a setting.
func reason(err error) string {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, errors.ErrUnsupported):
		return "the driver has no such setting"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "no privilege (CAP_NET_ADMIN)"
	case errors.Is(err, unix.EINVAL):
		return "the driver refuses the value"
	case errors.Is(err, unix.EBUSY):
		return "the device is busy"
	}
	return err.Error()
}

var errFixed = errors.New("the driver keeps it as it is")

// set gives a setting a value. If it cannot, the setting is as it was.
func (h *Held) set(s Setting, value string) error {
	now, err := h.device.read(s)
	if err != nil {
		return err
	}
	if now == value {
		return nil
	}
	if h.found.Features[string(s)].Fixed {
		return errFixed
	}
	if h.ledger == nil {
		if h.ledger, err = makeLedger(h.owner); err != nil {
			return err
		}
	}
	if err := h.ledger.add(Change{string(s), now, value}); err != nil {
		return err
	}
	err = h.device.write(s, value)
	for try := 0; h.killed && s == Channels && try < socketTries && errors.Is(err, unix.EINVAL); try++ {
		time.Sleep(socketPause) // its sockets
		err = h.device.write(s, value)
	}
	is, readErr := h.device.read(s)
	switch {
	case err == nil && readErr != nil:
		err = readErr
	case err == nil && is != value:
		err = errFixed
	}
	if err == nil {
		return nil
	}
	if readErr == nil && is != now {
		readErr = h.device.write(s, now)
	}
	// The driver may have changed a part.
	return errors.Join(err, readErr, h.ledger.add(Change{string(s), value, now}))
}

// putBack puts back the settings that match, the last one first, if they are as we left them. What is
// put back, or the operator has changed since, is not among the entries any more.
func (h *Held) putBack(match func(Change) bool) error {
	var errs []error
	var left []Change
	for _, c := range slices.Backward(h.ledger.entries) {
		if !match(c) {
			left = append(left, c)
			continue
		}
		if err := h.putBackOne(c); err != nil {
			errs = append(errs, fmt.Errorf("put %s of %s back to %q: %w: %s", c.Name, h.device.name, c.Was, err, h.remedy(err)))
			left = append(left, c)
		}
	}
	slices.Reverse(left)
	h.ledger.entries = left
	return errors.Join(errs...)
}

// remedy is for a setting that could not be put back.
func (h *Held) remedy(err error) string {
	if errors.Is(err, fs.ErrPermission) { // given up with control.keep_capabilities = false
		return "run weir nic restore " + h.device.name + " as root"
	}
	return "set it by hand (ethtool), and remove " + h.ledger.path
}

// The kernel takes queues from an AF_XDP socket some time after the socket was closed
// (xp_release_deferred in net/xdp/xsk_buff_pool.c); until then it refuses to remove them.
const (
	socketTries = 100
	socketPause = 20 * time.Millisecond
)

func (h *Held) putBackOne(c Change) error {
	s := Setting(c.Name)
	now, err := h.device.read(s)
	switch {
	case err != nil || c.Was == c.Is:
		return err
	case now == c.Was:
		return nil // killed between the line and the change
	case now != c.Is:
		h.stayed = append(h.stayed, Change{c.Name, c.Is, now})
		return nil
	}
	err = h.device.write(s, c.Was)
	for try := 0; s == Channels && try < socketTries && errors.Is(err, unix.EINVAL); try++ {
		time.Sleep(socketPause)
		err = h.device.write(s, c.Was)
	}
	if err != nil {
		return err
	}
	if now, err = h.device.read(s); err == nil && now != c.Was {
		err = fmt.Errorf("%w (%q)", errFixed, now)
	}
	if err == nil {
		h.put = append(h.put, Change{c.Name, c.Is, c.Was})
	}
	return err
}

// tidy removes a ledger without a change in it.
func (h *Held) tidy() error {
	if h.ledger == nil {
		return nil
	}
	h.ledger.entries = slices.DeleteFunc(h.ledger.entries, func(c Change) bool { return c.Was == c.Is })
	if len(h.ledger.entries) != 0 {
		return nil
	}
	l := h.ledger
	h.ledger = nil
	return l.remove()
}

// Moved records that the interface is in another network namespace now, where Release does not reach it.
func (h *Held) Moved() { h.moved = true }

// Release puts back what was changed, if the interface still exists: after the XDP program is detached and the sockets are closed. What
// cannot be put back stays in the ledger, but for that of an interface that was moved: the error names its settings.
func (h *Held) Release() error {
	err := h.release()
	return errors.Join(err, h.device.close())
}

func (h *Held) release() error {
	if h.ledger == nil {
		return nil
	}
	err := h.device.find()
	if err == nil {
		err = h.putBack(func(Change) bool { return true })
	}
	missing := errors.Is(h.device.find(), ErrMissing)
	if missing && h.moved {
		return errors.Join(h.elsewhere(), h.ledger.remove())
	}
	if err == nil || missing {
		return h.ledger.remove()
	}
	return errors.Join(err, h.ledger.file.Close())
}

// elsewhere is the error that names the settings of an interface that was moved.
func (h *Held) elsewhere() error {
	var left []string
	for _, c := range h.ledger.entries {
		left = append(left, fmt.Sprintf("%s = %s (was %s)", c.Name, Short(c.Is), Short(c.Was)))
	}
	return fmt.Errorf("%s was moved to another network namespace with settings of the switch: %s: set them back there (ethtool)",
		h.device.name, strings.Join(left, ", "))
}
