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
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// files is into how many files a spool is divided: the share of it that goes
// at once when it is full.
const files = 16

// extension marks the spool's files.
const extension = ".records"

// Spool is a queue of records in a folder: files NAME-NUMBER.records, the newest
// with the highest number. One goroutine writes, and one takes, if there is a
// shipper; everything else may be called from anywhere.
type Spool struct {
	dir, name string
	lock      *os.File
	secret    jetstream.Secret // of the message ids

	mu     sync.Mutex // guards what follows; held for a system call or two
	limit  int64      // of a file
	total  int64      // bytes of all files
	kept   []*spooled // oldest first, the one being written last
	file   *os.File   // nil after a fault that left a part of a record in it
	failed bool       // the last record found no room
	next   uint64

	droppedFiles         uint64
	droppedBefore        []Drop // by earlier runs
	dropped              []Drop // by this one
	found, spooled, sent tallies
	stateChanged         bool

	// more is signalled when records may be taken.
	more chan struct{}
}

// spooled is one file. Records up to done are sent or dropped; those up to taken are
// the shipper's, and those up to size wait.
type spooled struct {
	path              string
	number            uint64
	size, taken, done int64
	rest              tallies // of what waits; its epochs may be those of the whole file
	gone              bool    // it is no longer kept: dropped, or done with
}

// OpenSpool opens the folder, and makes it if need be. Files of an earlier run
// stay, and count against the bound; empty ones go. A folder in which another
// process writes under the same name is refused: each would remove the other's files.
func OpenSpool(c Config, name string) (*Spool, error) {
	s := &Spool{dir: c.Spool, name: name, limit: c.SpoolBytes / files, more: make(chan struct{}, 1)}
	if err := s.setUp(); err != nil {
		return nil, errors.Join(fmt.Errorf("telemetry.spool: %w", err), s.Close())
	}
	return s, nil
}

// CheckSpool reports what keeps OpenSpool from making the folder, or from writing there. It makes nothing, and does not see whether
// another process writes there.
func (c *Config) CheckSpool() error {
	if c.Spool == "" {
		return nil
	}
	if err := safefile.MayMakeFolder(c.Spool); err != nil {
		return fmt.Errorf("telemetry.spool: %w: name a folder that can be made and written", err)
	}
	return nil
}

