package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/internal/handover"
)

// The kinds of node/takeover.go, in the order in which they pass, and whether the new process sends them.
const (
	sayHello handover.Kind = iota + 1
	sayOffer
	sayPort
	sayStage
	sayRest
	sayQueue
	sayEnd
	sayReady
	sayGo
	sayForwarding
	sayLeft
	sayShared // a stage's memory, between ports and stages
	sayRested // and what it has beside it, behind the queues
	sayPeers  // of a port, in front of the queues
)

var kinds = map[handover.Kind]struct {
	name string
	mine bool // the new process sends it
}{
	sayHello: {"hello", true}, sayOffer: {"offer", false}, sayPort: {"port", false}, sayStage: {"stage", false}, sayRest: {"rest", true},
	sayQueue: {"queue", false}, sayEnd: {"end", false}, sayReady: {"ready", true}, sayGo: {"go", false}, sayForwarding: {"forwarding", true}, sayLeft: {"left", false},
	sayShared: {"shared", false}, sayRested: {"rested", false}, sayPeers: {"peers", false},
}

// relay passes the messages of one takeover on between two real processes, and lets a test act at one of them: it is at the socket of the old process
// until the new one has connected.
type relay struct {
	at    handover.Kind
	act   func() (killed bool) // before the message passes
	done  chan struct{}        // no message passes any more
	acted bool
	err   error
}

// relay makes a relay that acts at the first message of a kind. If act has killed the new process, a message for it does not pass.
func (b *testbed) relay(t *testing.T, at handover.Kind, act func() (killed bool)) *relay {
	t.Helper()
	r := &relay{at: at, act: act, done: make(chan struct{})}
	path := filepath.Join(b.dir, "s1.takeover")
	must(t, os.Rename(path, path+".real"))
	l, err := net.Listen("unix", path)
	must(t, err)
	go func() {
		defer close(r.done)
		c, err := l.Accept()
		r.err = errors.Join(err, l.Close(), os.Rename(path+".real", path)) // before any message: the old process removes its socket at its end
		if r.err != nil {
			return
		}
		old, err := net.Dial("unix", path)
		if err != nil {
			r.err = errors.Join(err, c.Close())
			return
		}
		r.pass(handover.NewConn(c.(*net.UnixConn)), handover.NewConn(old.(*net.UnixConn)))
	}()
	return r
}

// pass passes messages on in both directions until either end has closed.
func (r *relay) pass(young, old *handover.Conn) {
	var directions sync.WaitGroup
	one := func(from, to *handover.Conn) {
		defer to.Close() // the other direction ends by it
		for {
			m, err := from.Next()
			if err != nil {
				if errors.As(err, new(handover.RefusedError)) {
					to.Refuse(err)
				}
				return
			}
			if m.Kind == r.at && !r.acted {
				r.acted = true // by one direction alone, which has messages of the kind
				killed := r.act()
				if killed && from == old {
					m.Close()
					return
				}
				if killed {
					_ = to.CloseRead() // none reads the old process's answer
				}
			}
			var values any
			if len(m.JSON) != 0 {
				values = json.RawMessage(m.JSON)
			}
			err = to.Send(m.Kind, values, m.Rest, m.Files...)
			m.Close()
			if err != nil {
				return
			}
		}
	}
	directions.Go(func() { one(young, old) })
	directions.Go(func() { one(old, young) })
	directions.Wait()
}

// begin starts a process that is to take the switch over.
func (b *testbed) begin(t *testing.T, config string) *process {
	t.Helper()
	p := &process{cmd: weirCommand("switch", "-c", config, "--takeover", "--report", "json")}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	must(t, b.ns.Start(p.cmd))
	t.Cleanup(p.kill)
	return p
}

// logged is a log that can be read while the process writes it.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// awaitLog waits until the log says something behind its first bytes.
func (p *process) awaitLog(t *testing.T, from int, what string) {
	t.Helper()
	awaitThat(t, fmt.Sprintf("the log to say %q", what), func() (string, bool) {
		now := p.stderr.String()[from:]
		return now, strings.Contains(now, what)
	})
}

