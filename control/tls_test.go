package control

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/internal/certtest"
)

// signClient makes a client's certificate, good until end, or for an hour.
func signClient(t *testing.T, a *certtest.Authority, name string, end time.Time) {
	t.Helper()
	a.Sign(t, name, x509.Certificate{NotAfter: end, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// tlsServer is a server with certificates on both sides.
type tlsServer struct {
	*certtest.Authority
	*Server
	f       *fakeSwitch
	address string
	socket  string
}

func serveTLS(t *testing.T) *tlsServer {
	t.Helper()
	a := certtest.New(t, "tests")
	a.Sign(t, "switch", x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	signClient(t, a, "operator", time.Time{})
	signClient(t, a, "monitor", time.Time{})
	signClient(t, a, "expired", time.Now().Add(-time.Minute))
	tcp, err := ListenTLS(TLS{Listen: "127.0.0.1:0", Certificate: a.Path("switch.pem"), Key: a.Path("switch.key"), ClientCA: a.Path("ca.pem"), Admins: []string{"operator"}})
	if err != nil {
		t.Fatal(err)
	}
	s := &tlsServer{Authority: a, f: &fakeSwitch{stations: 3}, address: tcp.Addr().String(), socket: filepath.Join(t.TempDir(), "s1.sock")}
	l, err := Listen(s.socket, "")
	if err != nil {
		t.Fatal(err)
	}
	s.Server = Serve(l, s.f, Options{TCP: tcp, Admins: []string{"operator"}})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *tlsServer) dial(t *testing.T, from *certtest.Authority, name string) *Client {
	t.Helper()
	c, err := NewTLSClient(s.address, ClientTLS{Certificate: from.Path(name + ".pem"), Key: from.Path(name + ".key"), CA: s.Path("ca.pem")})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCertificates: a certificate of the authority reads, one that is named
// changes, and all others end in the handshake.
func TestCertificates(t *testing.T) {
	s := serveTLS(t)
	ctx := t.Context()
	for _, name := range []string{"operator", "monitor"} {
		c := s.dial(t, s.Authority, name)
		if r, err := c.Report(ctx, &api.ReportRequest{}); err != nil || r.Name != "s1" {
			t.Errorf("%s reads %v, %v", name, r, err)
		}
		if e, err := c.FdbEntries(ctx); err != nil || len(e) != 3 {
			t.Errorf("%s reads %v, %v", name, e, err)
		}
		for call, f := range adminCalls(ctx, c) {
			err := f()
			if name == "operator" && err != nil || name == "monitor" && connect.CodeOf(err) != connect.CodePermissionDenied {
				t.Errorf("%s by %s: %v", call, name, err)
			}
		}
	}
	foreign := certtest.New(t, "others")
	signClient(t, foreign, "operator", time.Time{})
	for what, c := range map[string]*Client{"another authority's": s.dial(t, foreign, "operator"), "expired": s.dial(t, s.Authority, "expired")} {
		if _, err := c.Report(ctx, &api.ReportRequest{}); err == nil {
			t.Errorf("a certificate that is %s is good enough", what)
		}
	}
	pool := s.Pool()
	own, err := tls.LoadX509KeyPair(s.Path("operator.pem"), s.Path("operator.key"))
	if err != nil {
		t.Fatal(err)
	}
	for what, config := range map[string]*tls.Config{
		"no certificate": {RootCAs: pool},
		"TLS 1.2":        {RootCAs: pool, MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}},
	} {
		if _, err := newTLSClient(s.address, config).Report(ctx, &api.ReportRequest{}); err == nil {
			t.Errorf("%s is good enough", what)
		}
	}
	plain, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	_, _ = io.WriteString(plain, "POST "+api.SwitchReportProcedure+" HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
	if answer, _ := io.ReadAll(plain); strings.Contains(string(answer), " 200 ") {
		t.Errorf("without TLS it answers %q", answer)
	}
	if n := s.f.changes.Load(); n != 3 { // set, reload and clear by the operator
		t.Errorf("%d changes, want 3", n)
	}
	if _, err := s.dial(t, s.Authority, "monitor").Report(ctx, &api.ReportRequest{}); err != nil {
		t.Errorf("the server is harmed: %v", err)
	}
}

func TestListenTLSFaults(t *testing.T) {
	a := certtest.New(t, "tests")
	signClient(t, a, "x", time.Time{})
	empty := a.Path("empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for want, c := range map[string]TLS{
		"control.tls.certificate: ":                               {"127.0.0.1:0", a.Path("none"), a.Path("x.key"), a.Path("ca.pem"), "", nil, nil},
		"control.tls.client_ca: " + empty + " has no certificate": {"127.0.0.1:0", a.Path("x.pem"), a.Path("x.key"), empty, "", nil, nil},
		"control.tls.listen: ":                                    {taken.Addr().String(), a.Path("x.pem"), a.Path("x.key"), a.Path("ca.pem"), "", nil, nil},
	} {
		if _, err := ListenTLS(c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestAbuse: a thousand connections that say nothing, over TCP and on the socket,
// are bounded, and soon gone; requests that are too large are refused before they
// are held; and all the while others are served.
func TestAbuse(t *testing.T) {
	s := serveTLS(t)
	ctx := t.Context()
	before := runtime.NumGoroutine()
	var idle []net.Conn
	closed := new(atomic.Int64)
	for i := range 1000 {
		network, address := "tcp", s.address
		if i%2 == 1 {
			network, address = "unix", s.socket
		}
		c, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
		go func() {
			_, _ = c.Read(make([]byte, 1))
			closed.Add(1)
		}()
	}
	defer func() {
		for _, c := range idle {
			_ = c.Close()
		}
	}()
	waitFor(t, "most are refused", func() bool { return s.Counters().Refused >= 1000-maxReaders-maxAdmins })
	// Each accepted connection takes a goroutine, or two.
	if n := runtime.NumGoroutine() - before - 1000; n > 3*(maxReaders+maxAdmins) {
		t.Errorf("%d goroutines for idle connections", n)
	}
	waitFor(t, "all are closed", func() bool { return closed.Load() == 1000 })
	for _, c := range []*Client{NewClient(s.socket), s.dial(t, s.Authority, "operator")} {
		if _, err := c.Report(ctx, &api.ReportRequest{}); err != nil {
			t.Errorf("behind idle connections: %v", err)
		}
		// A request that reads has a small bound, one that changes a large one.
		large := &api.PintRequest{}
		large.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), strings.Repeat("x", maxRequest)))
		if _, err := c.Pint(ctx, large); connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Errorf("an oversized request: %v", err)
		}
		if _, err := c.Reload(ctx, &api.ReloadRequest{Toml: strings.Repeat("#", 1<<20)}); err != nil {
			t.Errorf("a configuration of a megabyte: %v", err)
		}
		if _, err := c.Reload(ctx, &api.ReloadRequest{Toml: strings.Repeat("#", maxChange+1)}); err == nil {
			t.Error("a configuration beyond the bound is read")
		}
	}
	fmt.Printf("abuse: 1000 idle connections, %d refused at once, the rest closed in %v; %d changes\n", s.Counters().Refused, requestWait, s.f.changes.Load())
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after 20 s: %s", what)
		}
	}
}

// TestReadersCannotKeepAdminsOut: with all connections of readers taken, root is served.
func TestReadersCannotKeepAdminsOut(t *testing.T) {
	dir := publicDir(t)
	path := filepath.Join(dir, "s1.sock")
	l, err := Listen(path, fmt.Sprint(group))
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, &fakeSwitch{}, Options{})
	defer s.Close()
	as(t, nobody, group, func() {
		for range maxReaders + 50 {
			c, err := net.Dial("unix", path)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	})
	waitFor(t, "50 are refused", func() bool { return s.Counters().Refused == 50 })
	if _, err := NewClient(path).Set(t.Context(), &api.SetRequest{Stage: "acl"}); err != nil {
		t.Error(err)
	}
}

// FuzzRequest: with any bytes on a connection, the server lives, and answers
// the next client.
func FuzzRequest(f *testing.F) {
	path := filepath.Join(f.TempDir(), "s1.sock")
	l, err := Listen(path, "")
	if err != nil {
		f.Fatal(err)
	}
	s := Serve(l, &fakeSwitch{stations: 3}, Options{})
	f.Cleanup(func() { _ = s.Close() })
	for _, body := range []string{"{}", `{"stage":"acl","list":"rule","at":-1,"fields":{"a":"b"}}`, "\x0a\x03acl", "\x00\x00\x00\x00\x02{}"} {
		for _, call := range []string{api.AdminSetProcedure, api.AdminReloadProcedure, api.AdminCaptureProcedure, api.SwitchFdbProcedure, api.SwitchPintProcedure} {
			for _, kind := range []string{"application/json", "application/proto", "application/connect+json", "application/grpc"} {
				f.Add([]byte(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: weir\r\nContent-Type: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", call, kind, len(body), body)))
			}
		}
	}
	f.Add([]byte("POST " + api.AdminTraceProcedure + " HTTP/1.1\r\nHost: w\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\nContent-Type: application/proto\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(raw)
		_ = c.(*net.UnixConn).CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
		if _, err := NewClient(path).Version(t.Context(), &api.VersionRequest{}); err != nil {
			t.Fatalf("the server is harmed: %v", err)
		}
	})
}
