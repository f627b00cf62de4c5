package collect

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/weirswitch/weir/internal/certs"
	"github.com/weirswitch/weir/internal/safefile"
)

// Keep reads the files, and again when they change. A fault begins with the key, of which prefix is the table; fault gets
// those of later.
func (t *TLS) Keep(prefix string, fault func(error)) (*certs.Keeper, error) {
	return certs.Load(certs.Files{Certificate: t.Certificate, Key: t.Key, CA: t.CA, Revoked: t.Revoked}, prefix, fault)
}

// maxPEM bounds a file of certificates, in bytes.
const maxPEM = 16 << 20

// Load reads the files. A fault begins with the key, of which prefix is the table.
func (t *TLS) Load(prefix string) (own tls.Certificate, others *x509.CertPool, err error) {
	own, err = safefile.KeyPair(t.Certificate, t.Key)
	if err != nil {
		return own, nil, fmt.Errorf("%s.certificate: %w: name a certificate and its key, in PEM", prefix, err)
	}
	text, err := safefile.ReadTrusted(t.CA, maxPEM)
	if err != nil {
		return own, nil, fmt.Errorf("%s.ca: %w: name a readable file in PEM", prefix, err)
	}
	others = x509.NewCertPool()
	if !others.AppendCertsFromPEM(text) {
		return own, nil, fmt.Errorf("%s.ca: %s has no certificate: name a file in PEM", prefix, t.CA)
	}
	return own, others, nil
}
