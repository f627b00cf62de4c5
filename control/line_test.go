package control

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirswitch/weir/control/api"
)

// orderedSwitch notes in which order it is changed. A change waits for hold, if that is set, behind signalling that it began.
type orderedSwitch struct {
	fakeSwitch
	mu    sync.Mutex
	lists []string
	began chan string
	hold  chan struct{}
}

func (o *orderedSwitch) Set(q *api.SetRequest) (*api.ChangeResponse, error) {
	o.mu.Lock()
	o.lists = append(o.lists, q.List)
	o.mu.Unlock()
	if o.hold != nil {
		o.began <- q.List
		<-o.hold
	}
	return &api.ChangeResponse{}, nil
}

func (o *orderedSwitch) made() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lists)
}

// TestOrder: clients that came while none was accepted, as at a switch that is stopped, are served in the order in which they came.
// One that asks for nothing holds none of them up.
func TestOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s1.sock")
	l, err := Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	var conns []net.Conn
	for i := range 40 {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i == 3 {
			continue // says nothing
		}
		list := fmt.Sprintf("list%02d", i)
		body := fmt.Sprintf(`{"stage":"acl","list":%q}`, list)
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", api.AdminSetProcedure, len(body), body); err != nil {
			t.Fatal(err)
		}
		want, conns = append(want, list), append(conns, c)
	}
	o := &orderedSwitch{}
	s := Serve(l, o, Options{})
	defer s.Close()
	for _, c := range conns {
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", r, err)
		}
	}
	if got := o.made(); !slices.Equal(got, want) {
		t.Errorf("changed in the order %v", got)
	}
}

// TestLeft: a change whose client has left before its turn is not carried out, and the audit log says so.
func TestLeft(t *testing.T) {
	dir := t.TempDir()
	path, log := filepath.Join(dir, "s1.sock"), filepath.Join(dir, "audit.log")
	l, err := Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	audit, err := OpenAudit(log)
	if err != nil {
		t.Fatal(err)
	}
	o := &orderedSwitch{began: make(chan string, 3), hold: make(chan struct{})}
	s := Serve(l, o, Options{Audit: audit})
	defer s.Close()
	set := func(ctx context.Context, list string) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := NewClient(path).Set(ctx, &api.SetRequest{Stage: "acl", List: list})
			done <- err
		}()
		return done
	}
	first := set(t.Context(), "first")
	<-o.began
	// The second one waits until the first is done, and leaves.
	ctx, leave := context.WithCancel(t.Context())
	second := set(ctx, "second")
	for deadline := time.Now().Add(time.Minute); s.line.calls() < 1 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	leave()
	if err := <-second; err == nil {
		t.Error("a client that left has an answer")
	}
	third := set(t.Context(), "third")
	close(o.hold)
	if err1, err3 := <-first, <-third; err1 != nil || err3 != nil {
		t.Errorf("%v, %v", err1, err3)
	}
	if got := o.made(); !slices.Equal(got, []string{"first", "third"}) {
		t.Errorf("changed: %v", got)
	}
	// The third one need not wait for the second to be noted: it has left the line.
	const want = `"asked":"add stages.acl.second`
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(log)
		if err == nil && strings.Contains(string(text), want) && strings.Contains(string(text), errLeft.Error()) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("want %s in %s, %v", want, text, err)
		}
	}
}

// calls counts the calls that wait for their turn.
func (l *line) calls() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}
