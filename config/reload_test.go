package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline"
)

// FuzzReload: a running switch that is sent any text takes it or refuses it with its reasons, and is as before then.
func FuzzReload(f *testing.F) {
	files, err := filepath.Glob("*.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			f.Add(data)
		}
	}
	for _, text := range []string{good, good + "\n[log]\nlevel = \"debug\"\n", "a = " + strings.Repeat("[", 1000), strings.Repeat("a.", 1000) + "b = 1"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		old, err := Parse([]byte(good))
		if err != nil {
			t.Fatal(err)
		}
		next, err := Parse(data)
		if err != nil {
			return
		}
		opened := false
		p, err := Prepare(old, next, nil, func() ([]pipeline.Port, error) { opened = true; return nil, nil })
		if (err == nil) != (p != nil) || err == nil && opened != (p.Commit != nil) {
			t.Errorf("%+v, opened %v, %v", p, opened, err)
		}
		if p != nil {
			p.Commit()
		}
	})
}

// TestHostileFile: a configuration that others may write, a FIFO, and one that is too large are refused with the remedy.
func TestHostileFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.toml")
	if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "chmod o-w") {
		t.Errorf("a file that all may write: %v", err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("#", 17<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = os.Chmod(path, 0o600)
	for _, load := range []func(string) error{
		func(p string) error { _, err := Load(p); return err },
		func(p string) error { _, err := LoadCollect(p); return err },
	} {
		if err := load(path); err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("a file of 17 MB: %v", err)
		}
	}
}