// TestTakeoverKilled: a new process that is killed at any message of a takeover leaves the old one as it was until the old one has sent go. From then on
// the switch is the new process's: the old one ends, and nothing is in the way of another start.
func TestTakeoverKilled(t *testing.T) {
	b := newTestbed(t, 0)
	config := b.config(t, "s1", append([]string{`"patch"`, `"l2"`, "[stages.patch]\npairs = [[\"p0\", \"p1\"]]\n", ""}, takeable...)...)
	p := b.start(t, config)
	b.exchange(t, 5)
	whole := t
	for at := sayHello; at <= sayLeft; at++ {
		name := "when it gets "
		if kinds[at].mine {
			name = "when it has sent "
		}
		t.Run(name+kinds[at].name, func(t *testing.T) {
			var q *process
			started := make(chan struct{})
			from := len(p.stderr.String())
			r := b.relay(t, at, func() bool {
				<-started
				must(t, q.cmd.Process.Signal(unix.SIGKILL))
				_ = q.cmd.Wait()
				return true
			})
			q = b.begin(t, config)
			close(started)
			<-r.done
			if r.err != nil || !r.acted {
				t.Fatalf("the relay: %v, the message has come: %v", r.err, r.acted)
			}
			if at < sayGo {
				want := "takeover refused, the switch goes on"
				if at >= sayRest {
					want = "no packet was forwarded for"
				}
				p.awaitLog(t, from, want)
				b.exchange(t, 5)
				return
			}
			_ = p.cmd.Wait()
			want := "taken over"
			if at == sayGo {
				want = "did not say that it forwards"
			}
			if log := p.stderr.String()[from:]; !strings.Contains(log, want) {
				t.Errorf("the old process says nothing of %q: %s", want, log)
			}
			p.kept(t)
			b.checkClean(t)
			status, _, stderr := b.inside(t, "nic", "restore")
			if status != 0 {
				t.Errorf("nic restore: %s", stderr)
			}
			p = b.start(whole, config) // it lives on
			b.exchange(t, 5)
		})
	}
	if status := p.stop(t); status != 0 {
		t.Errorf("the old process ended with %d: %s", status, &p.stderr)
	}
	p.kept(t)
	b.checkClean(t)
	b.checkNoTakeover(t)
}

// inside runs a command in the switch's namespace.
func (b *testbed) inside(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := weirCommand(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	must(t, b.ns.Start(cmd))
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestTakeoverMadeAnew: a port that has lost its interface and is opened on another one of its name while the new process prepares refuses the takeover:
// what that process has is the sockets of the interface before. The same for one whose interface is gone.
func TestTakeoverMadeAnew(t *testing.T) {
	for _, c := range []struct {
		name, want string // want in the old process's log
		back       bool
	}{
		{"opened anew", "opened anew during the takeover", true},
		// By the new process, or by the old one while it takes the interface's frames back.
		{"gone", "no packet was forwarded for", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newTestbed(t, 0)
			config := b.config(t, "s1", takeable...)
			p := b.start(t, config)
			b.exchange(t, 5)
			from := len(p.stderr.String())
			r := b.relay(t, sayRest, func() bool {
				must(t, b.ns.DeleteLink("p0"))
				b.await(t, "s1", "gone")
				if c.back {
					b.recreate(t)
					b.await(t, "s1", "up")
				}
				return false
			})
			q := b.begin(t, config)
			p.awaitLog(t, from, c.want)
			_ = q.cmd.Wait()
			<-r.done
			if status := q.cmd.ProcessState.ExitCode(); r.err != nil || !r.acted || status == 0 {
				t.Fatalf("the relay: %v, the message has come: %v; the new process ended with %d: %s", r.err, r.acted, status, &q.stderr)
			}
			if !c.back {
				b.recreate(t)
				b.await(t, "s1", "up")
			}
			b.exchange(t, 5)
			q = b.takeOver(t, config, p)
			b.exchange(t, 5)
			if status := q.stop(t); status != 0 {
				t.Errorf("the new process ended with %d: %s", status, &q.stderr)
			}
			p.kept(t)
			q.kept(t)
			b.checkClean(t)
			b.checkNoTakeover(t)
		})
	}
}
