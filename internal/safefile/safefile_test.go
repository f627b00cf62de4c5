package safefile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNotRegular: a FIFO, a device, a folder and a socket are refused at once, and a link where it must not be.
func TestNotRegular(t *testing.T) {
	dir := t.TempDir()
	fifo, plain, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "plain"), filepath.Join(dir, "link")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(plain, []byte("x"), 0o600), os.Symlink(plain, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, dir, "/dev/null"} {
		for name, open := range map[string]func(string) (*os.File, error){"Open": Open, "OpenHere": OpenHere} {
			if _, err := open(path); !errors.Is(err, ErrNotRegular) {
				t.Errorf("%s %s: %v", name, path, err)
			}
		}
	}
	if _, err := OpenHere(link); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a link: %v", err)
	}
	if b, err := Read(link, 1); err != nil || string(b) != "x" {
		t.Errorf("a link where it may be: %q, %v", b, err)
	}
	if _, err := Read(plain, 0); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a file that is too large: %v", err)
	}
}

// TestTrusted: a file that others may write, or own, is refused with the remedy.
func TestTrusted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode][3]bool{
		0o600: {true, true, true}, 0o640: {true, true, false}, 0o644: {true, false, false}, 0o664: {true, false, false}, 0o646: {}, 0o666: {},
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, trusted := ReadTrusted(path, 10)
		_, private := ReadPrivate(path, 10)
		_, secret := ReadSecret(path, 10)
		if (trusted == nil) != want[0] || (private == nil) != want[1] || (secret == nil) != want[2] {
			t.Errorf("mode %04o: %v; %v; %v", mode, trusted, private, secret)
		}
		if trusted != nil && !strings.Contains(trusted.Error(), "chmod o-w") {
			t.Errorf("%v", trusted)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("to give a file away takes root")
	}
	t.Setenv("SUDO_UID", "")
	if err := errors.Join(os.Chmod(path, 0o600), os.Chown(path, 12345, -1)); err != nil {
		t.Skip(err)
	}
	if _, err := ReadTrusted(path, 10); !errors.Is(err, ErrUntrusted) || !strings.Contains(err.Error(), "12345") {
		t.Errorf("a file of another user: %v", err)
	}
	t.Setenv("SUDO_UID", "12345")
	if _, err := ReadTrusted(path, 10); err != nil {
		t.Errorf("a file of the user who called sudo: %v", err)
	}
}

// TestFolderForAll: a file is refused where anybody could put another one in its place, also by a link. Volumes of containers have mode 0777, and the
// file in a folder below.
func TestFolderForAll(t *testing.T) {
	top := t.TempDir()
	inner := filepath.Join(top, "inner")
	path, link := filepath.Join(inner, "file"), filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Mkdir(inner, 0o755), os.WriteFile(path, []byte("x"), 0o600), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode os.FileMode
		ok   bool
	}{{0o755, true}, {0o775, true}, {0o777, false}, {0o777 | os.ModeSticky, true}} {
		for _, folder := range []string{inner, top} {
			if err := os.Chmod(folder, c.mode); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{path, link} {
				ok := c.ok || folder == top
				if _, err := ReadTrusted(name, 10); (err == nil) != ok || !ok && (!errors.Is(err, ErrUntrusted) || !strings.Contains(err.Error(), folder+": chmod o-w")) {
					t.Errorf("%s in a folder of mode %v: %v", name, c.mode, err)
				}
			}
			_ = os.Chmod(folder, 0o755)
		}
	}
}

// TestFolder: a folder is its owner's alone, and one that holds others' files is left as it is.
func TestFolder(t *testing.T) {
	own := func(name string) bool { return name == "own" }
	made := filepath.Join(t.TempDir(), "a", "b")
	mode := func(path string) os.FileMode {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	if err := Folder(made, own); err != nil || mode(made) != 0o700 {
		t.Errorf("%v, mode %04o", err, mode(made))
	}
	_ = os.Chmod(made, 0o755)
	_ = os.WriteFile(filepath.Join(made, "own"), nil, 0o600)
	if err := Folder(made, own); err != nil || mode(made) != 0o700 {
		t.Errorf("a folder of its own: %v, mode %04o", err, mode(made))
	}
	_ = os.Chmod(made, 0o755)
	_ = os.WriteFile(filepath.Join(made, "other"), nil, 0o600)
	if err := Folder(made, own); err != nil || mode(made) != 0o755 {
		t.Errorf("a folder of others: %v, mode %04o", err, mode(made))
	}
	_ = os.Chmod(made, 0o777)
	if err := Folder(made, own); !errors.Is(err, ErrUntrusted) {
		t.Errorf("a folder for all: %v", err)
	}
	if err := Folder(filepath.Join(made, "own"), own); err == nil {
		t.Error("a file is taken for a folder")
	}
}

// TestReplace: the new text is there with the old mode, by a link too, and of a failure nothing is left.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chmod(path, 0o640), os.Symlink("file", link)); err != nil {
		t.Fatal(err)
	}
	if err := Replace(link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	info, _ := os.Lstat(path)
	linked, _ := os.Lstat(link)
	if err != nil || string(text) != "new" || info.Mode() != 0o640 || linked.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%q, mode %v, link %v, %v", text, info.Mode(), linked.Mode(), err)
	}
	if err := Replace(dir, []byte("new")); err == nil {
		t.Error("a folder was replaced")
	}
	if err := Replace(filepath.Join(dir, "none"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("left: %v", left)
	}
}
