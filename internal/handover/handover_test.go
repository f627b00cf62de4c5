package handover

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair is two ends of a connection.
func pair(t testing.TB) (a, b *Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = NewConn(c.(*net.UnixConn))
		t.Cleanup(func() { _ = ends[i].Close() })
	}
	return ends[0], ends[1]
}

// TestMessages: values, bytes and more descriptors than pass in one call arrive, and the descriptors are those of the files.
func TestMessages(t *testing.T) {
	a, b := pair(t)
	const many = perCall + 3
	var sent []*os.File
	for i := range many {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		sent = append(sent, f)
	}
	rest := bytes.Repeat([]byte("rest"), 1<<19)
	done := make(chan error, 1)
	go func() { done <- a.Send(7, map[string]int{"x": 5}, rest, sent...) }()
	m, err := b.Receive(7)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var v struct{ X int }
	if err := m.Decode(&v); err != nil || v.X != 5 || !bytes.Equal(m.Rest, rest) || len(m.Files) != many {
		t.Fatalf("%v: %+v, %d bytes, %d files", err, v, len(m.Rest), len(m.Files))
	}
	for i, f := range m.Files {
		text := make([]byte, 8)
		n, _ := f.ReadAt(text, 0)
		if string(text[:n]) != fmt.Sprint(i) {
			t.Fatalf("file %d is %q", i, text[:n])
		}
	}
}

// TestFaults: what is wrong ends with an error that says so.
func TestFaults(t *testing.T) {
	head := func(change func(h []byte)) []byte {
		h := make([]byte, headLength)
		copy(h, "WEIR")
		h[4] = 1
		binary.BigEndian.PutUint16(h[6:], Version)
		change(h)
		return h
	}
	for _, c := range []struct {
		name string
		text []byte
		want string
	}{
		{"nothing", nil, "unexpected EOF"},
		{"cut off", []byte("WEIR"), "unexpected EOF"},
		{"garbage", make([]byte, headLength), "no message of a takeover"},
		{"version", head(func(h []byte) { h[7]++ }), ErrVersion.Error()},
		{"JSON too large", head(func(h []byte) { h[8] = 0xff }), "too large"},
		{"bytes too large", head(func(h []byte) { h[12] = 1 }), "too large"},
		{"files too many", head(func(h []byte) { h[20] = 1 }), "too large"},
		{"bytes missing", head(func(h []byte) { h[19] = 9 }), "EOF"},
		{"files missing", append(head(func(h []byte) { h[23] = 2 }), 2), "descriptors came"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := pair(t)
			if _, err := a.Write(c.text); err != nil {
				t.Fatal(err)
			}
			_ = a.Close()
			if _, err := b.Next(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, and nothing of %q", err, c.want)
			}
		})
	}
	a, b := pair(t)
	a.Refuse(errors.New("no"))
	if _, err := b.Receive(3); !errors.As(err, new(RefusedError)) || err.Error() != "no" {
		t.Errorf("a refusal: %v", err)
	}
}

// FuzzNext: no bytes crash the reader, or make it allocate what did not come.
func FuzzNext(f *testing.F) {
	f.Add([]byte("WEIR\x01\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00{}x"))
	f.Add([]byte("WEIR\x00\x00\x00\x02\x00\x00\x00\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00{\"why\":\"x\"}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, b := pair(t)
		_ = b.SetDeadline(time.Now().Add(time.Minute))
		go func() {
			_, _ = a.Write(text)
			_ = a.Close()
		}()
		for {
			m, err := b.Next()
			if err != nil {
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
				break
			}
			m.Close()
		}
		_, _ = io.Copy(io.Discard, b)
	})
}
