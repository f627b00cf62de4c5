package nic

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/internal/socket"
)

// Folder holds a file per interface with changed settings.
const Folder = "/run/weir/nic"

// Change is a setting that was changed.
type Change struct {
	Name string `json:"name"`
	Was  string `json:"was"`
	Is   string `json:"is"`
}

// owner is the first line of a ledger: whose settings the others are.
type owner struct {
	Interface string `json:"interface"`
	Index     int    `json:"index"`
	Namespace uint64 `json:"namespace"` // inode; another namespace may get it later
	// Cookie is the namespace's number, which no other one gets until the machine starts again;
	// 0 before Linux 5.14.
	Cookie  uint64 `json:"cookie"`
	Process int    `json:"process"`
}

// ledger is an open, locked file. Lines are appended before a setting changes, and never rewritten: what a crash
// leaves at the end, without an end of line, was not followed by a change, and is overwritten.
type ledger struct {
	path    string
	file    *os.File
	length  int64 // of the complete lines, in bytes
	owner   owner
	entries []Change // in the order of the changes; one per setting
}

// errDamaged is a ledger that cannot be read.
var errDamaged = errors.New("damaged")

// heldError is a ledger that another process has locked.
type heldError struct {
	owner owner
	path  string
}

func (e *heldError) Error() string {
	h := Holder{Process: e.owner.Process, Name: "weir", Socket: socket.Bound(strconv.Itoa(e.owner.Process))}
	return fmt.Sprintf("%v is changing the settings of %s (%s): stop that switch first, or name another interface", &h, e.owner.Interface, e.path)
}

// here describes an interface of the calling thread's namespace, as the owner of a ledger.
func here(name string, index int) (owner, error) {
	o := owner{Interface: name, Index: index, Process: os.Getpid()}
	var s unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &s); err != nil {
		return o, fmt.Errorf("identify the network namespace: %w", err)
	}
	o.Namespace = s.Ino
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return o, fmt.Errorf("identify the network namespace: %w", err)
	}
	defer unix.Close(fd)
	if cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err == nil {
		o.Cookie = cookie
	}
	return o, nil
}

// prefix is that of the names of an interface's ledgers, whatever its name was.
func (o owner) prefix() string { return fmt.Sprintf("%d-%d-", o.Namespace, o.Index) }

// findLedger opens the ledger that a killed switch has left for an interface, which may have had another name
// then; nil if there is none. A ledger of a namespace that is gone is removed, and a damaged one is set
// aside: the error is errDamaged and says where.
func findLedger(o owner) (*ledger, error) {
	found, err := filepath.Glob(filepath.Join(Folder, o.prefix()+"*"))
	if err != nil {
		return nil, err
	}
	for _, path := range found {
		if strings.HasSuffix(path, damagedSuffix) {
			continue
		}
		l, err := openLedger(path, os.O_RDWR)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its switch has ended by itself
		}
		if err != nil {
			return nil, err
		}
		if l.owner.Cookie == o.Cookie {
			return l, nil
		}
		if err := l.remove(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// held reads what a ledger of an interface says, without a lock. left: no process has it.
func held(o owner) (changes []Change, left bool) {
	found, _ := filepath.Glob(filepath.Join(Folder, o.prefix()+"*"))
	for _, path := range found {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		l := &ledger{path: path, file: file}
		lock := wholeFile
		err = errors.Join(l.read(), unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &lock), file.Close())
		if err == nil && l.owner.Cookie == o.Cookie {
			return l.entries, lock.Type == unix.F_UNLCK
		}
	}
	return nil, false
}

// makeLedger makes the ledger of an interface that has none.
func makeLedger(o owner) (*ledger, error) {
	if err := os.MkdirAll(Folder, 0o755); err != nil {
		return nil, err
	}
	l, err := openLedger(filepath.Join(Folder, o.prefix()+o.Interface), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if l.owner.Index != 0 {
		return l, nil // somebody was here since findLedger, and was killed
	}
	l.owner = o
	if err := l.append(o); err != nil {
		return nil, errors.Join(err, l.remove())
	}
	return l, nil
}

// wholeFile is a lock that belongs to the open file, and so ends with the process. Others can see it without
// taking it, which flock(2) does not have.
var wholeFile = unix.Flock_t{Type: unix.F_WRLCK}

// openLedger opens and locks a file and reads it. The lock ends with the process that holds it.
func openLedger(path string, flags int) (*ledger, error) {
	for {
		file, err := os.OpenFile(path, flags, 0o644)
		if err != nil {
			return nil, err
		}
		l := &ledger{path: path, file: file}
		lock := wholeFile
		if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
			if errors.Is(err, unix.EAGAIN) {
				_ = l.read() // for the process
				err = &heldError{l.owner, path}
			}
			return nil, errors.Join(err, file.Close())
		}
		if !l.current() {
			_ = file.Close() // the one who had it has removed it
			continue
		}
		if err := l.read(); err != nil {
			return nil, errors.Join(l.setAside(err), file.Close())
		}
		return l, nil
	}
}

// current reports whether the file is still the one of its path.
func (l *ledger) current() bool {
	mine, err := l.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(l.path)
	return err == nil && os.SameFile(mine, there)
}

// read reads the file.
func (l *ledger) read() error {
	if _, err := l.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return l.parse(l.file)
}

// parse reads all complete lines. An empty ledger is that of a switch which was killed before it
// changed anything.
func (l *ledger) parse(r io.Reader) error {
	lines := bufio.NewReader(r)
	for n := 0; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		l.length += int64(len(line))
		if n == 0 {
			if err := json.Unmarshal(line, &l.owner); err != nil || l.owner.Index == 0 {
				return fmt.Errorf("%w: its first line names no interface", errDamaged)
			}
			continue
		}
		var c Change
		if err := json.Unmarshal(line, &c); err != nil || c.Name == "" {
			return fmt.Errorf("%w: its line %d is no change of a setting", errDamaged, n+1)
		}
		l.note(c)
	}
}

// note adds a change to the entries. One of a setting that was changed before, and was as we left it, keeps
// the original.
func (l *ledger) note(c Change) {
	for i := range l.entries {
		if e := &l.entries[i]; e.Name == c.Name {
			if e.Is != c.Was {
				e.Was = c.Was // the operator's
			}
			e.Is = c.Is
			return
		}
	}
	l.entries = append(l.entries, c)
}

const damagedSuffix = ".damaged"

// setAside takes a damaged ledger out of the way.
func (l *ledger) setAside(why error) error {
	if !errors.Is(why, errDamaged) {
		return why
	}
	aside := l.path + damagedSuffix
	if err := os.Rename(l.path, aside); err != nil {
		return fmt.Errorf("%s: %w, and it cannot be set aside: %w", l.path, why, err)
	}
	return fmt.Errorf("%s: %w: it is %s now; compare the interface's settings (ethtool -k, -l, -x) with what they should be, and remove it",
		l.path, why, aside)
}

// append writes a line.
func (l *ledger) append(v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		line = append(line, '\n')
		_, err = l.file.WriteAt(line, l.length)
	}
	if err != nil {
		return fmt.Errorf("note the settings of %s in %s: %w", l.owner.Interface, l.path, err)
	}
	l.length += int64(len(line))
	return nil
}

// add notes a change that is about to be made.
func (l *ledger) add(c Change) error {
	if err := l.append(c); err != nil {
		return err
	}
	l.note(c)
	return nil
}

// remove removes the file, whose settings are all put back.
func (l *ledger) remove() error { return errors.Join(os.Remove(l.path), l.file.Close()) }