func (s *Spool) setUp() error {
	if err := makeFolder(s.dir); err != nil {
		return err
	}
	if err := s.claim(); err != nil {
		return err
	}
	if err := s.loadSecret(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.loadState()
	s.droppedBefore = st.Dropped
	old, err := spoolFiles(s.dir, s.name)
	if err != nil {
		return err
	}
	for _, f := range old {
		s.next = f.number + 1
		if err := s.find(f, st); err != nil {
			return err
		}
	}
	s.next = max(s.next, st.File)
	if st.Offset > 0 { // the state is of a file that is not there any more: a new one of its number would begin behind what is written into it
		s.next = max(s.next, st.File+1)
	}
	s.bound()
	// A probe, so that a folder that cannot be written is known before packets run.
	return s.open()
}

// find takes up a file of an earlier run.
func (s *Spool) find(f numbered, st state) error {
	file, err := safefile.OpenHere(f.path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	x := &spooled{path: f.path, number: f.number, size: info.Size()}
	if f.number < st.File || f.number == st.File && st.Offset >= x.size {
		x.done = x.size // a kill came before its removal
	} else if f.number == st.File {
		x.done = st.Offset
	}
	x.taken = x.done
	if x.done == x.size {
		return os.Remove(f.path)
	}
	end, err := walk(file, x.done, x.size, func(h *record.Header, length int) { x.rest.add(tallyOf(h, length)) })
	s.found.addAll(x.rest)
	if err != nil {
		s.cutOff(file, end, x.size, err)
	}
	x.size = end
	if x.done == x.size {
		s.stateChanged = true
		return os.Remove(f.path)
	}
	s.kept = append(s.kept, x)
	s.total += x.size
	return nil
}

// cutOff counts what is behind the last whole record of a file: one record that
// the kill of a switch left in part, or garbage, whose records cannot be counted.
func (s *Spool) cutOff(file io.ReaderAt, from, to int64, err error) {
	reason := DropUnreadable
	if errors.Is(err, record.ErrShort) {
		reason = DropCutOff
	}
	head := make([]byte, record.HeadLength)
	n, _ := file.ReadAt(head, from)
	h, _, err := record.Peek(head[:n])
	if err != nil {
		h = record.Header{}
		if n > 3 {
			h.Kind = record.Kind(head[3])
		}
	}
	t := tallyOf(&h, int(to-from))
	s.found.add(t)
	s.drop(reason, t)
}

// claim locks the name in the folder until Close or the process's end.
func (s *Spool) claim() error {
	path := filepath.Join(s.dir, s.name+".lock")
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
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
func (s *Spool) Write(h *record.Header, encoded []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.write(encoded)
	if s.failed = err != nil; s.failed {
		return err
	}
	t := tallyOf(h, len(encoded))
	s.spooled.add(t)
	s.current().rest.add(t)
	s.bound()
	select {
	case s.more <- struct{}{}:
	default:
	}
	return nil
}

func (s *Spool) write(encoded []byte) error {
	length := int64(len(encoded))
	s.retireSent()
	if s.file == nil || s.current().size+length > max(s.limit, length) {
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
	cur.size += length
	s.total += length
	return nil
}

// early is the size beyond which a file goes as soon as all of it is sent, though there would be
// room in it.
const early = 256 << 10

// retireSent removes the file being written if all of it is sent, and it is worth
// a new one, or the disk is full of it.
func (s *Spool) retireSent() {
	if s.file == nil {
		return
	}
	cur := s.current()
	if cur.done < cur.size || cur.size == 0 || cur.size < min(early, s.limit) && !s.failed {
		return
	}
	_ = s.file.Close()
	s.file = nil
	s.forgetIfDone(cur)
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

func (s *Spool) current() *spooled { return s.kept[len(s.kept)-1] }

// open begins a new file, and makes the folder anew if somebody removed it.
func (s *Spool) open() error {
	path := filepath.Join(s.dir, fmt.Sprintf("%s-%08d%s", s.name, s.next, extension))
	const flags = os.O_CREATE | os.O_EXCL | os.O_WRONLY
	file, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, os.ErrNotExist) && makeFolder(s.dir) == nil {
		file, err = os.OpenFile(path, flags, 0o600)
	}
	if errors.Is(err, os.ErrExist) {
		s.next++ // the next attempt takes another name
	}
	if err != nil {
		return err
	}
	number := s.next
	s.next++
	if s.file != nil {
		err = s.file.Close()
		s.file = nil
		s.forgetIfDone(s.current())
	}
	s.file = file
	s.kept = append(s.kept, &spooled{path: path, number: number})
	return err
}

// forgetIfDone removes a file that is not needed any more, and that is not being written.
func (s *Spool) forgetIfDone(x *spooled) {
	if x.done == x.size && !x.gone && (s.file == nil || x != s.current()) {
		s.forget(x)
	}
}

// forget removes a file and all memory of it.
func (s *Spool) forget(x *spooled) {
	x.gone = true
	s.total -= x.size
	s.kept = slices.DeleteFunc(s.kept, func(k *spooled) bool { return k == x })
	s.stateChanged = true
	_ = os.Remove(x.path) // who removed it before us did what we wanted
}

// bound removes the oldest files while there is too much. What waits in them is
// dropped; what the shipper took already is in flight.
func (s *Spool) bound() {
	for s.total > s.limit*files && len(s.kept) > 1 {
		s.dropRest(s.kept[0], DropFull)
		s.droppedFiles++
		s.stateChanged = true
		s.kept[0].done = s.kept[0].size
		_ = s.saveState() // before the removal, so that a kill between the two forgets nothing
		s.forget(s.kept[0])
	}
}

// dropRest drops what waits in a file.
func (s *Spool) dropRest(x *spooled, reason string) {
	rest := x.rest
	if x.taken > 0 {
		rest = x.exactRest()
	}
	for _, t := range rest {
		s.drop(reason, t)
	}
	x.rest = nil
}

// exactRest reads which epochs wait behind those that were taken; if it cannot, it
// counts those of the whole file.
func (x *spooled) exactRest() tallies {
	file, err := safefile.OpenHere(x.path)
	if err != nil {
		return x.rest
	}
	defer file.Close()
	var exact tallies
	_, _ = walk(file, x.taken, x.size, func(h *record.Header, length int) { exact.add(tallyOf(h, length)) })
	for _, t := range x.rest {
		if e := exact.of(t.Kind); e.Records != t.Records {
			return x.rest
		}
	}
	return exact
}

func (s *Spool) drop(reason string, t Tally) {
	if t.Records != 0 {
		s.dropped = mergeDrops(s.dropped, []Drop{{reason, t}})
		s.stateChanged = true
	}
}

// setBound changes the bound of a spool that is in use.
func (s *Spool) setBound(spoolBytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = spoolBytes / files
	s.bound()
}

// Folder is where the spool is.
func (s *Spool) Folder() string { return s.dir }

// Dropped counts the files that went to make room.
func (s *Spool) Dropped() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.droppedFiles
}

// Close ends the file being written, and removes it if nothing in it is needed.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.file != nil {
		err = s.file.Close()
		s.file = nil
		s.forgetIfDone(s.current())
	}
	if s.lock != nil {
		if s.dropped != nil || s.sent != nil {
			err = errors.Join(err, s.saveState())
		}
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

// maxSpoolFile bounds what is read of one file.
const maxSpoolFile = 1 << 40

// ownFile reports whether a name is one of a spool's files.
func ownFile(name string) bool {
	return slices.Contains([]string{extension, stateExtension, stateExtension + "-new", secretExtension, secretExtension + "-new", ".lock"}, filepath.Ext(name))
}

// makeFolder makes a spool's folder, for its owner alone: records say who talks to whom.
func makeFolder(dir string) error { return safefile.Folder(dir, ownFile) }

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
		b, err := safefile.ReadHere(file.path, maxSpoolFile)
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
