package record

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

var update = flag.Bool("update", false, "write the golden files anew")

var example = Header{
	Kind: DiSketch, Switch: 7, Name: "s7", Instance: 2, Plan: 0x1234,
	Start: 1 << 40, Span: 1 << 30, Missed: 99, Partial: true,
}

func encode(t testing.TB, h Header, body []byte) []byte {
	t.Helper()
	b, err := Append([]byte("before"), &h, func(dst []byte) ([]byte, error) { return append(dst, body...), nil })
	if err != nil {
		t.Fatal(err)
	}
	return b[len("before"):]
}

func TestRoundTrip(t *testing.T) {
	for _, h := range []Header{example, {}, {Kind: LDS, Name: strings.Repeat("n", 255), Start: -1}, {Kind: PINT, Hash: hash.CRC}, {Partial: true, Hash: hash.CRC}} {
		for _, body := range [][]byte{nil, []byte("body"), make([]byte, 1<<20)} {
			b := append(encode(t, h, body), "rest"...)
			got, gotBody, rest, err := Decode(b)
			if err != nil || got != h || !bytes.Equal(gotBody, body) || string(rest) != "rest" {
				t.Errorf("%+v came back as %+v, %d bytes, rest %q: %v", h, got, len(gotBody), rest, err)
			}
		}
	}
}

// TestGolden: records that are kept today are read tomorrow.
func TestGolden(t *testing.T) {
	file := filepath.Join("testdata", "v1.record")
	b := encode(t, example, []byte("golden body"))
	if *update {
		if err := os.WriteFile(file, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("the format changed without a new version: %x", b)
	}
}

// TestDamage: no cut and no changed bit passes.
func TestDamage(t *testing.T) {
	b := encode(t, example, []byte("body"))
	for n := range b {
		if _, _, _, err := Decode(b[:n]); !errors.Is(err, ErrShort) {
			t.Errorf("cut at %d: %v", n, err)
		}
		for bit := range 8 {
			c := bytes.Clone(b)
			c[n] ^= 1 << bit
			if _, _, _, err := Decode(c); err == nil {
				t.Errorf("bit %d of byte %d changed: no error", bit, n)
			}
		}
	}
	later := bytes.Clone(b)
	later[2] = 2
	if _, _, _, err := Decode(later); !errors.Is(err, ErrVersion) {
		t.Errorf("a later version: %v", err)
	}
}

func TestRefuses(t *testing.T) {
	h := Header{Name: strings.Repeat("n", 256)}
	same := func(dst []byte) ([]byte, error) { return dst, nil }
	if b, err := Append([]byte("x"), &h, same); err == nil || string(b) != "x" {
		t.Errorf("a long name: %q, %v", b, err)
	}
	fault := errors.New("fault")
	if b, err := Append([]byte("x"), &Header{}, func(dst []byte) ([]byte, error) { return append(dst, 1), fault }); !errors.Is(err, fault) || string(b) != "x" {
		t.Errorf("a body that fails: %q, %v", b, err)
	}
	if b, err := Append([]byte("x"), &Header{}, func([]byte) ([]byte, error) { return nil, fault }); !errors.Is(err, fault) || string(b) != "x" {
		t.Errorf("a body that fails with nothing: %q, %v", b, err)
	}
	if b, err := Append([]byte("x"), &Header{}, func(dst []byte) ([]byte, error) { return append(dst, make([]byte, MaxLength)...), nil }); err == nil || string(b) != "x" {
		t.Errorf("a body too long: %d bytes, %v", len(b), err)
	}
}

// TestPeek: of the fixed part alone comes the same header, but for the name.
func TestPeek(t *testing.T) {
	b := encode(t, example, []byte("body"))
	want := example
	want.Name = ""
	if h, length, err := Peek(b[:HeadLength]); err != nil || h != want || length != len(b) {
		t.Errorf("%+v, %d, %v", h, length, err)
	}
	crc := example
	crc.Hash = hash.CRC
	if h, _, err := Peek(encode(t, crc, nil)); err != nil || h.Hash != hash.CRC || h.Partial != crc.Partial {
		t.Errorf("%+v, %v", h, err)
	}
	for n := range HeadLength {
		if _, _, err := Peek(b[:n]); !errors.Is(err, ErrShort) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	if _, _, err := Peek(make([]byte, HeadLength)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("zeros: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(f, example, []byte("body")))
	f.Add([]byte("WR\x01\x02\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, body, rest, err := Decode(b)
		if err != nil {
			return
		}
		again := append(encode(t, h, body), rest...)
		// The zero bytes and unknown flags are not kept.
		if _, body2, rest2, err := Decode(again); err != nil || !bytes.Equal(body, body2) || !bytes.Equal(rest, rest2) {
			t.Errorf("decoded once, not twice: %v", err)
		}
	})
}
