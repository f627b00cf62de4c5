package api

import (
	"context"
	"sync"
)

// turns gives the slots in which questions are answered to clients in turn: of those that wait, next is the one with the
// fewest questions under way, and of these the one that waits longest. So a client that asks very much delays itself.
type turns struct {
	mu      sync.Mutex
	free    int
	running map[string]int
	waiting []*turn // in the order of arrival
}

// turn is a question that waits.
type turn struct {
	client string
	ready  chan struct{}
	given  bool // guarded by turns.mu
}

func newTurns(slots int) *turns { return &turns{free: slots, running: map[string]int{}} }

// wait takes a slot, and gives up when ctx ends.
func (t *turns) wait(ctx context.Context, client string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.running[client]++
		t.mu.Unlock()
		return nil
	}
	x := &turn{client: client, ready: make(chan struct{})}
	t.waiting = append(t.waiting, x)
	t.mu.Unlock()
	select {
	case <-x.ready:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	if x.given { // at the same moment
		t.mu.Unlock()
		t.done(client)
		return ctx.Err()
	}
	for i := range t.waiting {
		if t.waiting[i] == x {
			t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
			break
		}
	}
	t.mu.Unlock()
	return ctx.Err()
}

// done gives a slot back.
func (t *turns) done(client string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[client]--; t.running[client] == 0 {
		delete(t.running, client)
	}
	if len(t.waiting) == 0 {
		t.free++
		return
	}
	next := 0
	for i, x := range t.waiting {
		if t.running[x.client] < t.running[t.waiting[next].client] {
			next = i
		}
	}
	x := t.waiting[next]
	t.waiting = append(t.waiting[:next], t.waiting[next+1:]...)
	x.given = true
	t.running[x.client]++
	close(x.ready)
}

// share bounds what one client has under way at a time.
type share struct {
	most int
	mu   sync.Mutex
	of   map[string]int
}

func (s *share) take(client string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[client] >= s.most {
		return false
	}
	s.of[client]++
	return true
}

func (s *share) leave(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[client]--; s.of[client] == 0 {
		delete(s.of, client)
	}
}

// clientKey is the name of the client in a call's context.
type clientKey struct{}

func clientOf(ctx context.Context) string {
	name, _ := ctx.Value(clientKey{}).(string)
	return name
}
