package jetstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// authority signs certificates for a test.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, a.key = template, nil
	der, key := a.sign(t, template)
	a.key = key
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write(t, "ca.pem", "CERTIFICATE", der)
	return a
}

// sign signs a template for a new key; the authority itself while it has none.
func (a *authority) sign(t *testing.T, template *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer := a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

func (a *authority) write(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// pair writes a certificate and its key.
func (a *authority) pair(t *testing.T, name string) (cert, key string) {
	t.Helper()
	der, private := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	b, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return a.write(t, name+".pem", "CERTIFICATE", der), a.write(t, name+".key", "EC PRIVATE KEY", b)
}

func (a *authority) ca() string { return filepath.Join(a.dir, "ca.pem") }

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
	ours, theirs := newAuthority(t), newAuthority(t)
	cert, key := ours.pair(t, "server")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots, err := readRoots(ours.ca())
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, &server.Options{TLS: true, TLSVerify: true, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}})
	_, port, _ := net.SplitHostPort(s.Addr().String())
	cert, key = ours.pair(t, "s1")
	foreignCert, foreignKey := theirs.pair(t, "s1")
	for _, c := range []struct {
		name string
		o    Options
		want string // in the error; "": none
	}{
		{"good", Options{TLSCA: ours.ca(), TLSCert: cert, TLSKey: key}, ""},
		{"another authority's server", Options{TLSCA: theirs.ca(), TLSCert: cert, TLSKey: key}, "certificate"},
		{"another authority's client", Options{TLSCA: ours.ca(), TLSCert: foreignCert, TLSKey: foreignKey}, "tls"},
		{"no certificate", Options{TLSCA: ours.ca()}, "tls"},
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
