package nic

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Share is what another process needs to put the settings of an interface back in this one's stead (Adopt), beside the ledger's file.
type Share struct {
	Queues  int       `json:"queues"`
	Ledger  string    `json:"ledger,omitempty"` // its path; empty: nothing was changed
	Refused []Refusal `json:"refused,omitempty"`
}

// Share describes the settings for another process. The file is the ledger's, whose lock is that of the open file; nil without one. It is
// the caller's.
func (h *Held) Share() (Share, *os.File, error) {
	s := Share{Queues: h.queues, Refused: h.Refused()}
	if h.ledger == nil {
		return s, nil, nil
	}
	s.Ledger = h.ledger.path
	fd, err := unix.FcntlInt(h.ledger.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return s, nil, fmt.Errorf("copy the descriptor of %s: %w", s.Ledger, err)
	}
	return s, os.NewFile(uintptr(fd), s.Ledger), nil
}

// Adopt makes the settings of an interface those of this process, as another one describes them that leaves (Leave). file is the
// ledger's, which becomes theirs also where Adopt fails; nil without one.
func Adopt(name string, s Share, file *os.File) (*Held, error) {
	d, err := open(name)
	if err != nil {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
		return nil, err
	}
	h := &Held{device: d, queues: s.Queues, refused: s.Refused}
	if file != nil {
		h.ledger = &ledger{path: s.Ledger, file: file}
		err = h.ledger.read()
	}
	if err == nil {
		h.owner, err = here(name, d.index)
	}
	if err == nil {
		h.found, err = d.look()
	}
	if err == nil && h.ledger != nil && h.ledger.owner.Index != d.index {
		err = fmt.Errorf("%s is of interface %d, and %s is interface %d", s.Ledger, h.ledger.owner.Index, name, d.index)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take over the settings of %s: %w", name, err), h.Leave())
	}
	return h, nil
}

// Leave is Release without putting anything back: another process does that, which has adopted the settings, or has them still.
func (h *Held) Leave() error {
	var errs []error
	if h.ledger != nil {
		errs = append(errs, h.ledger.file.Close())
		h.ledger = nil
	}
	return errors.Join(append(errs, h.device.close())...)
}
