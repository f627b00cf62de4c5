package port

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// sharedDevice is what a port in shared memory has of a device to have another process go on with it: see dataplane/vhost and dataplane/memif.
type sharedDevice interface {
	Listener() (*os.File, error)
	Freeze(limit time.Duration) error
	Thaw()
	State() (text []byte, files []*os.File, err error)
	Leave()
	Enter(text []byte, files []*os.File) error
	Begin()
}

// standingShare is the State of the Share of a port in shared memory, whose file is the listening socket, if there is one. Peers come, go and change
// what they share while packets flow, so all about them is in the State that passes behind Freeze.
type standingShare struct {
	Listens bool `json:"listens"`
}

// Share implements Takeable.
func (s *standing) Share() (_ *Share, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == nil {
		return absent(s.config.Name, s.config.Driver), nil
	}
	if s.stopped {
		return nil, fmt.Errorf("port %s is being closed", s.config.Name)
	}
	share := &Share{Name: s.config.Name, Driver: s.config.Driver}
	file, err := s.shared.Listener()
	if err != nil {
		return nil, fmt.Errorf("port %s: %w", s.config.Name, err)
	}
	if file != nil {
		share.Files = append(share.Files, file)
	}
	share.State, err = json.Marshal(standingShare{file != nil})
	return share, err
}

// listening takes the listening socket out of a share; nil if there is none.
func listening(s *Share) (*os.File, error) {
	var state standingShare
	if err := json.Unmarshal(s.State, &state); err != nil {
		return nil, fmt.Errorf("what the other process says of the port: %w", err)
	}
	if !state.Listens {
		return nil, nil
	}
	return s.take(0)
}

// Freeze implements Peered.
func (s *standing) Freeze(limit time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared != nil {
		if err := s.shared.Freeze(limit); err != nil {
			return fmt.Errorf("port %s: %w", s.config.Name, err)
		}
	}
	s.frozen = true
	return nil
}

// Thaw implements Peered.
func (s *standing) Thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = false
	if s.shared != nil {
		s.shared.Thaw()
	}
}

// State implements Peered.
func (s *standing) State() (*Share, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == nil {
		return absent(s.config.Name, s.config.Driver), nil
	}
	text, files, err := s.shared.State()
	if err != nil {
		return nil, fmt.Errorf("port %s: %w", s.config.Name, err)
	}
	return &Share{Name: s.config.Name, Driver: s.config.Driver, State: text, Files: files}, nil
}

// Enter implements Peered.
func (s *standing) Enter(share *Share) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if share.Absent() != (s.shared == nil) {
		return fmt.Errorf("port %s was opened or closed meanwhile: try again", s.config.Name)
	}
	if s.shared == nil {
		return nil
	}
	files := share.Files
	share.Files = nil
	if err := s.shared.Enter(share.State, files); err != nil {
		return fmt.Errorf("port %s: %w", s.config.Name, err)
	}
	return nil
}

// Leave implements Takeable.
func (s *standing) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.pause.Store(true)
	if s.shared != nil {
		s.shared.Leave()
	}
}

// Entered implements Takeable.
func (s *standing) Entered() error { return nil }

func (s *standing) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared != nil {
		s.shared.Begin()
	}
}

// standingQueue is a queue of a port in shared memory. It has no frames between two batches, and what it knows of its rings is in the port's State.
type standingQueue struct {
	copyQueue
	standing *standing
}

// AppendState implements Movable.
func (q *standingQueue) AppendState(dst []byte) ([]byte, error) { return append(dst, 'S'), nil }

// Enter implements Movable.
func (q *standingQueue) Enter(state []byte) ([]uint32, error) {
	if string(state) != "S" {
		return nil, errors.New("the port was closed meanwhile: try again")
	}
	return nil, nil
}

// Frames implements Movable.
func (q *standingQueue) Frames(dst []uint32) []uint32 { return dst }

// Begin implements Movable.
func (q *standingQueue) Begin() { q.standing.begin() }

// Leave implements Movable.
func (q *standingQueue) Leave() {}
