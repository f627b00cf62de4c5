package certtest

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"
)

// TestAuthority: its certificates are good for its own pool, at their time, and for no other's
// of the same name; each file serves with its key.
func TestAuthority(t *testing.T) {
	ours, theirs := New(t, "ca"), New(t, "ca")
	ours.Sign(t, "good", x509.Certificate{})
	ours.Sign(t, "expired", x509.Certificate{NotAfter: time.Now().Add(-time.Minute)})
	theirs.Sign(t, "foreign", x509.Certificate{})
	for _, c := range []struct {
		name string
		by   *Authority
		ok   bool
	}{{"good", ours, true}, {"expired", ours, false}, {"foreign", theirs, false}, {"ca", ours, true}} {
		pair, err := tls.LoadX509KeyPair(c.by.Path(c.name+".pem"), c.by.Path(c.name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		if got := pair.Leaf.Subject.CommonName; got != c.name {
			t.Errorf("%s is of %q", c.name, got)
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: ours.Pool()}); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
