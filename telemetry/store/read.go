package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/telemetry/record"
)

// maxFile bounds what is read of one file.
const maxFile = 1 << 40

// Read reads all files of records in a folder, as switches spool them. What
// cannot be read of them is counted; the error says that the folder, or a file,
// cannot be read at all. The store is frozen.
func Read(folder string) (*Store, error) {
	if _, err := os.ReadDir(folder); err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.records"))
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	s := &Store{}
	for _, file := range files {
		b, err := safefile.ReadHere(file, maxFile)
		if errors.Is(err, os.ErrNotExist) {
			continue // went to make room
		}
		if err != nil {
			return nil, fmt.Errorf("read records: %w", err)
		}
		s.AddBytes(b)
	}
	s.Sort()
	s.Freeze()
	return s, nil
}

// AddBytes takes records that lie one behind the other. Where one is broken, it
// goes on at the next one that is whole.
func (s *Store) AddBytes(b []byte) {
	eachRecord(b, &s.counts, func(h record.Header, body []byte) { s.Add(h, body) })
}

// eachRecord calls add for all whole records in b, and counts the broken ones, those under a key that is not loaded, and the one
// that is cut off at the end.
func eachRecord(b []byte, c *Counts, add func(record.Header, []byte)) {
	for len(b) > 0 {
		h, body, rest, err := record.Decode(b)
		switch {
		case err == nil:
			add(h, body)
		case errors.Is(err, record.ErrKey):
			c.Unkeyed++
		default:
			next := nextRecord(b)
			if next < 0 && errors.Is(err, record.ErrShort) {
				c.CutOff++
				return
			}
			c.Unreadable++
			if next < 0 {
				return
			}
			rest = b[next:]
		}
		b = rest
	}
}

// searches bounds how many positions that look like a record are tried behind a
// broken one: each may cost a checksum over all of the rest.
const searches = 256

// nextRecord finds the first whole record behind the beginning of b, -1: none.
func nextRecord(b []byte) int {
	at := 1
	for range searches {
		i := bytes.Index(b[at:], []byte("WR"))
		if i < 0 {
			return -1
		}
		at += i
		if _, _, _, err := record.Decode(b[at:]); err == nil || errors.Is(err, record.ErrKey) {
			return at
		}
		at++ // still within b: the magic has two bytes
	}
	return -1
}
