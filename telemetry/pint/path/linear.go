package path

import (
	"math/bits"
	"slices"
)

// linearSystem is a system of equations over GF(2) in echelon form. The right
// side is a word, so that 64 systems with one matrix are solved at once. The
// row of an unknown has its first one there.
type linearSystem struct {
	columns, words int
	rank           int
	rows           []uint64 // by unknown: words of coefficients, one of right side
	filled         []bool
	values         []uint64
	pending        []uint64 // rows like those, which absorb takes in
	tables         [2][]uint64
}

type insertion int

const (
	independent insertion = iota
	dependent
	contradiction
)

func (l *linearSystem) reset(columns int) {
	l.columns, l.words, l.rank = columns, (columns+63)/64, 0
	l.filled = resize(l.filled, columns)
	l.pending = l.pending[:0]
	if n := columns * (l.words + 1); cap(l.rows) < n {
		l.rows = make([]uint64, n)
	} else {
		l.rows = l.rows[:n] // rows are read only where filled
	}
}

// insert adds an equation, which it overwrites.
func (l *linearSystem) insert(row []uint64) insertion {
	for w := range l.words {
		for row[w] != 0 {
			c := 64*w + bits.TrailingZeros64(row[w])
			at := l.rows[c*(l.words+1):][:l.words+1]
			if !l.filled[c] {
				copy(at, row)
				l.filled[c] = true
				l.rank++
				return independent
			}
			rest := row[w:]
			for i, x := range at[w:][:len(rest)] { // BCE
				rest[i] ^= x
			}
		}
	}
	if row[l.words] != 0 {
		return contradiction
	}
	return dependent
}

// solve gives the unknowns of a system of full rank. The result is valid until
// the next call.
func (l *linearSystem) solve() []uint64 {
	l.values = resize(l.values, l.columns)
	for c := l.columns - 1; c >= 0; c-- {
		row := l.rows[c*(l.words+1):][:l.words+1]
		v := row[l.words]
		for w := c / 64; w < l.words; w++ {
			for b := row[w]; b != 0; b &= b - 1 {
				v ^= l.values[64*w+bits.TrailingZeros64(b)] // its own is 0 yet
			}
		}
		l.values[c] = v
	}
	return l.values
}

// solveBits is solve where the right sides are bits: the result is a bit string.
func (l *linearSystem) solveBits() []uint64 {
	l.values = resize(l.values, l.words)
	for c := l.columns - 1; c >= 0; c-- {
		row := l.rows[c*(l.words+1):][:l.words+1]
		var sum uint64
		for w := c / 64; w < l.words; w++ {
			sum ^= row[w] & l.values[w] // its own bit is 0 yet
		}
		bit := row[l.words] ^ uint64(bits.OnesCount64(sum)&1)
		l.values[c/64] |= bit << (c % 64)
	}
	return l.values
}

// add returns an empty row for the next absorb, to be filled in.
func (l *linearSystem) add() []uint64 {
	n := len(l.pending)
	l.pending = slices.Grow(l.pending, l.words+1)[:n+l.words+1]
	row := l.pending[n:]
	clear(row)
	return row
}

// fewRows is up to how many rows are inserted one by one.
const fewRows = 64

// absorb takes in the rows that were added. It returns how many of them were not
// needed, and whether all of those agree. Many rows are eliminated by the method of
// the four Russians (Arlazarov and others, 1970): eight columns at a time, with
// tables of all sums of four pivot rows, so that each row takes one addition instead of four.
func (l *linearSystem) absorb() (dependents int, consistent bool) {
	consistent = true
	stride := l.words + 1
	if len(l.pending) <= fewRows*stride {
		for ; len(l.pending) > 0; l.pending = l.pending[:len(l.pending)-stride] {
			switch l.insert(l.pending[len(l.pending)-stride:]) {
			case dependent:
				dependents++
			case contradiction:
				consistent = false
			}
		}
		return dependents, consistent
	}
	for first := 0; first < l.columns && len(l.pending) > 0; first += 8 {
		l.choosePivots(first)
		l.reducePivots(first)
		l.clearColumns(first)
	}
	for ; len(l.pending) > 0; l.pending = l.pending[:len(l.pending)-stride] {
		if l.pending[len(l.pending)-1] == 0 {
			dependents++
		} else {
			consistent = false
		}
	}
	return dependents, consistent
}

