package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/record"
)

// row is a record: as columns what its header says, and the record itself. Times are of UTC but those of which the name ends with
// _ns, which are of CLOCK_TAI.
type row struct {
	Sequence uint64 `parquet:"sequence"`
	Arrived  int64  `parquet:"arrived_time,timestamp(nanosecond)"`
	Switch   uint32 `parquet:"switch_number"`
	Name     string `parquet:"switch,dict"`
	Instance int32  `parquet:"instance"`
	Plan     int32  `parquet:"plan"`
	FromTime int64  `parquet:"from_time,timestamp(nanosecond)"`
	ToTime   int64  `parquet:"to_time,timestamp(nanosecond)"`
	From     int64  `parquet:"from_ns"`
	To       int64  `parquet:"to_ns"`
	Missed   uint64 `parquet:"missed_packets"`
	Partial  bool   `parquet:"partial"`
	Hash     string `parquet:"hash,dict"`
	Bytes    int32  `parquet:"record_bytes"`
	Record   []byte `parquet:"record"`
}

// head is what decides whether a row's record is read.
type head struct {
	arrived, instance, from, to int64
}

// headColumns are those of a head, in its order.
var headColumns = [...]string{"arrived_time", "instance", "from_ns", "to_ns"}

// The sizes that bound memory, in bytes of records: rows are sorted in groups of so many, and columns are read page by page.
const (
	groupBytes = 8 << 20
	pageBytes  = 256 << 10
	// fileBytes is when a file is put without waiting for its time.
	fileBytes = 128 << 20
)

// staged is a file that is being written. It has one goroutine.
type staged struct {
	File
	file    *os.File
	w       *parquet.GenericWriter[row]
	group   []row
	pending int // bytes of group
	bytes   int // of records, in all
}

// stage begins the content of an empty file.
func stage(f *os.File, kind record.Kind, stream int64, partitions uint16) *staged {
	s := &staged{File: File{Kind: kind, Stream: stream, Partitions: partitions}, file: f}
	s.w = parquet.NewGenericWriter[row](f,
		parquet.Compression(&parquet.Zstd), parquet.PageBufferSize(pageBytes), parquet.CreatedBy("weir", "", ""),
		parquet.KeyValueMetadata("weir.table", "archive.records"), parquet.KeyValueMetadata("weir.kind", kind.String()),
		parquet.KeyValueMetadata("weir.tai_offset_ns", strconv.FormatInt(clock.UTCOffset(), 10)))
	return s
}

// add adds a record, which it keeps until the file is written.
func (s *staged) add(h *record.Header, encoded []byte, sequence uint64, arrived int64) error {
	to, offset := h.Start+h.Span, clock.UTCOffset()
	s.group = append(s.group, row{
		Sequence: sequence, Arrived: arrived, Switch: h.Switch, Name: h.Name, Instance: int32(h.Instance), Plan: int32(h.Plan),
		FromTime: h.Start - offset, ToTime: to - offset, From: h.Start, To: to, Missed: h.Missed, Partial: h.Partial,
		Hash: h.Hash.String(), Bytes: int32(len(encoded)), Record: encoded,
	})
	if s.Rows == 0 {
		s.First, s.From, s.To = sequence, max(h.Start, 0), max(to, 0)
	}
	s.From, s.To = min(s.From, max(h.Start, 0)), max(s.To, to)
	s.Arrived, s.Last = max(s.Arrived, arrived), sequence
	s.Rows++
	s.bytes += len(encoded)
	if s.pending += len(encoded); s.pending >= groupBytes {
		return s.flush()
	}
	return nil
}

// flush writes a group, sorted so that the records of a partition are in pages of their own.
func (s *staged) flush() error {
	if len(s.group) == 0 {
		return nil
	}
	slices.SortStableFunc(s.group, func(a, b row) int { return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.From, b.From)) })
	if _, err := s.w.Write(s.group); err != nil {
		return err
	}
	clear(s.group)
	s.group, s.pending = s.group[:0], 0
	return s.w.Flush()
}

// finish writes what is left. The file stays open.
func (s *staged) finish() error {
	err := s.flush()
	if err == nil {
		err = s.w.Close()
	}
	if err == nil {
		var info os.FileInfo
		if info, err = s.file.Stat(); err == nil {
			s.Bytes = info.Size()
		}
	}
	return err
}

// drop removes the staged file, whatever became of it.
func (s *staged) drop() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name())
}

// wanted says which records are read.
type wanted struct {
	from, to  int64
	partition int // of digests; below 0: all
	// note is called for all rows, of which none is read then; nil: those that are wanted are.
	note func(*head)
}

