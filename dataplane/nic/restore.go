package nic

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
)

// Restored is what Restore did with one ledger.
type Restored struct {
	Interface string `json:"interface"`
	// In both lists, Was is what the killed switch had set, and Is what it is now.
	Settings []Change `json:"settings"` // put back
	Stayed   []Change `json:"stayed"`   // changed by the operator since
	Note     string   `json:"note"`     // why nothing was put back
}

// Restore puts back what killed switches left on the interfaces of the calling thread's namespace, or on one of
// them. Settings that a running switch has are left alone, and so are those of other namespaces.
func Restore(name string) ([]Restored, error) {
	files, err := os.ReadDir(Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	space, err := here("", 0)
	if err != nil {
		return nil, err
	}
	var all []Restored
	var errs []error
	for _, f := range files {
		if strings.HasSuffix(f.Name(), damagedSuffix) {
			continue
		}
		r, err := restoreFile(filepath.Join(Folder, f.Name()), name, space)
		errs = append(errs, err)
		if r != nil {
			all = append(all, *r)
		}
	}
	return all, errors.Join(errs...)
}

// restoreFile does so for one ledger; the result is nil if it is of another interface than name.
func restoreFile(path, name string, space owner) (*Restored, error) {
	l, err := openLedger(path, os.O_RDWR)
	var busy *heldError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.As(err, &busy):
		if name != "" && name != busy.owner.Interface {
			return nil, nil
		}
		return &Restored{Interface: busy.owner.Interface, Note: fmt.Sprintf("the switch of process %d uses it", busy.owner.Process)}, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: run the command as root", err)
	case err != nil:
		return nil, err
	}
	r := &Restored{Interface: l.owner.Interface}
	link, missing := netlink.LinkByIndex(l.owner.Index)
	switch {
	case l.owner.Index == 0: // killed before it wrote a line
		return nil, l.remove()
	case l.owner.Namespace != space.Namespace:
		r.Note = fmt.Sprintf("it is in another network namespace (inode %d): run the command there, or remove %s if that is gone", l.owner.Namespace, path)
	case l.owner.Cookie != space.Cookie:
		r.Note = "its network namespace is gone"
		return r, l.remove()
	case missing == nil:
		r.Interface = link.Attrs().Name
	}
	if name != "" && name != r.Interface {
		return nil, l.file.Close()
	}
	if r.Note != "" {
		return r, l.file.Close()
	}
	if missing != nil {
		r.Note = "the interface is gone"
		return r, l.remove()
	}
	d, err := open(r.Interface)
	if err != nil {
		return r, errors.Join(err, l.file.Close())
	}
	h := &Held{device: d, owner: l.owner, ledger: l}
	err = h.Release()
	r.Settings, r.Stayed = h.put, h.stayed
	return r, err
}
