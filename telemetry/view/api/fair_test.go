package api

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirswitch/weir/telemetry/query"
)

// TestShareOfOneClient: a client that asks without end has half of the requests at a time, and the others are there for others.
func TestShareOfOneClient(t *testing.T) {
	const requests, greedy = 40, 200
	e := testEngine(t)
	release := make(chan struct{})
	server := serve(t, Config{
		Limits: Limits{Requests: requests, Questions: 1},
		Client: func(r *http.Request) string { return r.Header.Get("Client") },
		Ask: func(ctx context.Context, q *query.Question) (any, error) {
			<-release
			return e.Ask(ctx, q)
		},
	})
	var answered, refused atomic.Int64
	var all sync.WaitGroup
	ask := func(client string) {
		all.Go(func() {
			switch status, text := post(t, server, "Ask", "application/json", strings.NewReader(volumeQuestion), "Client", client); {
			case status == http.StatusOK:
				answered.Add(1)
			case status == http.StatusTooManyRequests && strings.Contains(text, "20 requests of greedy are in progress, which is the limit of one client"):
				refused.Add(1)
			default:
				t.Errorf("%s: status %d: %s", client, status, text)
			}
		})
	}
	for range greedy {
		ask("greedy")
	}
	until(t, "the greedy client to have its share", func() bool { return refused.Load() == greedy-requests/2 })
	for _, other := range []string{"a", "b", "c"} {
		ask(other)
	}
	close(release)
	all.Wait()
	if answered.Load() != requests/2+3 {
		t.Errorf("%d answered, want %d", answered.Load(), requests/2+3)
	}
}

// TestTurns: a slot goes to the client that has the fewest questions under way, and of one client to the question that waits longest.
func TestTurns(t *testing.T) {
	turns := newTurns(2)
	var mu sync.Mutex
	var order []string
	var all sync.WaitGroup
	waiting := func() int {
		turns.mu.Lock()
		defer turns.mu.Unlock()
		return len(turns.waiting)
	}
	for range 2 { // the greedy client has both slots
		if err := turns.wait(t.Context(), "greedy"); err != nil {
			t.Fatal(err)
		}
	}
	for i, client := range []string{"greedy", "greedy", "greedy", "modest", "late"} {
		all.Go(func() {
			if err := turns.wait(t.Context(), client); err != nil {
				t.Error(err)
			}
			mu.Lock()
			order = append(order, client)
			mu.Unlock()
		})
		until(t, "a question to wait", func() bool { return waiting() == i+1 })
	}
	for n, want := range []string{"modest", "greedy", "late", "greedy", "greedy"} {
		turns.done([]string{"greedy", "greedy", "modest", "late", "greedy"}[n])
		until(t, "a slot to be given", func() bool { mu.Lock(); defer mu.Unlock(); return len(order) == n+1 })
		if mu.Lock(); order[n] != want {
			t.Errorf("question %d is of %s, want %s", n, order[n], want)
		}
		mu.Unlock()
	}
	all.Wait()
}

// TestTurnGivenUp: who gives up waiting takes no slot, also at the moment at which it is given.
func TestTurnGivenUp(t *testing.T) {
	turns := newTurns(1)
	for range 1000 {
		if err := turns.wait(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if turns.wait(ctx, "b") == nil {
				turns.done("b")
			}
		})
		all.Go(cancel)
		turns.done("a")
		all.Wait()
	}
	if turns.free != 1 || len(turns.running) != 0 || len(turns.waiting) != 0 {
		t.Errorf("%d slots free, %v under way, %d wait", turns.free, turns.running, len(turns.waiting))
	}
}
