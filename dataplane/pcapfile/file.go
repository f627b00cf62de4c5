package pcapfile

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
)

// In is an open capture file.
type In struct {
	*Reader
	path string
	file *os.File
	read atomic.Int64
	size int64
}

// Open opens the capture at path, or the standard input for "-". Of a regular
// file whose first packet comes before any Ethernet interface, it looks through
// the rest for one, so that linkTypes is the whole truth for those.
func Open(path string) (*In, error) {
	file := os.Stdin
	if path != "-" {
		var err error
		if file, err = os.Open(path); err != nil {
			return nil, err
		}
	}
	in := &In{path: path, file: file}
	if err := in.begin(); err != nil {
		return nil, errors.Join(named("read", path, err), in.Close())
	}
	return in, nil
}

func (in *In) begin() error {
	info, err := in.file.Stat()
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		in.size = info.Size()
	}
	if in.Reader, err = NewReader(in.counted()); err != nil {
		return err
	}
	if in.size == 0 || !in.ng.ahead || in.hasEthernet() {
		return nil
	}
	for !in.hasEthernet() {
		if _, err := in.Next(); err != nil {
			break
		}
	}
	seen := in.ng.seen
	if _, err := in.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	in.read.Store(0)
	if in.Reader, err = NewReader(in.counted()); err != nil {
		return err
	}
	in.ng.seen = seen
	return nil
}

func (in *In) hasEthernet() bool {
	for _, link := range in.linkTypes() {
		if link == Ethernet {
			return true
		}
	}
	return false
}

// CheckEthernet refuses a capture none of whose interfaces is Ethernet. One
// that describes no interface holds no packet either, and passes.
func (in *In) CheckEthernet() error {
	links := in.linkTypes()
	if len(links) == 0 || in.hasEthernet() {
		return nil
	}
	names := make([]string, len(links))
	for i, l := range links {
		names[i] = l.String()
	}
	return fmt.Errorf("the capture's link type is %s, not Ethernet (1)", strings.Join(names, " and "))
}

// counted returns the file as a reader that notes how much was read.
func (in *In) counted() io.Reader { return (*countedFile)(in) }

type countedFile In

func (c *countedFile) Read(p []byte) (int, error) {
	n, err := c.file.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// Path returns the name that the file was opened by.
func (in *In) Path() string { return in.path }

// Progress returns how much of the file was read and how long it is, 0 if that
// is not known. It may be called at any time, from anywhere.
func (in *In) Progress() (read, size int64) { return in.read.Load(), in.size }

// Same reports whether path names the file itself.
func (in *In) Same(path string) bool { return sameFile(in.file, path) }

// Close closes the file.
func (in *In) Close() error {
	if in.file == os.Stdin {
		return nil
	}
	return in.file.Close()
}

// Out is a capture file being written.
type Out struct {
	*Writer
	path    string
	file    *os.File
	zip     *gzip.Writer
	buf     *bufio.Writer
	f       Format
	longest uint32
}

// Create creates the capture at path, "-" for the standard output. A name that ends in .pcapng, or
// .pcapng.gz, asks for pcapng; any other gets pcap, in f's byte order and
// resolution. A name that ends in .gz is compressed.
func Create(path string, f Format, interfaces ...string) (*Out, error) {
	o := &Out{path: path, file: os.Stdout}
	if path != "-" {
		var err error
		if o.file, err = os.Create(path); err != nil {
			return nil, err
		}
	}
	if linkOf(f.LinkField) != Ethernet {
		f.LinkField = uint32(Ethernet)
	}
	plain := strings.TrimSuffix(path, ".gz")
	if f.NG = strings.HasSuffix(plain, ".pcapng"); f.NG {
		f.BigEndian, f.SnapLen = false, 0
	} else if f.SnapLen == 0 {
		f.SnapLen = maxRecord
	}
	var w io.Writer = o.file
	if plain != path {
		o.zip = gzip.NewWriter(w)
		w = o.zip
	}
	o.buf, o.f = bufio.NewWriterSize(w, bufferSize), f
	var err error
	if o.Writer, err = NewWriter(o.buf, f, interfaces...); err != nil {
		return nil, errors.Join(named("write", path, err), o.file.Close())
	}
	return o, nil
}

// WriteHeader begins a packet, as Writer.WriteHeader does.
func (o *Out) WriteHeader(h Header) error {
	o.longest = max(o.longest, h.CapLen)
	return o.Writer.WriteHeader(h)
}

// Close writes out what is buffered, and closes the file.
func (o *Out) Close() error {
	err := o.buf.Flush()
	if o.zip != nil && err == nil {
		err = o.zip.Close()
	}
	if err == nil {
		err = o.raiseSnapLen()
	}
	if o.file != os.Stdout {
		err = errors.Join(err, o.file.Close())
	}
	return named("write", o.path, err)
}

// named says which file an error is about, where the error does not.
func named(verb, path string, err error) error {
	var already *os.PathError
	if err == nil || errors.As(err, &already) {
		return err
	}
	return fmt.Errorf("%s %s: %w", verb, path, err)
}

// raiseSnapLen puts the length of the longest record into a pcap header that
// says less: readers cut records to it. Stages lengthen packets, and captures
// exist that break their own limit. What cannot be written at an offset, a
// pipe or compressed, stays as it is.
func (o *Out) raiseSnapLen() error {
	if o.f.NG || o.zip != nil || o.longest <= o.f.SnapLen {
		return nil
	}
	if info, err := o.file.Stat(); err != nil || !info.Mode().IsRegular() {
		return err
	}
	var b [4]byte
	if o.f.BigEndian {
		binary.BigEndian.PutUint32(b[:], o.longest)
	} else {
		binary.LittleEndian.PutUint32(b[:], o.longest)
	}
	_, err := o.file.WriteAt(b[:], snapLenAt)
	return err
}

// Same reports whether path names the file itself.
func (o *Out) Same(path string) bool { return sameFile(o.file, path) }

func sameFile(file *os.File, path string) bool {
	a, errA := file.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && a.Mode().IsRegular() && os.SameFile(a, b)
}
