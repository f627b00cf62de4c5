package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/process"
)

// Root holds one run directory per lab.
const Root = "/run/weir/lab"

// Sentinels that commands branch on.
var (
	// ErrUp says that the lab is up, or that a crashed one has left something.
	ErrUp = errors.New("the lab is up")
	// ErrNotUp says that there is nothing of the lab.
	ErrNotUp = errors.New("the lab is not up")
	// ErrBusy says that another process is working on the lab now.
	ErrBusy = errors.New("another process is working on the lab")
)

// stateVersion is the version of the state file; others are refused.
const stateVersion = 1

// state is what the run directory says of a lab. It lists a thing before it is made,
// so that it never says too little.
type state struct {
	Version int         `json:"version"`
	Name    string      `json:"name"`
	File    string      `json:"file"`
	Creator process.ID  `json:"creator"`
	Began   time.Time   `json:"began"`
	Up      bool        `json:"up"`              // everything had been made, and every switch was ready
	Ended   bool        `json:"ended,omitempty"` // the switches were ended, as their run is over
	Page    string      `json:"page,omitempty"`  // address of the collector's page
	Nodes   []nodeState `json:"nodes"`
}

// nodeState is one namespace, and the switch that runs in it.
type nodeState struct {
	Name      string     `json:"name"`
	Kind      string     `json:"kind"`      // host, switch, bridge, relay, collector or forward
	Namespace string     `json:"namespace"` // empty: it has none
	Process   process.ID `json:"process"`   // zero: none, or it died before it was noted
}

// runs reports whether a process runs in the node, and reports reports whether that is a switch, or a relay, which
// reports what became of packets.
func (n *nodeState) runs() bool {
	return n.reports() || n.Kind == collectorName || n.Kind == forwardName
}
func (n *nodeState) reports() bool { return n.Kind == "switch" || n.Kind == "relay" }

// runDirectory is the lab's folder below [Root], held by one process at a time.
type runDirectory struct {
	path string
	lock *os.File
}

// directoryOf is the run directory of the lab of that name.
func directoryOf(name string) string { return filepath.Join(Root, name) }

// makeRunDirectory makes and locks the folder of a new lab.
func makeRunDirectory(name string) (*runDirectory, error) {
	if err := os.MkdirAll(Root, 0o755); errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("make the run directory: %w: a lab needs root", err)
	} else if err != nil {
		return nil, fmt.Errorf("make the run directory: %w", err)
	}
	path := directoryOf(name)
	if err := os.Mkdir(path, 0o755); errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("lab %s: %w, or a crashed one has left %s: take it down first", name, ErrUp, path)
	} else if err != nil {
		return nil, fmt.Errorf("make the run directory: %w", err)
	}
	return lockRunDirectory(name)
}

// lockRunDirectory locks the folder of a lab that exists.
func lockRunDirectory(name string) (*runDirectory, error) {
	path := directoryOf(name)
	// Not the folder itself: a listener of a socket in it may lock that.
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("lab %s: %w", name, ErrNotUp)
	}
	if err != nil {
		return nil, fmt.Errorf("open the run directory: %w", err)
	}
	if err := flock(lock); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("%w: wait for it, or end it", ErrBusy)
		}
		return nil, fmt.Errorf("lab %s: %w", name, err)
	}
	// Another process may have removed the folder between the two calls.
	if ours, err := lock.Stat(); err == nil {
		if now, err := os.Stat(lock.Name()); err == nil && os.SameFile(ours, now) {
			return &runDirectory{path, lock}, nil
		}
	}
	lock.Close()
	return nil, fmt.Errorf("lab %s: %w", name, ErrNotUp)
}

// lockPatience is how long a lock may be held by somebody who is about to end.
const lockPatience = time.Second

// flock locks a file. The kernel drops the lock with the last descriptor, also of a killed process; but one
// that was killed while it started a switch leaves a child with a copy, until that begins its program.
func flock(file *os.File) error {
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			return err
		}
	}
}

// unlock lets other processes at the lab.
func (d *runDirectory) unlock() { d.lock.Close() }

// remove deletes the folder, and the folders above it once they are empty.
func (d *runDirectory) remove() error {
	if err := os.RemoveAll(d.path); err != nil {
		return fmt.Errorf("remove the run directory: %w", err)
	}
	d.lock.Close()
	if os.Remove(Root) == nil { // fails while another lab is up
		_ = os.Remove(filepath.Dir(Root))
	}
	return nil
}

func (d *runDirectory) file(name string) string { return filepath.Join(d.path, name) }

// save writes the state; a crash leaves the old or the new one, never a half.
func (d *runDirectory) save(s *state) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = renameio.WriteFile(d.file("state.json"), text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("save the lab's state: %w", err)
	}
	return nil
}

// loadState reads the state of the lab of that name; no lock is needed. A folder without one, left
// by a crash right after its making, gives an empty state.
func loadState(name string) (*state, error) {
	s := &state{Version: stateVersion, Name: name}
	path := directoryOf(name)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("lab %s: %w", name, ErrNotUp)
	}
	text, err := os.ReadFile(filepath.Join(path, "state.json"))
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	if err == nil && s.Version != stateVersion {
		err = fmt.Errorf("version %d, want %d: use the program that made the lab", s.Version, stateVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of lab %s: %w", name, err)
	}
	return s, nil
}
