package port

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// Takeable is a Port that another process can go on with (weir switch --takeover). In this order:
//
//	the process that has the port          the process that takes it over
//	Share, while packets flow         ──>  a port of the share; Open of its queues: nothing is received or sent
//	the workers rest
//	AppendState of each queue         ──>  Enter of each queue
//	Leave                                  Entered, once workers use the queues
//	Close, which leaves all as it is
//
// Until Leave the first process goes on if the second fails, whose Close leaves all as it is, too.
type Takeable interface {
	Port
	// Share describes the open port. The error is a sentence that says why no other process can go on with it.
	Share() (*Share, error)
	// Leave gives the port up: from then on it receives and sends nothing, and no method changes what the other process has now.
	// No worker uses its queues.
	Leave()
	// Entered says that the workers of this process have the queues of a port that was taken over.
	Entered() error
}

// Peered is a Takeable whose peers speak to it while packets flow, and may come, go, and change what they share with it. So what another process needs to know
// of them is described when they have been made to wait, behind Share:
//
//	Freeze
//	the workers rest
//	State                             ──>  Enter, before that of the queues
//	Thaw, or Leave                         Begin of a queue
type Peered interface {
	Takeable
	// Freeze has peers wait until Thaw, and fails where one has been served for longer than the limit.
	Freeze(limit time.Duration) error
	// Thaw undoes Freeze.
	Thaw()
	// State describes the peers of a frozen port, whose queues no worker uses.
	State() (*Share, error)
	// Enter takes the share of State and its files. It changes nothing that is shared with the peers.
	Enter(*Share) error
}

// Share describes a port to another process.
type Share struct {
	Name   string          `json:"name"`
	Driver string          `json:"driver"`
	State  json.RawMessage `json:"state,omitempty"` // of the driver; none of a port that is not open, and a raw null would not be none
	Files  []*os.File      `json:"-"`               // descriptors, in the driver's order
}

// Close closes the descriptors that no port took.
func (s *Share) Close() error {
	var errs []error
	for _, f := range s.Files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	s.Files = nil
	return errors.Join(errs...)
}

// take takes a file out, and returns its descriptor.
func (s *Share) take(i int) (*os.File, error) {
	if i >= len(s.Files) || s.Files[i] == nil {
		return nil, fmt.Errorf("port %s: descriptor %d is missing", s.Name, i)
	}
	f := s.Files[i]
	s.Files[i] = nil
	return f, nil
}

// Movable is a Queue of a Takeable port.
type Movable interface {
	Queue
	// AppendState appends what the queue knows beside what is in shared memory. No worker uses the queue.
	AppendState(dst []byte) ([]byte, error)
	// Enter takes the queue over from a process that has left it in a state, no worker of which uses it.
	// It returns the frames that the queue has, by number.
	Enter(state []byte) (frames []uint32, err error)
	// Frames appends the numbers of the frames that the queue has.
	Frames(dst []uint32) []uint32
	// Begin has the queue work, behind Enter of all queues of the switch and the other process's Leave.
	Begin()
	// Leave leaves the queue to another process: Close frees its frames here, and changes nothing else. So it is between Open and Begin.
	Leave()
}

// errLeft is why a port is not opened again.
var errLeft = errors.New("another process has the port")

// What became of a port between Share and AppendState, which refuses the takeover.
var (
	errMadeAnew        = errors.New("its interface was lost and the port opened anew during the takeover: try again")
	errClosedMeanwhile = errors.New("its interface was lost during the takeover: try again")
)

// Absent describes a port that is not open: the other process opens it as its configuration says.
func absent(name, driver string) *Share { return &Share{Name: name, Driver: driver} }

// Absent reports whether the port is not open in the process that has it, or exists in a switch alone: nothing is taken over.
func (s *Share) Absent() bool { return s.State == nil }

// unshared is a queue that shares nothing with other processes.
type unshared struct{}

// AppendState implements Movable.
func (unshared) AppendState(dst []byte) ([]byte, error) { return dst, nil }

// Enter implements Movable.
func (unshared) Enter(state []byte) ([]uint32, error) {
	if len(state) != 0 {
		return nil, errors.New("the port was opened meanwhile")
	}
	return nil, nil
}

// Frames implements Movable.
func (unshared) Frames(dst []uint32) []uint32 { return dst }

// Begin implements Movable.
func (unshared) Begin() {}

// Leave implements Movable.
func (unshared) Leave() {}

// Share implements Takeable: the port is in the switch alone.
func (v *Virtual) Share() (*Share, error) { return absent(v.config.Name, v.config.Driver), nil }

// Leave implements Takeable.
func (v *Virtual) Leave() {}

// Entered implements Takeable.
func (v *Virtual) Entered() error { return nil }
