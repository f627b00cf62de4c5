// Package certs keeps the certificates of a server: its own, those of the authorities that sign its clients', and the
// list of those that are revoked. It reads the files again when they change, so that a certificate is renewed and
// revoked while the server runs.
package certs

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/weirswitch/weir/internal/safefile"
)

// Files of one end, in PEM.
type Files struct {
	// Certificate and Key are the own ones, CA has the authorities of the other side.
	Certificate, Key, CA string
	// Revoked is a list of revoked certificates (a CRL, in PEM or DER) that an authority of CA signed; empty: none is.
	Revoked string
	// CAName is the key of CA in errors; empty: "ca".
	CAName string
}

// maxFile bounds each file, in bytes.
const maxFile = 16 << 20

// lookInterval is between two looks at the files.
const lookInterval = time.Second

// Keeper has the certificates as they are now. Its methods are safe for concurrent use.
type Keeper struct {
	files Files
	fault func(error) // gets what cannot be read; the certificates of before stay in force

	mu         sync.Mutex
	looked     time.Time
	seen       [4]stamp
	loaded     *loaded
	generation uint64
}

// stamp says that a file is the one that was read.
type stamp struct {
	size int64
	at   time.Time
}

// loaded is what the files hold.
type loaded struct {
	own     tls.Certificate
	others  *x509.CertPool
	list    []*x509.Certificate
	revoked map[string]bool // serial numbers, with the issuer
}

// Load reads the files. A fault begins with the key of a file, of which prefix is the table. fault gets what is wrong
// with files that change later; nil: none.
func Load(files Files, prefix string, fault func(error)) (*Keeper, error) {
	if fault == nil {
		fault = func(error) {}
	}
	k := &Keeper{files: files, fault: fault}
	k.seen, k.looked = k.stamps(), time.Now()
	var err error
	if k.loaded, err = files.load(prefix); err != nil {
		return nil, err
	}
	return k, nil
}

func (f *Files) load(prefix string) (*loaded, error) {
	caKey := prefix + "." + cmp.Or(f.CAName, "ca")
	own, err := safefile.KeyPair(f.Certificate, f.Key)
	if err != nil {
		return nil, fmt.Errorf("%s.certificate: %w: name a certificate and its key, in PEM", prefix, err)
	}
	text, err := safefile.ReadTrusted(f.CA, maxFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: name a readable file in PEM", caKey, err)
	}
	l := &loaded{own: own, others: x509.NewCertPool(), revoked: map[string]bool{}}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			l.others.AddCert(c)
			l.list = append(l.list, c)
		}
	}
	if len(l.list) == 0 {
		return nil, fmt.Errorf("%s: %s has no certificate: name a file in PEM", caKey, f.CA)
	}
	if f.Revoked == "" {
		return l, nil
	}
	if text, err = safefile.ReadTrusted(f.Revoked, maxFile); err != nil {
		return nil, fmt.Errorf("%s.revoked: %w: name a readable list of revoked certificates", prefix, err)
	}
	if err := l.revoke(text); err != nil {
		return nil, fmt.Errorf("%s.revoked: %s: %w: name a list (CRL) that an authority of %s signed", prefix, f.Revoked, err, caKey)
	}
	return l, nil
}

// revoke reads lists of revoked certificates.
func (l *loaded) revoke(text []byte) error {
	lists := [][]byte{}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		lists = append(lists, block.Bytes)
	}
	if len(lists) == 0 {
		lists = [][]byte{text}
	}
	for _, der := range lists {
		list, err := x509.ParseRevocationList(der)
		if err != nil {
			return err
		}
		signed := errors.New("no authority signed it")
		for _, ca := range l.list {
			if list.CheckSignatureFrom(ca) == nil {
				signed = nil
				for _, e := range list.RevokedCertificateEntries {
					l.revoked[string(ca.RawSubject)+e.SerialNumber.String()] = true
				}
			}
		}
		if signed != nil {
			return signed
		}
	}
	return nil
}

func (k *Keeper) stamps() (s [4]stamp) {
	for i, path := range []string{k.files.Certificate, k.files.Key, k.files.CA, k.files.Revoked} {
		if info, err := os.Stat(path); path != "" && err == nil {
			s[i] = stamp{info.Size(), info.ModTime()}
		}
	}
	return s
}

// now is what the files hold, read again if they changed.
func (k *Keeper) now() *loaded {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.looked) < lookInterval {
		return k.loaded
	}
	k.looked = time.Now()
	if seen := k.stamps(); seen != k.seen {
		if l, err := k.files.load("tls"); err != nil {
			k.fault(fmt.Errorf("certificates stay as they were: %w", err)) // half a change, say: the next look reads it again
		} else {
			k.loaded, k.seen = l, seen
			k.generation++
		}
	}
	return k.loaded
}

// Generation counts the changes of the files: connections from before may have a certificate that is revoked now.
func (k *Keeper) Generation() uint64 {
	k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.generation
}

// errRevoked is why a client is refused.
var errRevoked = errors.New("the certificate is revoked")

// Check reports why a connection's certificate is not good now: it is revoked, or expired since.
func (k *Keeper) Check(chain []*x509.Certificate) error {
	l := k.now()
	for _, c := range chain {
		switch {
		case l.revoked[string(c.RawIssuer)+c.SerialNumber.String()]:
			return errRevoked
		case time.Now().After(c.NotAfter):
			return errors.New("the certificate is expired")
		}
	}
	return nil
}

// Server is the configuration of a server: TLS 1.3, and certificates on both sides.
func (k *Keeper) Server(protos ...string) *tls.Config {
	config := func() *tls.Config {
		l := k.now()
		return &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{l.own}, NextProtos: protos,
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: l.others, RootCAs: l.others,
			VerifyConnection: func(s tls.ConnectionState) error { return k.Check(s.PeerCertificates) },
		}
	}
	c := config()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return config(), nil }
	return c
}

// Leaf is the own certificate.
func (k *Keeper) Leaf() tls.Certificate { return k.now().own }

// Shares reports whether an authority of a file is one of the keeper's too.
func (k *Keeper) Shares(ca string) bool {
	text, err := safefile.ReadTrusted(ca, maxFile)
	if err != nil {
		return false
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		for _, own := range k.now().list {
			if own.Equal(c) {
				return true
			}
		}
	}
	return false
}
