package archive

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirswitch/weir/telemetry/record"
)

// File is a file of records, as its name says.
type File struct {
	Kind record.Kind
	// Arrived is when the last of its records came into the stream, ns since 1970.
	Arrived int64
	// From and To are the least window that has the slices of all its records, ns of CLOCK_TAI.
	From, To int64
	// Stream is when the stream was made, ns since 1970: the sequence numbers of another one are unrelated.
	Stream int64
	// Partitions are those of which the file has all records with the sequence numbers First to Last, as bits.
	Partitions  uint16
	First, Last uint64
	Rows        int
	// Bytes is its size; the name does not have it.
	Bytes int64
}

// prefix begins the names of files of records.
const prefix = "records/"

const (
	dayForm = "2006-01-02"
	suffix  = ".parquet"
)

// kindFolder is the folder of a kind.
func kindFolder(kind record.Kind) string { return prefix + "kind=" + kind.String() + "/" }

// day is the folder of what arrived at a time.
func day(kind record.Kind, arrived int64) string {
	return kindFolder(kind) + "day=" + time.Unix(0, arrived).UTC().Format(dayForm) + "/"
}

// Name is the file's name in the bucket. Names of a kind sort by arrival.
func (f *File) Name() string {
	return day(f.Kind, f.Arrived) + fmt.Sprintf("%019d-%d-%d-%x-%04x-%d-%d-%d", f.Arrived, f.From, f.To, f.Stream, f.Partitions, f.First, f.Last, f.Rows) + suffix
}

var errName = errors.New("not the name of a file of records")

// parseName reads a name.
func parseName(name string) (f File, err error) {
	rest, ok := strings.CutPrefix(name, prefix+"kind=")
	kind, base, ok2 := strings.Cut(rest, "/")
	_, base, ok3 := strings.Cut(base, "/")
	base, ok4 := strings.CutSuffix(base, suffix)
	parts := strings.Split(base, "-")
	if !ok || !ok2 || !ok3 || !ok4 || len(parts) != 8 {
		return f, errName
	}
	for k := record.PINT; k <= record.Status; k++ {
		if k.String() == kind {
			f.Kind = k
		}
	}
	number := func(text string, base, bits int) uint64 {
		n, wrong := strconv.ParseUint(text, base, bits)
		if wrong != nil {
			err = errName
		}
		return n
	}
	f.Arrived = int64(number(parts[0], 10, 63))
	f.From, f.To = int64(number(parts[1], 10, 63)), int64(number(parts[2], 10, 63))
	f.Stream = int64(number(parts[3], 16, 63))
	f.Partitions = uint16(number(parts[4], 16, 16))
	f.First, f.Last = number(parts[5], 10, 64), number(parts[6], 10, 64)
	f.Rows = int(number(parts[7], 10, 31))
	if err != nil || f.Kind == 0 || f.From > f.To || f.First > f.Last || f.Name() != name {
		return File{}, errName
	}
	return f, nil
}
