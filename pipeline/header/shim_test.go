package header

import (
	"bytes"
	"testing"
)

func TestShim(t *testing.T) {
	for n := 1; n <= MaxShimDigest; n++ {
		data := bytes.Repeat([]byte{0xee}, ShimLen(n)+3)
		data[ShimLen(n)+1], data[ShimLen(n)-2+1] = 0x00, 0x00 // the original type, and what is behind
		data[1+ShimLen(n)-2], data[1+ShimLen(n)-1] = 0x86, 0xdd
		s := NewShim(data[1:], n, 0x1234)
		if got := ShimAt(data, 1); !bytes.Equal(got, s) {
			t.Fatalf("%d bytes: at 1 is % x, not % x", n, got, s)
		}
		if s.Version() != 1 || s.Interval() || s.Hop() != 0 || s.Plan() != 0x1234 || s.DigestLen() != n || s.Digest() != 0 || s.Type() != 0x86dd {
			t.Errorf("%d bytes: new shim % x", n, s)
		}
		s.SetHop(200)
		s.SetInterval(true)
		s.SetDigest(0x1122334455667788)
		want := uint64(0x1122334455667788) << (64 - 8*n) >> (64 - 8*n)
		if s.Version() != 1 || !s.Interval() || s.Hop() != 200 || s.Plan() != 0x1234 || s.DigestLen() != n || s.Digest() != want || s.Type() != 0x86dd {
			t.Errorf("%d bytes: % x, digest %#x, want %#x", n, s, s.Digest(), want)
		}
		s.SetInterval(false)
		if s.Interval() || s.DigestLen() != n {
			t.Errorf("%d bytes: % x", n, s)
		}
		if data[0] != 0xee || data[len(data)-1] != 0xee {
			t.Errorf("%d bytes: wrote beside itself: % x", n, data)
		}
		for cut := range ShimLen(n) {
			if ShimAt(data[:1+cut], 1) != nil {
				t.Errorf("%d bytes: found in %d", n, cut)
			}
		}
	}
	if ShimAt([]byte{0x10, 0, 0}, 1<<40) != nil {
		t.Error("found far outside")
	}
}

// The layout is fixed: other switches, P4 programs and dissectors read it.
func TestShimLayout(t *testing.T) {
	s := NewShim([]byte{0, 0, 0, 0, 0, 0, 0x08, 0x00}, 2, 7)
	s.SetHop(3)
	s.SetDigest(0xabcd)
	s.SetInterval(true)
	if want := []byte{0x19, 3, 0, 7, 0xab, 0xcd, 8, 0}; !bytes.Equal(s, want) {
		t.Errorf("% x, want % x", s, want)
	}
}
