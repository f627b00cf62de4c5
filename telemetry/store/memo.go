package store

import (
	"slices"
	"sync"
)

// memoBytes bounds what a store remembers for questions, about.
const memoBytes = 64 << 20

// memo is what was found out about a store that does not change: questions about the same
// one need much of the same. It is safe for concurrent use.
type memo struct {
	gaps func() []gap

	mu    sync.Mutex
	known []remembered // what was asked for last is last
	bytes int64
}

type remembered struct {
	key   any
	value any
	bytes int64
}

// Freeze says that nothing will be added for now: until the next Add the store remembers what
// questions have in common. Views are frozen.
func (s *Store) Freeze() { s.memo = &memo{gaps: sync.OnceValue(s.findGaps)} }

// Remember returns what compute made of a frozen store for a key when it was called last, or has it
// made; of one that still changes it is made each time. Who gets it must not change
// it. bytes is the memory that the value takes: what was not asked for longest goes first, and what
// is too large is not kept, and neither is what came with an error. Keys compare by ==, and have a
// separate type in each package.
func (s *Store) Remember(key any, compute func() (value any, bytes int64, err error)) (any, error) {
	if s.memo == nil {
		value, _, err := compute()
		return value, err
	}
	if value, ok := s.memo.find(key); ok {
		return value, nil
	}
	// Others are not kept waiting: they may ask about something else, or give up.
	value, bytes, err := compute()
	if err == nil {
		s.memo.keep(remembered{key, value, bytes})
	}
	return value, err
}

func (m *memo) find(key any) (any, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.index(key)
	if i < 0 {
		return nil, false
	}
	found := m.known[i]
	m.known = append(slices.Delete(m.known, i, i+1), found)
	return found.value, true
}

func (m *memo) index(key any) int {
	return slices.IndexFunc(m.known, func(r remembered) bool { return r.key == key })
}

// rememberedBytes is what is kept beside a value.
const rememberedBytes = 256

func (m *memo) keep(r remembered) {
	r.bytes += rememberedBytes
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.bytes > memoBytes || m.index(r.key) >= 0 { // another question was faster
		return
	}
	m.known = append(m.known, r)
	m.bytes += r.bytes
	gone := 0
	for ; m.bytes > memoBytes; gone++ {
		m.bytes -= m.known[gone].bytes
	}
	m.known = slices.Delete(m.known, 0, gone)
}
