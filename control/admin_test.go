package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/control/api"
)

// publicDir is a folder that every user may pass.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// as runs f on a thread that has become another user of one group, and is thrown
// away behind it. The kernel checks files and identifies peers by the thread.
func as(t *testing.T, uid, gid int, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user: run the tests as root")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		var errno unix.Errno
		for _, call := range [][4]uintptr{{unix.SYS_SETGROUPS}, {unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)}, {unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)}} {
			if _, _, errno = unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				done <- errno
				return
			}
		}
		f()
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// dialed is a client over a connection that exists.
func dialed(c net.Conn) *Client {
	return newClient(&http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }}, "http://weir")
}

const (
	nobody = 65534
	group  = 54321 // of nobody on this machine
)

// TestRoles: root and the switch's user change, the socket's group reads, others
// do not even connect. Each call of an admin leaves its line in the audit log, and
// so does each that was refused, by its role or by the switch.
func TestRoles(t *testing.T) {
	dir := publicDir(t)
	path, log := filepath.Join(dir, "s1.sock"), filepath.Join(dir, "audit.log")
	var member, stranger net.Conn
	var memberErr, strangerErr error
	l, err := Listen(path, fmt.Sprint(group))
	if err != nil {
		t.Fatal(err)
	}
	audit, err := OpenAudit(log)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeSwitch{stations: 3}
	s := Serve(l, f, Options{Audit: audit})
	defer s.Close()
	as(t, nobody, group, func() { member, memberErr = net.Dial("unix", path) })
	as(t, nobody, nobody, func() { stranger, strangerErr = net.Dial("unix", path) })
	if memberErr != nil || strangerErr == nil {
		t.Fatalf("member: %v; stranger: %v, %v", memberErr, stranger, strangerErr)
	}
	ctx := t.Context()
	c := dialed(member)
	if r, err := c.Ports(ctx, &api.PortsRequest{}); err != nil || len(r.Ports) != 1 {
		t.Errorf("a member reads %v, %v", r, err)
	}
	want := "uid 65534 may read, but not change: run as root or as the switch's user, or with a certificate that control.tls.admins names"
	for name, call := range adminCalls(ctx, c) {
		if err := call(); connect.CodeOf(err) != connect.CodePermissionDenied || Reason(err).Error() != want {
			t.Errorf("%s by a member: %v", name, err)
		}
	}
	if n := f.changes.Load(); n != 0 || s.Counters().Denied != 5 {
		t.Errorf("%d changes went through; %+v", n, s.Counters())
	}
	for name, call := range adminCalls(ctx, NewClient(path)) {
		if err := call(); err != nil {
			t.Errorf("%s by root: %v", name, err)
		}
	}
	if _, err := NewClient(path).Set(ctx, &api.SetRequest{Stage: "bad"}); err == nil || Reason(err).Error() != "stages.bad: the graph has no such stage" {
		t.Errorf("a refused change: %v", err)
	}
	if _, err := NewClient(path).Trace(ctx, &api.TraceRequest{Filter: "bad"}); err == nil {
		t.Error("a trace with a bad filter is accepted")
	}
	stream, err := NewClient(path).Capture(ctx, &api.CaptureRequest{Filter: "bad"})
	if err == nil {
		if stream.Receive() || stream.Err() == nil {
			t.Error("a capture with a bad filter is accepted")
		}
		_ = stream.Close()
	}
	checkAudit(t, log)
	if s.Counters() != (Counters{Denied: 5}) {
		t.Errorf("%+v", s.Counters())
	}
}

func adminCalls(ctx context.Context, c *Client) map[string]func() error {
	return map[string]func() error{
		"set":    func() error { _, err := c.Set(ctx, &api.SetRequest{Stage: "acl", List: "rule"}); return err },
		"reload": func() error { _, err := c.Reload(ctx, &api.ReloadRequest{}); return err },
		"clear":  func() error { _, err := c.Clear(ctx, &api.ClearRequest{Table: "fdb"}); return err },
		"trace":  func() error { _, err := c.Trace(ctx, &api.TraceRequest{}); return err },
		"capture": func() error {
			stream, err := c.Capture(ctx, &api.CaptureRequest{Count: 3})
			if err != nil {
				return err
			}
			defer stream.Close()
			for stream.Receive() {
			}
			return stream.Err()
		},
	}
}

