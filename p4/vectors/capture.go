package vectors

import (
	"errors"
	"fmt"
	"io"

	"github.com/weirswitch/weir/dataplane/pcapfile"
)

// maxCaptured is the longest packet that is taken from a capture.
const maxCaptured = 65000

// ReadCapture reads up to n packets of a capture's Ethernet interfaces. Of those that were cut
// when they were captured, zeros stand for what is missing, so that their lengths are
// true. A capture that ends in the middle of a record ends there. The error is one of a file
// that is no capture of Ethernet.
func ReadCapture(path string, n int) (frames [][]byte, err error) {
	in, err := pcapfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if err := in.CheckEthernet(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for len(frames) < n {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			break // a hostile capture: what came before counts
		}
		if h.LinkType != pcapfile.Ethernet || h.CapLen > maxCaptured {
			continue
		}
		frame := make([]byte, max(h.CapLen, min(h.WireLen, maxCaptured)))
		if in.Read(frame[:h.CapLen]) != nil {
			break
		}
		frames = append(frames, frame)
	}
	return frames, nil
}
