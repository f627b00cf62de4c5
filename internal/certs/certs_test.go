package certs

import (
	"crypto/x509"
	"os"
	"testing"
	"time"

	"github.com/weirswitch/weir/internal/certtest"
)

func newKeeper(t testing.TB, a *certtest.Authority, revoked string) *Keeper {
	t.Helper()
	k, err := Load(Files{Certificate: a.Path("own.pem"), Key: a.Path("own.key"), CA: a.Path("ca.pem"), Revoked: revoked}, "tls", nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestKeeper: certificates are read again when their files change, and stay as they were while the files are broken. A list of
// another authority is refused.
func TestKeeper(t *testing.T) {
	a, other := certtest.New(t, "network"), certtest.New(t, "other")
	a.Sign(t, "own", x509.Certificate{})
	a.Revoke(t, "crl.pem")
	other.Revoke(t, "crl.pem")
	k := newKeeper(t, a, a.Path("crl.pem"))
	leaf := func() *x509.Certificate {
		c, err := x509.ParseCertificate(k.Leaf().Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	await := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	before := leaf()
	if err := k.Check([]*x509.Certificate{before}); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(a.Path("own.pem"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(lookInterval + 100*time.Millisecond)
	if !leaf().Equal(before) || k.Generation() != 0 {
		t.Error("a broken file is taken")
	}
	a.Sign(t, "own", x509.Certificate{})
	await("the new certificate", func() bool { return !leaf().Equal(before) })
	now := leaf()
	a.Revoke(t, "crl.pem", "own")
	await("the list", func() bool { return k.Check([]*x509.Certificate{now}) != nil })
	if err := k.Check([]*x509.Certificate{before}); err != nil {
		t.Errorf("another certificate of the name is revoked: %v", err)
	}
	if _, err := Load(Files{Certificate: a.Path("own.pem"), Key: a.Path("own.key"), CA: a.Path("ca.pem"), Revoked: other.Path("crl.pem")}, "tls", nil); err == nil {
		t.Error("a list of another authority is taken")
	}
	if !k.Shares(a.Path("ca.pem")) || k.Shares(other.Path("ca.pem")) || k.Shares(a.Path("none")) {
		t.Error("which authorities are shared")
	}
}

// FuzzRevoke: no list revokes anything that its authority did not sign.
func FuzzRevoke(f *testing.F) {
	a := certtest.New(f, "network")
	a.Sign(f, "own", x509.Certificate{})
	a.Revoke(f, "crl.pem", "own")
	text, err := os.ReadFile(a.Path("crl.pem"))
	if err != nil {
		f.Fatal(err)
	}
	signed := newKeeper(f, a, a.Path("crl.pem")).loaded
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Add([]byte{0x30, 0x80})
	f.Fuzz(func(t *testing.T, text []byte) {
		l := &loaded{list: signed.list, revoked: map[string]bool{}}
		_ = l.revoke(text)
		for serial := range l.revoked {
			if !signed.revoked[serial] {
				t.Errorf("%q is revoked by no list", serial)
			}
		}
	})
}
