package export

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
