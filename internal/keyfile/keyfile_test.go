package keyfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeyFile: a key is random, its owner's alone, never overwritten, and not printed.
func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "network.key")
	k, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	info, _ := os.Stat(path)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %04o", info.Mode().Perm())
	}
	got, err := Load(path)
	if err != nil || got != k || k == (Key{}) {
		t.Errorf("another key is read: %v", err)
	}
	if _, err := Create(path); err == nil {
		t.Error("a key is overwritten")
	}
	other, _ := Create(filepath.Join(t.TempDir(), "other.key"))
	if other == k {
		t.Error("two keys are the same")
	}
	if text := fmt.Sprintf("%v %s %+v %#v", k, k, k, k); strings.Contains(text, fmt.Sprint(k[0])) && strings.Contains(text, fmt.Sprint(k[1])) {
		t.Errorf("the key is printed: %s", text)
	}
	text, _ := os.ReadFile(path)
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"readable by the group": {string(text), 0o640},
		"readable by all":       {string(text), 0o604},
		"too short":             {"weir-key-1 0011", 0o600},
		"too long":              {strings.TrimSpace(string(text)) + "00", 0o600},
		"no digits":             {"weir-key-1 " + strings.Repeat("zz", 16), 0o600},
		"zeros":                 {"weir-key-1 " + strings.Repeat("00", 16), 0o600},
		"nothing":               {"", 0o600},
		"large":                 {strings.Repeat("0", 1<<20), 0o600},
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		_ = os.Chmod(path, c.mode)
		if _, err := Load(path); err == nil || strings.Contains(err.Error(), strings.TrimSpace(string(text))[11:]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
