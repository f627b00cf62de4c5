// Ociimage writes a folder as an OCI image, in one tar file that podman and docker load. It needs no daemon, and
// the same folder makes the same bytes.
//
//	go run ./internal/ociimage -root DIR -arch amd64 -version 0.1.0 -time 1700000000 -out weir.tar
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// image is what to write.
type image struct {
	root, arch, version string
	made                time.Time // of the image and of all files in it
}

func main() {
	var i image
	var seconds int64
	flag.StringVar(&i.root, "root", "", "the folder that becomes the image's file system")
	flag.StringVar(&i.arch, "arch", "amd64", "the processor, as Go names it")
	flag.StringVar(&i.version, "version", "", "of Weir")
	flag.Int64Var(&seconds, "time", 0, "of the image, in seconds since 1970")
	out := flag.String("out", "", "the file to write")
	flag.Parse()
	i.made = time.Unix(seconds, 0).UTC()
	if err := i.writeFile(*out); err != nil {
		fmt.Fprintln(os.Stderr, "ociimage:", err)
		os.Exit(1)
	}
}

func (i *image) writeFile(name string) error {
	if i.root == "" || i.version == "" || name == "" {
		return fmt.Errorf("set -root, -version and -out")
	}
	var b bytes.Buffer
	if err := i.write(&b); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// Media types of the OCI's image specification.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor refers to a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// write writes the image's layout: the layer, the configuration, the manifest, the index, and the list by which
// docker finds them.
func (i *image) write(w io.Writer) error {
	plain, err := i.layer()
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(plain); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	out := &layout{tar: tar.NewWriter(w), made: i.made}
	layer := out.blob(typeLayer, packed.Bytes())
	labels := map[string]string{
		"org.opencontainers.image.title": "weir", "org.opencontainers.image.version": i.version, "org.opencontainers.image.licenses": "Apache-2.0",
	}
	config := out.blob(typeConfig, encode(map[string]any{
		"created": i.made.Format(time.RFC3339), "architecture": i.arch, "os": "linux",
		"config":  map[string]any{"Entrypoint": []string{"/usr/bin/weir"}, "WorkingDir": "/", "Labels": labels},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{digest(plain)}},
		"history": []any{map[string]any{"created": i.made.Format(time.RFC3339), "created_by": "weir " + i.version}},
	}))
	manifest := out.blob(typeManifest, encode(map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": []descriptor{layer}, "annotations": labels,
	}))
	manifest.Platform = map[string]string{"os": "linux", "architecture": i.arch}
	manifest.Annotations = map[string]string{"org.opencontainers.image.ref.name": i.version}
	out.file("index.json", encode(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{manifest}}))
	out.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	out.file("manifest.json", encode([]any{map[string]any{
		"Config": blobPath(config.Digest), "RepoTags": []string{"weir:" + i.version}, "Layers": []string{blobPath(layer.Digest)},
	}}))
	if out.err != nil {
		return out.err
	}
	return out.tar.Close()
}

// layer is the folder as a tar file: sorted, root's, and as old as the image.
func (i *image) layer() ([]byte, error) {
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	err := filepath.WalkDir(i.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == i.root {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		target := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if target, err = os.Readlink(path); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(info, target)
		if err != nil {
			return err
		}
		if h.Name, err = filepath.Rel(i.root, path); err != nil {
			return err
		}
		if info.IsDir() {
			h.Name += "/"
		}
		h.Uid, h.Gid, h.Uname, h.Gname, h.ModTime, h.Format = 0, 0, "", "", i.made, tar.FormatPAX
		h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
		if err := out.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = out.Write(data)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := out.Close(); err != nil { // writes the archive's end, so the bytes come behind it
		return nil, err
	}
	return b.Bytes(), nil
}

// layout is the tar file of an image. Behind the first error it writes nothing.
type layout struct {
	tar  *tar.Writer
	made time.Time
	err  error
}

// blob writes data under its digest.
func (l *layout) blob(mediaType string, data []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: digest(data), Size: len(data)}
	l.file(blobPath(d.Digest), data)
	return d
}

func (l *layout) file(name string, data []byte) {
	if l.err != nil {
		return
	}
	if l.err = l.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), ModTime: l.made, Format: tar.FormatPAX}); l.err == nil {
		_, l.err = l.tar.Write(data)
	}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func blobPath(digest string) string { return "blobs/sha256/" + digest[len("sha256:"):] }

// encode writes JSON; maps have sorted keys, so that the bytes are always the same.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil { // texts and numbers alone
		panic("ociimage: " + err.Error())
	}
	return data
}
