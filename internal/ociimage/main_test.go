package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestImage: the same folder makes the same image, whatever the times of its files; each digest is that of what it
// names, and the layer has the files.
func TestImage(t *testing.T) {
	var before []byte
	for range 2 {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "usr/bin/weir"), []byte("program"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("weir", filepath.Join(root, "usr/bin/w")); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		i := image{root: root, arch: "arm64", version: "1.2.3", made: time.Unix(1_700_000_000, 0).UTC()}
		if err := i.write(&b); err != nil {
			t.Fatal(err)
		}
		if before != nil && !bytes.Equal(before, b.Bytes()) {
			t.Error("the same folder made another image")
		}
		before = b.Bytes()
	}
	files := untar(t, bytes.NewReader(before))
	var index struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	var config struct {
		Architecture string
		Rootfs       struct {
			DiffIDs []string `json:"diff_ids"`
		}
		Config struct{ Entrypoint []string }
	}
	read := func(name string, into any) {
		t.Helper()
		if err := json.Unmarshal(files[name], into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	blob := func(d descriptor) string {
		t.Helper()
		if data := files[blobPath(d.Digest)]; digest(data) != d.Digest || len(data) != d.Size {
			t.Fatalf("%+v does not name %d bytes", d, len(data))
		}
		return blobPath(d.Digest)
	}
	read("index.json", &index)
	read(blob(index.Manifests[0]), &manifest)
	read(blob(manifest.Config), &config)
	z, err := gzip.NewReader(bytes.NewReader(files[blob(manifest.Layers[0])]))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil || digest(plain) != config.Rootfs.DiffIDs[0] {
		t.Errorf("the layer is not the one of the configuration: %v", err)
	}
	if layer := untar(t, bytes.NewReader(plain)); string(layer["usr/bin/weir"]) != "program" || len(layer) != 4 {
		t.Errorf("the layer has %d entries", len(layer))
	}
	// An archive ends with two empty blocks, without which tar refuses it.
	if len(plain)%512 != 0 || !bytes.Equal(plain[len(plain)-1024:], make([]byte, 1024)) {
		t.Error("the layer has no end")
	}
	if config.Architecture != "arm64" || config.Config.Entrypoint[0] != "/usr/bin/weir" {
		t.Errorf("%+v", config)
	}
}

func untar(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.ModTime.Unix() != 1_700_000_000 {
			t.Errorf("%s is of user %d, %v", h.Name, h.Uid, h.ModTime)
		}
		if files[h.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
}
