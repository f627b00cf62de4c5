package export

import (
	"errors"
	"io"

	"github.com/weirswitch/weir/telemetry/record"
)

// walkWindow is what walk reads at once: many small records, or the head of a
// large one.
const walkWindow = 64 << 10

// walk calls f for the header of each record between two offsets of a file, and
// reads no bodies. It returns where the first one begins that is not whole: to, if
// all are; err says why.
func walk(file io.ReaderAt, from, to int64, f func(h *record.Header, length int)) (end int64, err error) {
	buffer := make([]byte, min(walkWindow, max(0, to-from)))
	begin, window := from, buffer[:0] // window lies at begin
	for at := from; at < to; {
		if at < begin || at+record.HeadLength > begin+int64(len(window)) {
			n, err := file.ReadAt(buffer[:min(int64(len(buffer)), to-at)], at)
			if err != nil && !errors.Is(err, io.EOF) {
				return at, err
			}
			begin, window = at, buffer[:n]
		}
		h, length, err := record.Peek(window[at-begin:])
		if err == nil && at+int64(length) > to {
			err = record.ErrShort
		}
		if err != nil {
			return at, err
		}
		f(&h, length)
		at += int64(length)
	}
	return to, nil
}
