package jetstream

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/weirswitch/weir/internal/certtest"
)

// pair makes a certificate for both sides, and its key.
func pair(t *testing.T, a *certtest.Authority, name string) (cert, key string) {
	t.Helper()
	a.Sign(t, name, x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	return a.Path(name + ".pem"), a.Path(name + ".key")
}

// outcome tells whether a connection is made, or why not: what is said with want in it, at
// whichever attempt; a busy machine may cost one its time.
func outcome(t *testing.T, o Options, want string) error {
	t.Helper()
	said := make(chan error, 100)
	say := func(err error) {
		select {
		case said <- err:
		default:
		}
	}
	dial(t, o, Events{Up: func(string) { say(nil) }, Down: say, Fault: say}.Options()...)
	var last error
	for late := time.After(2 * time.Minute); ; {
		select {
		case err := <-said:
			if err == nil || want != "" && strings.Contains(strings.ToLower(err.Error()), want) {
				return err
			}
			last = err
		case <-late:
			t.Fatalf("neither a connection nor %q in two minutes; last: %v", want, last)
		}
	}
}

// TestTLS: both sides prove who they are, or nothing is said.
func TestTLS(t *testing.T) {
	ours, theirs := certtest.New(t, "test"), certtest.New(t, "test")
	cert, key := pair(t, ours, "server")
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots, err := readRoots(ours.Path("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, &server.Options{TLS: true, TLSVerify: true, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{own}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}})
	_, port, _ := net.SplitHostPort(s.Addr().String())
	cert, key = pair(t, ours, "s1")
	foreignCert, foreignKey := pair(t, theirs, "s1")
	for _, c := range []struct {
		name string
		o    Options
		want string // in the error; "": none
	}{
		{"good", Options{TLSCA: ours.Path("ca.pem"), TLSCert: cert, TLSKey: key}, ""},
		{"another authority's server", Options{TLSCA: theirs.Path("ca.pem"), TLSCert: cert, TLSKey: key}, "certificate"},
		{"another authority's client", Options{TLSCA: ours.Path("ca.pem"), TLSCert: foreignCert, TLSKey: foreignKey}, "tls"},
		{"no certificate", Options{TLSCA: ours.Path("ca.pem")}, "tls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Servers = []string{"nats://127.0.0.1:" + port}
			err := outcome(t, c.o, c.want)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestCredentials: a user of an account of a trusted operator comes in by a
// credentials file, and one of another operator does not.
func TestCredentials(t *testing.T) {
	operator := func() (nkeys.KeyPair, *jwt.OperatorClaims) {
		kp, _ := nkeys.CreateOperator()
		pub, _ := kp.PublicKey()
		return kp, jwt.NewOperatorClaims(pub)
	}
	trusted, claims := operator()
	stranger, _ := operator()
	resolver := &server.MemAccResolver{}
	credentials := func(op nkeys.KeyPair, name string) string {
		account, _ := nkeys.CreateAccount()
		accountKey, _ := account.PublicKey()
		text, err := jwt.NewAccountClaims(accountKey).Encode(op)
		if err == nil && op == trusted {
			err = resolver.Store(accountKey, text)
		}
		user, _ := nkeys.CreateUser()
		userKey, _ := user.PublicKey()
		seed, _ := user.Seed()
		userClaims := jwt.NewUserClaims(userKey)
		userText, userErr := userClaims.Encode(account)
		file, fileErr := jwt.FormatUserConfig(userText, seed)
		path := filepath.Join(t.TempDir(), name)
		if err != nil || userErr != nil || fileErr != nil || os.WriteFile(path, file, 0o600) != nil {
			t.Fatal(err, userErr, fileErr)
		}
		return path
	}
	good, bad := credentials(trusted, "good.creds"), credentials(stranger, "bad.creds")
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, TrustedOperators: []*jwt.OperatorClaims{claims}, AccountResolver: resolver,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(2 * time.Minute) {
		t.Fatal("the server does not come up")
	}
	_, port, _ := net.SplitHostPort(s.Addr().String())
	servers := []string{"nats://127.0.0.1:" + port}
	if err := outcome(t, Options{Servers: servers, Credentials: good}, ""); err != nil {
		t.Error(err)
	}
	err = outcome(t, Options{Servers: servers, Credentials: bad}, "authorization")
	content, _ := os.ReadFile(bad)
	if err == nil || !strings.Contains(strings.ToLower(fmt.Sprint(err)), "authorization") || strings.Contains(string(content), err.Error()) {
		t.Errorf("a stranger: %v", err)
	}
}
