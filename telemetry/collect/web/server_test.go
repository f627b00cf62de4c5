package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/internal/certtest"
	"github.com/weirswitch/weir/telemetry/collect"
)

// files are those of a certificate, and of the authority that signed it.
func files(a *certtest.Authority, name string) collect.TLS {
	return collect.TLS{Certificate: a.Path(name + ".pem"), Key: a.Path(name + ".key"), CA: a.Path("ca.pem")}
}

// client is one with a certificate of the authority, or without any.
func client(t *testing.T, a *certtest.Authority, name string) *http.Client {
	t.Helper()
	c := &tls.Config{RootCAs: a.Pool()}
	if name != "" {
		of := files(a, name)
		own, _, err := of.Load("tls")
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}, Timeout: 2 * time.Minute}
}

// serve starts a server that answers / with who asks, and /admin for admins alone.
func serve(t *testing.T, c Config) *Server {
	t.Helper()
	c.Log = zap.NewNop()
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Connections == 0 {
		c.Connections = 64
	}
	s, err := Listen(c)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, IdentityOf(r)) })
	mux.HandleFunc("/large", func(w http.ResponseWriter, r *http.Request) {
		piece := make([]byte, 1<<20)
		for range 256 {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
	mux.Handle("/admin", s.Admins(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "changed") })))
	s.Serve(mux)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func get(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	r, err := c.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// TestRoles: over TLS whoever has a certificate reads, those named change, and nobody else comes
// in; by the socket root changes; over plain TCP one reads.
func TestRoles(t *testing.T) {
	a, stranger := certtest.New(t, "ca"), certtest.New(t, "ca")
	here := x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	for _, name := range []string{"collector", "operator", "monitor"} {
		a.Sign(t, name, here)
	}
	stranger.Sign(t, "operator", here)
	socket := filepath.Join(t.TempDir(), "s")
	s := serve(t, Config{Listen: "0.0.0.0:0", Socket: socket, TLS: files(a, "collector"), Admins: []string{"operator"}})
	_, port, _ := net.SplitHostPort(s.Address())
	base := "https://127.0.0.1:" + port
	if code, text := get(t, client(t, a, "monitor"), base+"/"); code != 200 || text != `certificate "monitor"` {
		t.Errorf("a reader: %d %s", code, text)
	}
	if code, text := get(t, client(t, a, "monitor"), base+"/admin"); code != 403 || !strings.Contains(text, `certificate "monitor" may read, but not change`) {
		t.Errorf("a reader who changes: %d %s", code, text)
	}
	if code, text := get(t, client(t, a, "operator"), base+"/admin"); code != 200 || text != "changed" {
		t.Errorf("an admin: %d %s", code, text)
	}
	forged := client(t, stranger, "operator")
	forged.Transport.(*http.Transport).TLSClientConfig.RootCAs = a.Pool()
	old := client(t, a, "monitor")
	old.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS12
	for name, c := range map[string]*http.Client{"nobody": client(t, a, ""), "another authority's": forged, "TLS 1.2": old} {
		if code, text := get(t, c, base+"/"); code != 0 {
			t.Errorf("%s comes in: %d %s", name, code, text)
		}
	}
	if code, _ := get(t, http.DefaultClient, "http://127.0.0.1:"+port+"/"); code == 200 {
		t.Error("plain HTTP is answered")
	}
	unix := &http.Client{Transport: &http.Transport{DialContext: dialUnix(socket)}}
	if code, text := get(t, unix, "http://anything/admin"); code != 200 {
		t.Errorf("the own user by the socket: %d %s", code, text)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := Listen(Config{Listen: "127.0.0.1:0", Socket: socket, Connections: 1}); err == nil {
		t.Error("a socket that somebody listens on is taken")
	}
	if got := s.Counters(); got.Denied != 1 {
		t.Errorf("%+v", got)
	}
}

// TestPlain: plain HTTP is for this machine: other addresses are refused, and so are requests
// under a name from elsewhere.
func TestPlain(t *testing.T) {
	if _, err := Listen(Config{Listen: "0.0.0.0:0", Connections: 1}); err == nil {
		t.Error("plain HTTP for everybody")
	}
	s := serve(t, Config{})
	base := "http://" + s.Address()
	if code, text := get(t, http.DefaultClient, base+"/"); code != 200 || text != fmt.Sprintf("uid %d", os.Geteuid()) {
		t.Errorf("%d %s", code, text)
	}
	if code, _ := get(t, http.DefaultClient, base+"/admin"); code != 403 {
		t.Errorf("anybody changes: %d", code)
	}
	for host, want := range map[string]int{"localhost:9470": 200, "127.0.0.1": 200, "[::1]:9470": 200, "[::1]": 200, "evil.example": 421, "127.0.0.1.evil.example:9470": 421, "localhost.evil.example": 421} {
		r, err := http.NewRequest("GET", base+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: %d, want %d", host, answer.StatusCode, want)
		}
	}
}

// TestMisbehaved: clients that send nothing, too slowly, or too much, and those that read
// nothing, lose their connections within their time; others are answered meanwhile, and
// nothing is left of any.
func TestMisbehaved(t *testing.T) {
	s := serve(t, Config{Connections: 32, patience: 3 * time.Second})
	before := runtime.NumGoroutine()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	var slow []net.Conn
	for range 12 {
		slow = append(slow, dial())
	}
	for _, c := range slow[4:8] {
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	}
	for _, c := range slow[8:] {
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhalf")
	}
	large := dial()
	fmt.Fprintf(large, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: %s", strings.Repeat("x", 64<<10))
	deaf := dial()
	fmt.Fprintf(deaf, "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
	// The slots of one address are half of all: those that come beyond are in place of the first ones that only wait.
	for range 8 {
		dial()
	}
	for i, c := range slow[:4] {
		_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
		if _, err := io.ReadAll(c); os.IsTimeout(err) {
			t.Errorf("idle client %d keeps its connection", i)
		}
	}
	_ = large.SetReadDeadline(time.Now().Add(time.Minute))
	if b, _ := io.ReadAll(large); !strings.Contains(string(b), " 431 ") {
		t.Errorf("a large header: %q", b)
	}
	elsewhere := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	if code, text := get(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: elsewhere.DialContext}}, "http://"+s.Address()+"/"); code != 200 {
		t.Errorf("another client: %d %s", code, text)
	}
	for i, c := range slow {
		_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
		if _, err := io.ReadAll(c); os.IsTimeout(err) {
			t.Errorf("slow client %d keeps its connection", i)
		}
	}
	deaf.Close()
	deadline := time.Now().Add(2 * time.Minute)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, before %d", n, before)
	}
}

// TestReaders: where the authority of the page signs switches' certificates too, only those that are named may read; with
// an authority of its own all may. A certificate that is revoked is refused at once, on connections that are open as well.
func TestReaders(t *testing.T) {
	a, publishers := certtest.New(t, "network"), certtest.New(t, "switches")
	for _, name := range []string{"collector", "s1", "reader", "operator"} {
		a.Sign(t, name, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	}
	get := func(s *Server, c *http.Client, path string) (int, error) {
		r, err := c.Get("https://" + s.Address() + path)
		if err != nil {
			return 0, err
		}
		defer r.Body.Close()
		_, _ = io.Copy(io.Discard, r.Body)
		return r.StatusCode, nil
	}
	for _, c := range []struct {
		name       string
		readers    []string
		publishers string
		may        map[string]int
	}{
		{"one authority", nil, a.Path("ca.pem"), map[string]int{"s1": 403, "reader": 403, "operator": 200}},
		{"one authority, readers", []string{"reader"}, a.Path("ca.pem"), map[string]int{"s1": 403, "reader": 200, "operator": 200}},
		{"two authorities", nil, publishers.Path("ca.pem"), map[string]int{"s1": 200, "reader": 200, "operator": 200}},
		{"two authorities, readers", []string{"reader"}, publishers.Path("ca.pem"), map[string]int{"s1": 403, "reader": 200}},
	} {
		s := serve(t, Config{TLS: files(a, "collector"), Admins: []string{"operator"}, Readers: c.readers, PublishersCA: c.publishers})
		for name, want := range c.may {
			if got, err := get(s, client(t, a, name), "/"); got != want {
				t.Errorf("%s: %s gets %d, %v", c.name, name, got, err)
			}
			if got, err := get(s, client(t, a, name), "/healthz"); got != 200 {
				t.Errorf("%s: %s gets /healthz: %d, %v", c.name, name, got, err)
			}
		}
	}
	a.Revoke(t, "crl.pem")
	config := files(a, "collector")
	config.Revoked = a.Path("crl.pem")
	s := serve(t, Config{TLS: config, Readers: []string{"reader"}})
	open := client(t, a, "reader")
	open.Transport.(*http.Transport).DisableKeepAlives = false
	if got, err := get(s, open, "/"); got != 200 {
		t.Fatal(got, err)
	}
	a.Revoke(t, "crl.pem", "reader")
	deadline := time.Now().Add(2 * time.Minute)
	for got := 200; got != 403; {
		if got, _ = get(s, open, "/"); time.Now().After(deadline) {
			t.Fatalf("a revoked certificate still gets %d", got)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if got, err := get(s, client(t, a, "reader"), "/"); err == nil {
		t.Errorf("a revoked certificate shakes hands and gets %d", got)
	}
}

// TestUsers: without certificates the collector is there for its own user, root, and those that are named.
func TestUsers(t *testing.T) {
	s := serve(t, Config{Users: []int{1234}})
	for id, want := range map[Identity]bool{
		{UID: 0}: true, {UID: os.Geteuid()}: true, {UID: 1234}: true, {UID: 4321}: false, {UID: -1}: false,
		{UID: 4321, Socket: true}: true, // past the socket's mode
	} {
		if _, ok := s.mayRead(id); ok != want {
			t.Errorf("%+v may read: %v", id, ok)
		}
	}
	r, err := http.Get("http://" + s.Address() + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if text, _ := io.ReadAll(r.Body); string(text) != fmt.Sprintf("uid %d", os.Geteuid()) {
		t.Errorf("the own user is %q", text)
	}
}

// TestIdle: idle connections keep no client out.
func TestIdle(t *testing.T) {
	s := serve(t, Config{Connections: 16})
	var held []net.Conn
	for range 100 {
		c, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	for range 20 {
		r, err := http.Get("http://" + s.Address() + "/")
		if err != nil || r.StatusCode != 200 {
			t.Fatalf("%v, %v", r, err)
		}
		_ = r.Body.Close()
	}
	for _, c := range held {
		_ = c.Close()
	}
}

func dialUnix(path string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
}
