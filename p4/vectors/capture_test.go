package vectors

import (
	"errors"
	"fmt"
	"io"

	"github.com/weirswitch/weir/dataplane/pcapfile"
)

const (
	// maxCaptured is the longest packet that is taken from a capture: it leaves room for tags and shims.
	maxCaptured = frameSize - 4*headroom
	// maxFilled is up to which length zeros stand for what was not captured.
	maxFilled = 65000
)

// LeftOut counts packets of a capture that are not among what was read.
type LeftOut struct {
	NotEthernet int
	TooLong     int // longer than maxCaptured
}

// ReadCapture reads up to n packets of a capture's Ethernet interfaces. Of those that were cut
// when they were captured, zeros stand for what is missing, so that their lengths are
// true up to maxFilled. A capture that ends in the middle of a record ends there. The error is one of a file
// that is no capture of Ethernet.
func ReadCapture(path string, n int) (frames [][]byte, left LeftOut, err error) {
	in, err := pcapfile.Open(path)
	if err != nil {
		return nil, left, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if err := in.CheckEthernet(); err != nil {
		return nil, left, fmt.Errorf("%s: %w", path, err)
	}
	for len(frames) < n {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			break // a hostile capture: what came before counts
		}
		if h.LinkType != pcapfile.Ethernet {
			left.NotEthernet++
			continue
		}
		if h.CapLen > maxCaptured {
			left.TooLong++
			continue
		}
		frame := make([]byte, max(h.CapLen, min(h.WireLen, maxFilled)))
		if in.Read(frame[:h.CapLen]) != nil {
			break
		}
		frames = append(frames, frame)
	}
	return frames, left, nil
}
