package export

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/telemetry/jetstream"
)

// state is what outlives a run, beside the files: NAME.state, in JSON. It is
// replaced as a whole. One that is missing or damaged makes the shipper begin with
// the oldest file, and JetStream sees records again that it knows.
type state struct {
	Version int `json:"version"`
	// File is the number of the oldest file that is still needed, and Offset how
	// many bytes of it are done with.
	File   uint64 `json:"file"`
	Offset int64  `json:"offset"`
	// Dropped is what this run and those before it dropped, by reason.
	Dropped []Drop `json:"dropped,omitempty"`
}

const (
	maxState       = 16 << 20 // bytes
	stateVersion   = 1
	stateExtension = ".state"
)

func (s *Spool) statePath() string { return filepath.Join(s.dir, s.name+stateExtension) }

// loadState reads what an earlier run left. It never fails: see state.
func (s *Spool) loadState() (st state) {
	text, err := safefile.ReadHere(s.statePath(), maxState)
	if err != nil {
		return state{}
	}
	if err := json.Unmarshal(text, &st); err != nil || st.Version != stateVersion || st.Offset < 0 {
		return state{}
	}
	return st
}

// secretExtension is that of the file with the secret of the message ids: not a part of the state, so that what is sent again is
// recognised also without it.
const secretExtension = ".secret"

// loadSecret reads the secret of an earlier run, or makes one.
func (s *Spool) loadSecret() error {
	path := filepath.Join(s.dir, s.name+secretExtension)
	text, err := safefile.ReadHere(path, int64(len(s.secret)))
	if err == nil && len(text) == len(s.secret) {
		s.secret = jetstream.Secret(text)
		return nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := rand.Read(s.secret[:]); err != nil {
		return err
	}
	fresh := path + "-new"
	if err = os.WriteFile(fresh, s.secret[:], 0o600); err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return fmt.Errorf("keep the secret of message ids: %w", errors.Join(err, removeIfThere(fresh)))
	}
	return nil
}

// saveState writes it anew, if it changed. The caller has the lock.
func (s *Spool) saveState() error {
	if !s.stateChanged {
		return nil
	}
	st := state{Version: stateVersion, File: s.next}
	if len(s.kept) > 0 {
		st.File, st.Offset = s.kept[0].number, s.kept[0].done
	}
	st.Dropped = mergeDrops(s.droppedBefore, s.dropped)
	text, err := json.Marshal(st)
	if err != nil {
		return err
	}
	path := s.statePath()
	fresh := path + "-new"
	if err = os.WriteFile(fresh, append(text, '\n'), 0o600); err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return fmt.Errorf("save how far records were sent: %w", errors.Join(err, removeIfThere(fresh)))
	}
	s.stateChanged = false
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
