package vectors

import (
	"bufio"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Vector is a run as BMv2 had it: what came of each packet, and what the switch held behind the
// last one.
type Vector struct {
	Header
	Packets []Packet
	Writes  []Write
	Results []Result
	State   State
}

// Header says what a vector is of, and what made it.
type Header struct {
	Setup   string `json:"setup"`   // the configuration
	Capture string `json:"capture"` // where the packets are from
	Seed    uint64 `json:"seed"`    // of clocks, ports and digests
	Count   int    `json:"packets"`
	// Compiler and Switch are the versions of p4c-bm2-ss and of simple_switch, and Program
	// the SHA-256 of our programs' sources.
	Compiler string `json:"compiler"`
	Switch   string `json:"switch"`
	Program  string `json:"program"`
}

// A vector's file is gzip of lines of JSON: the header, a line for each packet with what came of
// it, and one with writes and state. Packets are in hexadecimal, so that what left is
// found again in what arrived.
type packetLine struct {
	Port     uint16        `json:"port"`
	Arrival  int64         `json:"arrival"`
	Now      int64         `json:"now"`
	Depth    uint16        `json:"depth,omitempty"`
	Data     hexBytes      `json:"data"`
	Out      []outputLine  `json:"out,omitempty"`
	Messages []messageLine `json:"cpu,omitempty"`
}

type outputLine struct {
	Port uint16   `json:"port"`
	Data hexBytes `json:"data"`
}

type messageLine struct {
	Kind    uint8    `json:"kind"`
	Hop     uint8    `json:"hop,omitempty"`
	Plan    uint16   `json:"plan,omitempty"`
	InPort  uint16   `json:"in_port"`
	OutPort uint16   `json:"out_port"`
	Digest  uint64   `json:"digest,omitempty"`
	ID      uint64   `json:"id"`
	Arrival int64    `json:"arrival"`
	Data    hexBytes `json:"data,omitempty"`
}

// stateLine has of each register the cells that are not zero.
type stateLine struct {
	Writes    []Write                `json:"writes"`
	Registers map[string]registerSet `json:"registers"`
}

type registerSet struct {
	Size  int         `json:"size"`
	Cells [][2]uint64 `json:"cells"` // index and value
}

// hexBytes are bytes in hexadecimal.
type hexBytes []byte

// MarshalText implements encoding.TextMarshaler.
func (h hexBytes) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *hexBytes) UnmarshalText(text []byte) error {
	b, err := hex.AppendDecode(nil, text)
	*h = b
	return err
}

// WriteFile writes a vector's file.
func (v *Vector) WriteFile(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write a vector: %w", err)
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err == nil {
		err = v.write(json.NewEncoder(z))
	}
	if err := errors.Join(err, z.Close(), f.Close()); err != nil {
		return fmt.Errorf("write the vector %s: %w", path, err)
	}
	return nil
}

func (v *Vector) write(e *json.Encoder) error {
	v.Count = len(v.Packets)
	if err := e.Encode(v.Header); err != nil {
		return err
	}
	for i, p := range v.Packets {
		line := packetLine{Port: p.Port, Arrival: p.Arrival, Now: p.Now, Depth: p.Depth, Data: p.Data}
		for _, o := range v.Results[i].Out {
			line.Out = append(line.Out, outputLine{o.Port, o.Data})
		}
		for _, m := range v.Results[i].Messages {
			line.Messages = append(line.Messages, messageLine{m.Kind, m.Hop, m.Plan, m.InPort, m.OutPort, m.Digest, m.ID, m.Arrival, m.Data})
		}
		if err := e.Encode(line); err != nil {
			return err
		}
	}
	last := stateLine{Writes: v.Writes, Registers: map[string]registerSet{}}
	for name, cells := range v.State {
		set := registerSet{Size: len(cells), Cells: [][2]uint64{}}
		for i, c := range cells {
			if c != 0 {
				set.Cells = append(set.Cells, [2]uint64{uint64(i), c})
			}
		}
		last.Registers[name] = set
	}
	return e.Encode(last)
}

// Bounds of what is read.
const (
	maxPackets  = 1 << 20
	maxRegister = 1 << 24
	maxFile     = 1 << 31
)

// ReadFile reads a vector's file.
func ReadFile(path string) (*Vector, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read a vector: %w", err)
	}
	defer f.Close()
	v, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("read the vector %s: %w", path, err)
	}
	return v, nil
}

// Read reads what WriteFile wrote.
func Read(r io.Reader) (*Vector, error) {
	z, err := gzip.NewReader(bufio.NewReader(r))
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(io.LimitReader(z, maxFile))
	v := &Vector{State: State{}}
	if err := d.Decode(&v.Header); err != nil {
		return nil, err
	}
	if v.Count < 0 || v.Count > maxPackets {
		return nil, fmt.Errorf("%d packets: at most %d", v.Count, maxPackets)
	}
	for i := range v.Count {
		var line packetLine
		if err := d.Decode(&line); err != nil {
			return nil, fmt.Errorf("packet %d: %w", i, err)
		}
		v.Packets = append(v.Packets, Packet{line.Port, line.Arrival, line.Now, line.Depth, line.Data})
		var r Result
		for _, o := range line.Out {
			r.Out = append(r.Out, Output{o.Port, o.Data})
		}
		for _, m := range line.Messages {
			r.Messages = append(r.Messages, Message{m.Kind, m.Hop, m.Plan, m.InPort, m.OutPort, m.Digest, m.ID, m.Arrival, m.Data})
		}
		v.Results = append(v.Results, r)
	}
	var last stateLine
	if err := d.Decode(&last); err != nil {
		return nil, fmt.Errorf("registers: %w", err)
	}
	v.Writes = last.Writes
	for name, set := range last.Registers {
		if set.Size < 0 || set.Size > maxRegister {
			return nil, fmt.Errorf("register %s has %d cells: at most %d", name, set.Size, maxRegister)
		}
		cells := make([]uint64, set.Size)
		for _, c := range set.Cells {
			if c[0] >= uint64(len(cells)) {
				return nil, fmt.Errorf("register %s has no cell %d", name, c[0])
			}
			cells[c[0]] = c[1]
		}
		v.State[name] = cells
	}
	return v, nil
}
