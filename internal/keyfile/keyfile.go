// Package keyfile keeps the secret key of a network in a file: 128 random bits, which all its switches and collectors have,
// and no host. A file is one line:
//
//	weir-key-1 000102030405060708090a0b0c0d0e0f
package keyfile

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/weirswitch/weir/internal/safefile"
)

// Key is a network's. It does not print.
type Key [16]byte

// String hides the key.
func (Key) String() string { return "a key" }

// GoString hides the key.
func (Key) GoString() string { return "a key" }

const (
	prefix  = "weir-key-1 "
	maxFile = 4096
)

// Random is what new keys are drawn from. Tests that want the same keys each time have another one.
var Random io.Reader = rand.Reader

// Create makes a new key in a file that is not there yet, with mode 0600.
func Create(path string) (k Key, err error) {
	if _, err := io.ReadFull(Random, k[:]); err != nil {
		return k, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return Key{}, err
	}
	_, err = fmt.Fprintf(f, "%s%s\n", prefix, hex.EncodeToString(k[:]))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return Key{}, errors.Join(err, os.Remove(path))
	}
	return k, nil
}

// Load reads a key from a file that only its owner may read, who is root, this process's user, or the one who called sudo.
func Load(path string) (k Key, err error) {
	text, err := safefile.ReadSecret(path, maxFile)
	if err != nil {
		return k, err
	}
	digits, found := bytes.CutPrefix(bytes.TrimSpace(text), []byte(prefix))
	if n, err := hex.Decode(k[:], pad(digits)); !found || err != nil || n != len(k) || len(digits) != 2*len(k) {
		return Key{}, fmt.Errorf("%s is no key: make one with weir key new", path) // and nothing of what is in it
	}
	if k == (Key{}) {
		return Key{}, fmt.Errorf("%s has a key of zeros, which is no secret: make one with weir key new", path)
	}
	return k, nil
}

// pad keeps hex.Decode from writing beyond a key.
func pad(digits []byte) []byte { return digits[:min(len(digits), 2*len(Key{}))] }