// row is the row of an unknown, from word w on.
func (l *linearSystem) row(c, w int) []uint64 { return l.rows[c*(l.words+1)+w : (c+1)*(l.words+1)] }

// choosePivots moves pending rows to the unknowns of the eight columns that have
// none, as far as there are such rows. Rows that it looks at, and
// leaves pending, have zeros in the eight columns.
func (l *linearSystem) choosePivots(first int) {
	w, stride := first/64, l.words+1
	missing := 0
	for c := first; c < min(first+8, l.columns); c++ {
		if !l.filled[c] {
			missing++
		}
	}
	for at := 0; missing > 0 && at < len(l.pending); {
		row := l.pending[at:][:stride]
		if c := l.lead(row, first); c < 0 {
			at += stride
			continue
		} else {
			copy(l.row(c, 0), row)
			l.filled[c] = true
		}
		l.rank++
		missing--
		end := len(l.pending) - stride
		copy(row[w:], l.pending[end+w:]) // it has zeros before
		l.pending = l.pending[:end]
	}
}

// lead subtracts pivot rows of the eight columns until the row begins with a one in a
// column without, which it returns, or is zero in all of them: -1.
func (l *linearSystem) lead(row []uint64, first int) int {
	w := first / 64
	for {
		b := row[w] >> (first % 64) & 255
		if b == 0 {
			return -1
		}
		c := first + bits.TrailingZeros64(b)
		if !l.filled[c] {
			return c
		}
		addRow(row[w:], l.row(c, w))
	}
}

// reducePivots subtracts the pivot rows of the eight columns from each other, so that
// each has a one in no other's column.
func (l *linearSystem) reducePivots(first int) {
	w, end := first/64, min(first+8, l.columns)
	for c := end - 2; c >= first; c-- {
		for other := c + 1; other < end && l.filled[c]; other++ {
			if row := l.row(c, w); l.filled[other] && row[0]>>(other%64)&1 != 0 {
				addRow(row, l.row(other, w))
			}
		}
	}
}

// clearColumns subtracts pivot rows of the eight columns from the pending rows.
func (l *linearSystem) clearColumns(first int) {
	w, stride := first/64, l.words+1
	n := stride - w
	low, high := l.sums(0, first), l.sums(1, first+4)
	for at := 0; at < len(l.pending); at += stride {
		rest := l.pending[at+w : at+stride]
		b := int(rest[0] >> (first % 64) & 255)
		x, y := low[(b&15)*n:][:len(rest)], high[(b>>4)*n:][:len(rest)] // BCE
		for i := range rest {
			rest[i] ^= x[i] ^ y[i]
		}
	}
}

// sums lists, for each four bits, the sum of the pivot rows of the columns from first on
// where the bits are ones, from the columns' word on.
func (l *linearSystem) sums(table, first int) []uint64 {
	w := first / 64
	n := l.words + 1 - w
	t := resize(l.tables[table], 16*n)
	l.tables[table] = t
	for i := range 4 {
		c := first + i
		has := c < l.columns && l.filled[c]
		for k := range 1 << i {
			sum := t[(k|1<<i)*n:][:n]
			copy(sum, t[k*n:][:n])
			if has {
				addRow(sum, l.row(c, w))
			}
		}
	}
	return t
}

// addRow adds a row over GF(2), of which subtracting is no different.
func addRow(row, other []uint64) {
	other = other[:len(row)] // BCE
	for i := range row {
		row[i] ^= other[i]
	}
}
