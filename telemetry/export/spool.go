package export

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/weirswitch/weir/telemetry/record"
)

// Config is the section [telemetry] of a switch's configuration.
type Config struct {
	// Spool is the folder to which records are written; empty: they are dropped.
	// Several switches may share it, each under its own name.
	Spool string `toml:"spool"`
	// SpoolBytes bounds the folder's files of this switch; beyond, the oldest
	// file goes.
	SpoolBytes int64 `toml:"spool_bytes"`
}

// DefaultConfig writes nothing; a spool is bounded to 256 MiB.
func DefaultConfig() Config { return Config{SpoolBytes: 256 << 20} }

// minSpool is the smallest bound: a full file and the one being written.
const minSpool = 1 << 20

// Validate reports all faults, each beginning with its key.
func (c *Config) Validate() error {
	if c.SpoolBytes < minSpool {
		return fmt.Errorf("spool_bytes = %d: choose at least %d", c.SpoolBytes, minSpool)
	}
	return nil
}

// files is into how many files a spool is divided: the share of it that goes
// at once when it is full.
const files = 16

// extension marks the spool's files.
const extension = ".records"

// Spool is a folder of files of records, NAME-NUMBER.records, the newest with
// the highest number. It belongs to one goroutine, but for Dropped.
type Spool struct {
	dir, name string
	limit     int64 // of a file
	total     int64
	kept      []spooled // oldest first, the one being written last
	file      *os.File  // nil after a fault that left a part of a record in it
	lock      *os.File
	next      uint64
	dropped   atomic.Uint64
}

type spooled struct {
	path string
	size int64
}

// OpenSpool opens the folder, and makes it if need be. Files of an earlier run
// stay, and count against the bound; empty ones go. A folder in which another
// process writes under the same name is refused: each would remove the other's files.
func OpenSpool(c Config, name string) (*Spool, error) {
	s := &Spool{dir: c.Spool, name: name, limit: c.SpoolBytes / files}
	if err := s.setUp(); err != nil {
		return nil, errors.Join(fmt.Errorf("telemetry.spool: %w", err), s.Close())
	}
	return s, nil
}

func (s *Spool) setUp() error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	if err := s.claim(); err != nil {
		return err
	}
	old, err := spoolFiles(s.dir, s.name)
	if err != nil {
		return err
	}
	for _, f := range old {
		info, err := os.Stat(f.path)
		if err != nil {
			return err
		}
		s.next = f.number + 1
		if info.Size() == 0 && os.Remove(f.path) == nil {
			continue
		}
		s.kept = append(s.kept, spooled{f.path, info.Size()})
		s.total += info.Size()
	}
	// A probe, so that a folder that cannot be written is known before packets run.
	return s.open()
}

// claim locks the name in the folder until Close or the process's end.
func (s *Spool) claim() error {
	path := filepath.Join(s.dir, s.name+".lock")
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("lock %s: %w: does a switch %q write here already? Choose another folder, or another switch.name", path, err, s.name), lock.Close())
	}
	s.lock = lock
	return nil
}

// Write implements Sink. A record that the disk does not take whole leaves no
// trace in the file.
func (s *Spool) Write(_ *record.Header, encoded []byte) error {
	if s.file == nil || s.current().size+int64(len(encoded)) > max(s.limit, int64(len(encoded))) {
		if err := s.open(); err != nil {
			return err
		}
	}
	cur := s.current()
	n, err := s.file.Write(encoded)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, s.takeBack(cur.size))
		}
		return err
	}
	cur.size += int64(n)
	s.total += int64(n)
	s.bound()
	return nil
}

// takeBack cuts the file to a size, at which it goes on. If it cannot, no more
// is written to it: a reader takes a part of a record for a file's end.
func (s *Spool) takeBack(size int64) error {
	err := s.file.Truncate(size)
	if err == nil {
		_, err = s.file.Seek(size, io.SeekStart)
	}
	if err != nil {
		err = errors.Join(err, s.file.Close())
		s.file = nil
	}
	return err
}

func (s *Spool) current() *spooled { return &s.kept[len(s.kept)-1] }

// open begins a new file, and makes the folder anew if somebody removed it.
func (s *Spool) open() error {
	path := filepath.Join(s.dir, fmt.Sprintf("%s-%08d%s", s.name, s.next, extension))
	const flags = os.O_CREATE | os.O_EXCL | os.O_WRONLY
	file, err := os.OpenFile(path, flags, 0o644)
	if errors.Is(err, os.ErrNotExist) && os.MkdirAll(s.dir, 0o755) == nil {
		file, err = os.OpenFile(path, flags, 0o644)
	}
	if errors.Is(err, os.ErrExist) {
		s.next++ // the next attempt takes another name
	}
	if err != nil {
		return err
	}
	s.next++
	if s.file != nil {
		err = s.file.Close()
	}
	s.file = file
	s.kept = append(s.kept, spooled{path: path})
	return err
}

// bound removes the oldest files while there is too much.
func (s *Spool) bound() {
	for s.total > s.limit*files && len(s.kept) > 1 {
		oldest := s.kept[0]
		if os.Remove(oldest.path) == nil {
			s.dropped.Add(1)
		}
		s.total -= oldest.size
		s.kept = s.kept[1:]
	}
}

// Dropped counts the files that went to make room. From anywhere.
func (s *Spool) Dropped() uint64 { return s.dropped.Load() }

// Close ends the file being written, and removes it if it is empty.
func (s *Spool) Close() error {
	var err error
	if s.file != nil {
		err = s.file.Close()
		s.file = nil
		if s.current().size == 0 {
			err = errors.Join(err, os.Remove(s.current().path))
			s.kept = s.kept[:len(s.kept)-1]
		}
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
		s.lock = nil
	}
	return err
}

type numbered struct {
	path   string
	name   string
	number uint64
}

// spoolFiles lists the files of a switch, of all switches if name is empty,
// oldest first.
func spoolFiles(dir, name string) ([]numbered, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []numbered
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), extension)
		dash := strings.LastIndexByte(base, '-')
		if !ok || dash < 0 || name != "" && base[:dash] != name {
			continue
		}
		if n, err := strconv.ParseUint(base[dash+1:], 10, 64); err == nil {
			found = append(found, numbered{filepath.Join(dir, e.Name()), base[:dash], n})
		}
	}
	slices.SortFunc(found, func(a, b numbered) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		if a.number < b.number {
			return -1
		}
		return 1
	})
	return found, nil
}

// ReadSpool calls f for every record in a folder, switch by switch in the order
// of writing. The record that a switch is writing just now may be cut off: it is
// left out. Anything else that cannot be read ends with an error that names the
// file.
func ReadSpool(dir string, f func(h record.Header, body []byte) error) error {
	found, err := spoolFiles(dir, "")
	if err != nil {
		return err
	}
	for _, file := range found {
		b, err := os.ReadFile(file.path)
		if errors.Is(err, os.ErrNotExist) {
			continue // went to make room
		}
		if err != nil {
			return err
		}
		for len(b) > 0 {
			h, body, rest, err := record.Decode(b)
			if errors.Is(err, record.ErrShort) {
				break
			}
			if err == nil {
				err = f(h, body)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", file.path, err)
			}
			b = rest
		}
	}
	return nil
}
