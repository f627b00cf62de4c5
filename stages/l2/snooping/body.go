package snooping

import (
	"encoding/binary"
	"time"
)

// query is what a querier asks.
type query struct {
	version    int     // of IGMP 1 to 3, of MLD 1 or 2
	group      Address // zero: a general query
	sources    int     // so many addresses follow in list
	list       []byte
	maxDelay   time.Duration // in which hosts answer
	suppress   bool          // routers' timers stay (the S flag)
	robustness int           // 0: not said
	interval   time.Duration // 0: not said
}

// exponential is a code of a floating point number of so many bits, of which the highest says that it is one (RFC 3376, 4.1.1).
func exponential(code uint, bits uint) uint {
	if code>>(bits-1) == 0 {
		return code
	}
	mantissa := bits - 4
	return (code&(1<<mantissa-1) | 1<<mantissa) << (code>>mantissa&7 + 3)
}

// readQuery reads a query that Read took for one.
func readQuery(v6 bool, b []byte) (q query) {
	size, fixed := 4, 8
	if v6 {
		size, fixed = 16, 24
		q.group = address6(b[8:])
	} else {
		q.group = address4(b[4:])
	}
	switch {
	case len(b) > fixed:
		q.version = 3
		q.suppress, q.robustness = b[fixed]&8 != 0, int(b[fixed]&7)
		q.interval = time.Duration(exponential(uint(b[fixed+1]), 8)) * time.Second
		q.list = b[fixed+4:]
		q.sources = min(int(binary.BigEndian.Uint16(b[fixed+2:])), len(q.list)/size)
		q.maxDelay = time.Duration(exponential(uint(b[1]), 8)) * 100 * time.Millisecond
	case b[1] == 0:
		q.version, q.maxDelay = 1, 10*time.Second
	default:
		q.version, q.maxDelay = 2, time.Duration(b[1])*100*time.Millisecond
	}
	if v6 {
		code := uint(binary.BigEndian.Uint16(b[4:]))
		q.version, q.maxDelay = 1, time.Duration(code)*time.Millisecond
		if len(b) > fixed {
			q.version, q.maxDelay = 2, time.Duration(exponential(code, 16))*time.Millisecond
		}
	}
	return q
}

// Types of records (RFC 3376, 4.2.12).
const (
	isInclude = 1 + iota
	isExclude
	toInclude
	toExclude
	allowNew
	blockOld
)

// record is what a host says of a group. Reports without records are of version 1 or 2 (MLD: 1): one of excluding nothing, and a leave is
// one of including nothing.
type record struct {
	kind    uint8
	version int // 3 (MLD: 2) where it was a record
	group   Address
	sources []byte // addresses, one behind the other
}

// eachRecord calls f for the records of a report that Read took for one. It reports false if the report ends before it says so, as one that
// was cut does.
func eachRecord(v6 bool, b []byte, f func(r *record)) bool {
	if v6 {
		switch b[0] {
		case mldReport1:
			f(&record{isExclude, 2, address6(b[8:]), nil})
			return true
		case mldDone:
			f(&record{toInclude, 2, address6(b[8:]), nil})
			return true
		}
	} else {
		switch b[0] {
		case igmpReport1:
			f(&record{isExclude, 1, address4(b[4:]), nil})
			return true
		case igmpReport2:
			f(&record{isExclude, 2, address4(b[4:]), nil})
			return true
		case igmpLeave:
			f(&record{toInclude, 2, address4(b[4:]), nil})
			return true
		}
	}
	size := 4
	if v6 {
		size = 16
	}
	count := int(binary.BigEndian.Uint16(b[6:]))
	b = b[8:]
	for range count {
		if len(b) < 4+size {
			return false
		}
		sources := size * int(binary.BigEndian.Uint16(b[2:]))
		length := 4 + size + sources + 4*int(b[1])
		if len(b) < length {
			return false
		}
		r := record{kind: b[0], version: 3, sources: b[4+size : 4+size+sources]}
		if v6 {
			r.group = address6(b[4:])
		} else {
			r.group = address4(b[4:])
		}
		f(&r)
		b = b[length:]
	}
	return true
}

// each calls f for the addresses of a list.
func each(v6 bool, list []byte, f func(Address)) {
	for ; v6 && len(list) >= 16; list = list[16:] {
		f(address6(list))
	}
	for ; !v6 && len(list) >= 4; list = list[4:] {
		f(address4(list))
	}
}
