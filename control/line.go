package control

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/internal/socket"
)

// line has the changes in the order in which they came, in which they are carried out: one at a time. An admin's connection to
// the unix socket is in it from the moment it is accepted, which is in the kernel's order; whatever Go's scheduler then makes
// of their goroutines, as in a process that was stopped while clients called. A connection over TCP, or one that is used
// again, joins when its request has been read so far that it is known to be a change.
type line struct {
	mu     sync.Mutex
	moved  *sync.Cond // somebody left
	places []*place
	// waiting is how many calls have been read and wait for their turn. Of a client that leaves earlier there is no call, and nothing to note.
	waiting int
	at      map[net.Conn]*place
}

// place is a connection's in the line, or outside of it.
type place struct {
	line *line
	conn net.Conn
	in   bool
}

func newLine() *line {
	l := &line{at: map[net.Conn]*place{}}
	l.moved = sync.NewCond(&l.mu)
	return l
}

// accepted gives a new connection a place, in the line or outside.
func (l *line) accepted(c net.Conn, in bool) *place {
	p := &place{line: l, conn: c}
	l.mu.Lock()
	l.at[c] = p
	l.mu.Unlock()
	if in {
		p.join()
	}
	return p
}

// state follows the connections of a http.Server to their end.
func (l *line) state(c net.Conn, s http.ConnState) {
	if s != http.StateClosed && s != http.StateHijacked {
		return
	}
	l.mu.Lock()
	p := l.at[c]
	delete(l.at, c)
	l.mu.Unlock()
	if p != nil {
		p.leave()
	}
}

// join puts a place at the end of the line, if it is not in it.
func (p *place) join() {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	if !p.in {
		p.in = true
		p.line.places = append(p.line.places, p)
	}
}

func (p *place) leave() {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	if !p.in {
		return
	}
	p.in = false
	for i, other := range p.line.places {
		if other == p {
			p.line.places = append(p.line.places[:i], p.line.places[i+1:]...)
			break
		}
	}
	p.line.moved.Broadcast()
}

// wait returns when all before have left the line, but for connections on which nothing was asked yet. What was asked leaves
// in the end: it is carried out, or its deadline passes.
func (p *place) wait() {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	p.line.waiting++
	for p.in && p.line.before(p) {
		p.line.moved.Wait()
	}
	p.line.waiting--
}

func (l *line) before(p *place) bool {
	for _, other := range l.places {
		if other == p {
			return false
		}
		if socket.Asked(other.conn) {
			return true
		}
	}
	return false
}

// placeKey finds a connection's place in a context.
type placeKey struct{}

// changing are the calls that wait in the line.
var changing = map[string]bool{api.AdminSetProcedure: true, api.AdminReloadProcedure: true, api.AdminClearProcedure: true}

// inLine keeps requests in the line that are changes, until they are answered, and takes others out.
func inLine(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, ok := r.Context().Value(placeKey{}).(*place); ok {
			if changing[r.URL.Path] && identityOf(r.Context()).admin {
				p.join()
				defer p.leave()
			} else {
				p.leave()
			}
		}
		next.ServeHTTP(w, r)
	})
}

// errLeft is the reason of calls whose clients do not wait any more, and have said that they failed.
var errLeft = errors.New("not done: the client had left before")

// inTurn makes a call of an admin when it is its turn, unless its client has left by then.
func inTurn[T any](ctx context.Context, call func() (T, error)) (answer T, err error) {
	p, ok := ctx.Value(placeKey{}).(*place)
	if ok {
		p.wait()
	}
	// The context is cancelled by a goroutine, which may not have seen yet what the kernel knows.
	if ctx.Err() != nil || ok && socket.Left(p.conn) {
		return answer, errLeft
	}
	return call()
}
