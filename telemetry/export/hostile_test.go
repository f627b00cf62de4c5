package export

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// TestHostileSpool: a FIFO, a device's name, a link or a folder among the spool's files is refused at once, by its name
// and with the remedy; so is one in place of the lock. What a reader finds it refuses as well.
func TestHostileSpool(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("WR"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(path string) error{
		"FIFO":   func(path string) error { return unix.Mkfifo(path, 0o600) },
		"link":   func(path string) error { return os.Symlink(outside, path) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		for _, file := range []string{"s1-00000003.records", "s1.lock"} {
			dir := t.TempDir()
			if err := plant(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
			s, err := OpenSpool(Config{Spool: dir, SpoolBytes: minSpool}, "s1")
			if err == nil {
				_ = s.Close()
			}
			if name == "FIFO" && file == "s1.lock" {
				continue // it locks as well as a file does
			}
			if err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("a %s as %s: %v", name, file, err)
			}
			if file == "s1.lock" {
				continue
			}
			if !strings.Contains(err.Error(), "remove it") {
				t.Errorf("a %s as %s, without a remedy: %v", name, file, err)
			}
			if err := ReadSpool(dir, nil); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("a reader takes a %s: %v", name, err)
			}
		}
	}
	if text, err := os.ReadFile(outside); err != nil || string(text) != "WR" {
		t.Errorf("what a link points to is touched: %q, %v", text, err)
	}
}

// TestSpoolIsPrivate: records say who talks to whom, so their folder and files are the switch's own.
func TestSpoolIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := openSpool(t, Config{Spool: dir, SpoolBytes: minSpool}, "s1")
	for _, path := range append([]string{dir}, files0(t, dir)...) {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v, %v", path, info.Mode(), err)
		}
	}
	_ = s
}

func files0(t *testing.T, dir string) (list []string) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		list = append(list, filepath.Join(dir, e.Name()))
	}
	return list
}

// TestKeyChanged: records that wait since before a switch's network key was changed are sent as all others.
func TestKeyChanged(t *testing.T) {
	s := openSpool(t, Config{Spool: t.TempDir(), SpoolBytes: minSpool}, "s1")
	const records = 10
	for n := range int64(records) {
		h := &record.Header{Kind: record.Oblivious, Switch: 1, Name: "s1", Hash: hash.FamilyOf(hash.AES, uint16(0x26d1+n%2)), Start: n << 20, Span: 1 << 20}
		b, err := record.Append(nil, h, func(dst []byte) ([]byte, error) { return append(dst, 1, 2, 3), nil })
		if err == nil {
			err = s.Write(h, b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	taken, err := s.take()
	if err != nil || len(taken) != records {
		t.Fatalf("%d of %d records are sent: %v", len(taken), records, err)
	}
	for n, x := range taken {
		if x.header.Start != int64(n)<<20 || x.header.Hash.Known() {
			t.Errorf("record %d: %+v", n, x.header)
		}
	}
}

// TestSecretOfIDs: the ids of a switch's records are under a secret of its spool, which outlives a run, so no other switch has
// JetStream discard them by sending what has the same id first.
func TestSecretOfIDs(t *testing.T) {
	dir := t.TempDir()
	open := func(dir string) jetstream.Secret {
		s, err := OpenSpool(Config{Spool: dir, SpoolBytes: minSpool}, "s1")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.secret
	}
	first, again, other := open(dir), open(dir), open(t.TempDir())
	if first != again || first == other || first == (jetstream.Secret{}) {
		t.Errorf("%x, again %x, of another spool %x", first, again, other)
	}
	info, err := os.Stat(filepath.Join(dir, "s1"+secretExtension))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
