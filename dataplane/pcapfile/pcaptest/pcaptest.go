// Package pcaptest makes and reads captures for tests.
package pcaptest

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/weirswitch/weir/dataplane/pcapfile"
)

// Record is one record of a capture.
type Record struct {
	pcapfile.Header
	Data string
}

// Read reads the records that are readable, and returns why it ended before the end of the file.
func Read(path string) ([]Record, error) {
	in, err := pcapfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var records []Record
	for {
		h, err := in.Next()
		if err == io.EOF {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		data := make([]byte, h.CapLen)
		if err := in.Read(data); err != nil {
			return records, err
		}
		h.Interface = 0
		records = append(records, Record{h, string(data)})
	}
}

// Write writes a capture into a folder that is gone after the test.
func Write(t testing.TB, name string, f pcapfile.Format, records ...Record) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	out, err := pcapfile.Create(path, f, "eth0")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := out.WriteHeader(r.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(out, r.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// Ethernet is the record of an Ethernet packet at a time in ns.
func Ethernet(at int64, data string) Record {
	return Record{pcapfile.Header{Time: at, CapLen: uint32(len(data)), WireLen: uint32(len(data)), LinkType: pcapfile.Ethernet}, data}
}

// Frame is an Ethernet packet between two stations, 0 being all of them.
func Frame(dst, src byte, at int64, size int) Record {
	data := make([]byte, size)
	copy(data, []byte{2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src, 0x88, 0xb6, dst, src})
	if dst == 0 {
		copy(data, "\xff\xff\xff\xff\xff\xff")
	}
	return Ethernet(at, string(data))
}

// Flows writes a capture of UDP packets of many sizes and 60 flows, 0.4 ms apart.
func Flows(t testing.TB, packets int) (path string) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var records []Record
	for i := range packets {
		f := make([]byte, 60+r.IntN(1400))
		copy(f, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 0, byte(i >> 8), byte(i), 0, 0, 64, 17, 0, 0, 10, 0, 0, byte(r.IntN(60)), 10, 1, 0, 1, 4, 1, 0, 9})
		binary.BigEndian.PutUint16(f[16:], uint16(len(f)-14))
		binary.BigEndian.PutUint16(f[38:], uint16(len(f)-34))
		records = append(records, Ethernet(1e18+int64(i)*400_000, string(f)))
	}
	return Write(t, "flows.pcap", pcapfile.Format{LinkField: uint32(pcapfile.Ethernet)}, records...)
}
