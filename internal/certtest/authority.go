package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates, into a folder that is gone after the test.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes an authority with the common name NAME, and the files ca.pem and ca.key.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{dir: t.TempDir()}
	a.cert, a.key = a.sign(t, "ca", name, x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign})
	return a
}

// Path is that of a file of the authority.
func (a *Authority) Path(file string) string { return filepath.Join(a.dir, file) }

// Pool holds the authority's own certificate.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Sign signs a certificate with the common name NAME for a new key, and makes the files
// NAME.pem and NAME.key. What else it says is c's; without an end it is good for an hour.
func (a *Authority) Sign(t testing.TB, name string, c x509.Certificate) {
	t.Helper()
	a.sign(t, name, name, c)
}

// sign signs by the authority, or by the certificate's own key while that has none.
func (a *Authority) sign(t testing.TB, file, name string, c x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.Subject, c.SerialNumber = pkix.Name{CommonName: name}, big.NewInt(time.Now().UnixNano())
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	c.NotBefore = c.NotAfter.Add(-2 * time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = &c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, &c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, file+".pem", "CERTIFICATE", der)
	a.write(t, file+".key", "PRIVATE KEY", keyDER)
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return signed, key
}

func (a *Authority) write(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(a.Path(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Revoke writes a list of the revoked certificates of these names, which the authority signs.
func (a *Authority) Revoke(t testing.TB, file string, names ...string) {
	t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(time.Now().UnixNano()), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour)}
	for _, name := range names {
		text, err := os.ReadFile(a.Path(name + ".pem"))
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(text)
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.cert, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, file, "X509 CRL", der)
}