func (w *wanted) has(h *head) bool {
	if w.note != nil {
		w.note(h)
		return false
	}
	return h.from < w.to && w.from < h.to && (w.partition < 0 || int(h.instance) == w.partition)
}

var errDamaged = errors.New("it is not what was written")

// readRows calls each for the records of a file that are wanted. What each gets is valid until it returns. How many were
// unreadable is returned: a record has a checksum.
func readRows(o object, as *File, want wanted, each func(h record.Header, body []byte, arrived int64) error) (broken int, err error) {
	defer func() {
		if r := recover(); r != nil { // the library panics for some broken files
			err = fmt.Errorf("%w: %v", errDamaged, r)
		}
	}()
	f, err := parquet.OpenFile(o, o.Size(), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(pageBytes))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if n := f.NumRows(); n != int64(as.Rows) {
		return 0, fmt.Errorf("%w: it has %d records, and its name says %d", errDamaged, n, as.Rows)
	}
	var columns [len(headColumns) + 1]int
	for i, name := range append(headColumns[:], "record") {
		column, ok := f.Schema().Lookup(name)
		if !ok {
			return 0, fmt.Errorf("%w: it has no column %s", errDamaged, name)
		}
		columns[i] = column.ColumnIndex
	}
	has := File{From: math.MaxInt64}
	for _, group := range f.RowGroups() {
		n, err := readGroup(group, columns[:], &want, &has, each)
		broken += n
		if err != nil {
			return broken, err
		}
	}
	if has.Arrived != as.Arrived || has.From != as.From || has.To != as.To {
		return broken, fmt.Errorf("%w: its records are of other times than its name says", errDamaged)
	}
	return broken, nil
}

// readGroup reads a group, and notes the times of all its rows.
func readGroup(group parquet.RowGroup, columns []int, want *wanted, has *File, each func(record.Header, []byte, int64) error) (broken int, err error) {
	var values [len(headColumns)][]int64
	chunks := group.ColumnChunks()
	for i := range values {
		if values[i], err = integers(chunks[columns[i]]); err != nil || len(values[i]) != len(values[0]) {
			return 0, fmt.Errorf("%w: %w", errDamaged, cmp.Or(err, io.ErrUnexpectedEOF))
		}
	}
	records := &recordColumn{pages: chunks[columns[len(headColumns)]].Pages()}
	defer records.close()
	for i := range values[0] {
		h := head{values[0][i], values[1][i], values[2][i], values[3][i]}
		has.Arrived, has.From, has.To = max(has.Arrived, h.arrived), min(has.From, max(h.from, 0)), max(has.To, h.to)
		if !want.has(&h) {
			continue
		}
		encoded, err := records.value(int64(i))
		if err != nil {
			return broken, fmt.Errorf("%w: %w", errDamaged, err)
		}
		header, body, _, err := record.Decode(encoded)
		if err != nil {
			broken++
			continue
		}
		if err := each(header, body, h.arrived); err != nil {
			return broken, err
		}
	}
	return broken, nil
}

// integers are all values of a column.
func integers(chunk parquet.ColumnChunk) (list []int64, err error) {
	pages := chunk.Pages()
	defer pages.Close()
	var part [1 << 9]parquet.Value
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		for values := page.Values(); ; {
			n, err := values.ReadValues(part[:])
			for i := range part[:n] {
				list = append(list, part[i].Int64())
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || n == 0 {
				return nil, cmp.Or(err, io.ErrNoProgress)
			}
		}
		parquet.Release(page)
	}
}

// recordColumn reads single values of a column, in ascending order of rows.
type recordColumn struct {
	pages  parquet.Pages
	page   parquet.Page
	values []parquet.Value // of page
	first  int64           // row of values[0]
}

func (c *recordColumn) value(row int64) ([]byte, error) {
	if c.page == nil || row >= c.first+int64(len(c.values)) {
		c.release()
		if err := c.pages.SeekToRow(row); err != nil {
			return nil, err
		}
		page, err := c.pages.ReadPage()
		if err != nil {
			return nil, err
		}
		c.page, c.first = page, row
		c.values = slices.Grow(c.values[:0], int(page.NumValues()))[:page.NumValues()]
		n, err := page.Values().ReadValues(c.values)
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			return nil, errors.Join(err, errDamaged)
		}
		c.values = c.values[:n]
	}
	return c.values[row-c.first].ByteArray(), nil
}

func (c *recordColumn) release() {
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
}

func (c *recordColumn) close() {
	c.release()
	_ = c.pages.Close()
}