func checkAudit(t *testing.T, log string) {
	t.Helper()
	file, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, _ := file.Stat()
	if info.Mode() != 0o640 {
		t.Errorf("the audit log has the mode %v", info.Mode())
	}
	results := map[string]int{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct {
			Time         time.Time
			UID, PID     int
			Call, Result string
			Asked        string
			Changed      []string
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Time.IsZero() || line.PID != os.Getpid() {
			t.Errorf("%v: %s", err, lines.Text())
		}
		if line.Asked == "" || line.Call == "set" && !strings.Contains(line.Asked, "{") {
			t.Errorf("what was asked for is not there: %s", lines.Text())
		}
		results[fmt.Sprintf("%d %s: %s %v", line.UID, line.Call, line.Result, line.Changed)]++
	}
	for _, call := range []string{"set", "reload", "clear", "trace", "capture"} {
		changed := "[]"
		if call == "set" {
			changed = "[+ stages.acl.rule[0] = {}]"
		}
		if results["65534 "+call+": refused: not an admin []"] != 1 || results["0 "+call+": done "+changed] != 1 {
			t.Errorf("%s is not there: %v", call, results)
		}
	}
	for _, line := range []string{"0 capture: begun []", "0 capture: bad is no filter []", "0 trace: bad is no filter []"} {
		if results[line] != 1 {
			t.Errorf("%s is there %d times", line, results[line])
		}
	}
	if len(results) != 14 || results["0 set: stages.bad: the graph has no such stage []"] != 1 {
		t.Errorf("%d kinds of lines: %v", len(results), results)
	}
}

// TestAuditDiskFull: changes go on, and what the log lacks is counted.
func TestAuditDiskFull(t *testing.T) {
	audit, err := OpenAudit("/dev/full")
	if err != nil {
		t.Fatal(err)
	}
	defer audit.Close()
	path := filepath.Join(t.TempDir(), "s1.sock")
	l, err := Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeSwitch{}
	s := Serve(l, f, Options{Audit: audit})
	defer s.Close()
	for range 5 {
		if _, err := NewClient(path).Set(t.Context(), &api.SetRequest{Stage: "acl"}); err != nil {
			t.Error(err)
		}
	}
	if n := f.changes.Load(); n != 5 || s.Counters().AuditLost != 5 {
		t.Errorf("%d changes, %+v", n, s.Counters())
	}
}

// TestAuditWholeLines: what a full disk cuts off takes no later line with it, nor does what an earlier process left.
func TestAuditWholeLines(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("weir", dir, "tmpfs", 0, "size=8k"); err != nil {
		t.Skipf("a small file system takes root: %v", err)
	}
	defer unix.Unmount(dir, 0)
	log, filler := filepath.Join(dir, "audit.log"), filepath.Join(dir, "filler")
	for file, size := range map[string]int{log: 4000, filler: 4096} { // the disk is full behind 96 more bytes of the log
		if err := os.WriteFile(file, bytes.Repeat([]byte{'x'}, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	audit, err := OpenAudit(log)
	if err != nil {
		t.Fatal(err)
	}
	defer audit.Close()
	write := func(asked string) {
		audit.write(zap.NewNop(), identity{}, "set", zap.String("asked", asked))
	}
	write(strings.Repeat("lost", 100))
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	write("kept")
	write("kept, too")
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) != 4 || len(lines[0]) != 4000 || !strings.Contains(lines[1], `"kept"`) || !strings.Contains(lines[2], `"kept, too"`) || lines[3] != "" || audit.Lost() != 1 {
		t.Errorf("%d lines lost, and there are %q", audit.Lost(), lines)
	}
}

// TestChangedByItself: what a signal asked for is of no user; a refusal of it is a warning.
func TestChangedByItself(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	audit, err := OpenAudit("")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{audit: audit, log: zap.New(core)}
	s.Changed("SIGHUP", nil, errors.New("no such key"))
	s.Changed("SIGHUP", &api.ChangeResponse{}, nil)
	for i, line := range logged.All() {
		if want := []zapcore.Level{zap.WarnLevel, zap.InfoLevel}[i]; line.Level != want || line.ContextMap()["uid"] != nil || line.ContextMap()["asked"] != "the switch's own file" {
			t.Errorf("line %d: %v %v", i, line.Level, line.ContextMap())
		}
	}
	if logged.Len() != 2 {
		t.Errorf("%d lines", logged.Len())
	}
}

func TestAuditNowhere(t *testing.T) {
	if _, err := OpenAudit(filepath.Join(t.TempDir(), "none", "audit.log")); err == nil || !strings.HasPrefix(err.Error(), "control.audit: open ") {
		t.Errorf("got %v", err)
	}
	if _, err := Listen(filepath.Join(t.TempDir(), "s1.sock"), "no-such-group"); err == nil || !strings.HasPrefix(err.Error(), "control.group: ") {
		t.Errorf("got %v", err)
	}
}

// TestConfigFaults: every fault, by its key.
func TestConfigFaults(t *testing.T) {
	for _, tt := range []struct {
		edit func(*Config)
		want []string
	}{
		{func(*Config) {}, nil},
		{func(c *Config) { c.Socket, c.Audit, c.Metrics = "s", "a", "localhost" }, []string{"socket: ", "audit: ", "metrics: "}},
		{func(c *Config) { c.Metrics = "localhost:1" }, []string{"metrics: "}},
		{func(c *Config) { c.Metrics = ":9464" }, nil},
		{func(c *Config) { c.TLS.Listen = "127.0.0.1:70000" }, []string{"tls.listen: ", "tls.certificate: is missing", "tls.key: ", "tls.client_ca: "}},
		{func(c *Config) { c.TLS = TLS{Certificate: "/c", Admins: []string{"a"}} }, []string{"tls.certificate: is set, but", "tls.admins: is set"}},
		{func(c *Config) {
			c.TLS = TLS{Listen: "127.0.0.1:1", Certificate: "/c", Key: "/k", ClientCA: "ca", Admins: []string{"x", ""}}
		}, []string{"tls.client_ca: \"ca\" is not an absolute", "tls.admins[1]: is empty"}},
		{func(c *Config) {
			c.TLS = TLS{Listen: "[::1]:1", Certificate: "/c", Key: "/k", ClientCA: "/ca", Admins: []string{"x"}}
		}, nil},
	} {
		c := DefaultConfig()
		c.Socket = "/run/weir/s1.sock"
		tt.edit(&c)
		var got []string
		if err := c.Validate(); err != nil {
			got = strings.Split(err.Error(), "\n")
		}
		if len(got) != len(tt.want) {
			t.Errorf("%+v: got %q, want %q", c, got, tt.want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], tt.want[i]) {
				t.Errorf("got %q, want %q", got[i], tt.want[i])
			}
		}
	}
}
