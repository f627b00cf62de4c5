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
	// Late is the class of records that came long after their slices, if the file has these alone, and nothing else of First to Last;
	// 0: with the files that were put before it, it completes First to Last.
	Late int
	// Bytes is its size; the name does not have it.
	Bytes int64
}

// prefix begins the names of files of records.
const prefix = "records/"

const (
	dayForm    = "2006-01-02"
	suffix     = ".parquet"
	lateSuffix = "-late"
)

// lateness is how long after the beginning of its slice a record of each class comes, at least. Records that come sooner have class 0. So files of other records
// are of the hours in which they came, whatever a switch's clock says, and those of late ones of a time not much longer than it is ago.
var lateness = [...]time.Duration{3 * time.Hour, 24 * time.Hour, 10 * 24 * time.Hour, 100 * 24 * time.Hour, 1000 * 24 * time.Hour}

// lateClasses is the number of classes.
const lateClasses = len(lateness) + 1

// lateClass is the class of a record whose slice begins at a time (ns of CLOCK_TAI) and that arrives at another one (since 1970): the leap seconds are
// left out, so that a record has the same class always.
func lateClass(start, arrived int64) (class int) {
	for class < len(lateness) && arrived-max(start, 0) >= int64(lateness[class]) {
		class++
	}
	return class
}

// kindFolder is the folder of a kind.
func kindFolder(kind record.Kind) string { return prefix + "kind=" + kind.String() + "/" }

// day is the folder of what arrived at a time.
func day(kind record.Kind, arrived int64) string {
	return kindFolder(kind) + "day=" + time.Unix(0, arrived).UTC().Format(dayForm) + "/"
}

// wideSpan is longer than what the records of a file are of that do not come late.
const wideSpan = int64(24 * time.Hour)

func (f *File) wide() bool { return f.To-f.From > wideSpan }

// Name is the file's name in the bucket. Names of a kind sort by arrival.
func (f *File) Name() string {
	late := ""
	if f.Late != 0 {
		late = lateSuffix + strconv.Itoa(f.Late)
	}
	return day(f.Kind, f.Arrived) + fmt.Sprintf("%019d-%d-%d-%x-%04x-%d-%d-%d", f.Arrived, f.From, f.To, f.Stream, f.Partitions, f.First, f.Last, f.Rows) + late + suffix
}

var errName = errors.New("not the name of a file of records")

// parseName reads a name.
func parseName(name string) (f File, err error) {
	rest, ok := strings.CutPrefix(name, prefix+"kind=")
	kind, base, ok2 := strings.Cut(rest, "/")
	_, base, ok3 := strings.Cut(base, "/")
	base, ok4 := strings.CutSuffix(base, suffix)
	base, class, late := strings.Cut(base, lateSuffix)
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
	if late {
		f.Late = int(number(class, 10, 8))
	}
	if err != nil || f.Kind == 0 || f.Late >= lateClasses || f.From > f.To || f.First > f.Last || f.Name() != name {
		return File{}, errName
	}
	return f, nil
}
