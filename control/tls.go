package control

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/weirswitch/weir/internal/certs"
	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/internal/socket"
)

// tlsListener is a listener of TLS connections, bounded before the handshake.
type tlsListener struct {
	net.Listener
	bounded *socket.Bounded
	keeper  *certs.Keeper
}

// ListenTLS reads the certificates and listens for the API over TCP, for Serve;
// nil without an address. The files are read again when they change.
func ListenTLS(c TLS) (net.Listener, error) {
	keeper, err := loadTLS(c)
	if keeper == nil {
		return nil, err
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("control.tls.listen: %w: choose an address of this machine and a port that is free", err)
	}
	bounded := bound(l, new(atomic.Uint64))
	return &tlsListener{tls.NewListener(bounded, keeper.Server("http/1.1")), bounded, keeper}, nil
}

// loadTLS reads the certificates; nil without an address.
func loadTLS(c TLS) (*certs.Keeper, error) {
	if c.Listen == "" {
		return nil, nil
	}
	return certs.Load(certs.Files{Certificate: c.Certificate, Key: c.Key, CA: c.ClientCA, Revoked: c.Revoked, CAName: "client_ca"}, "control.tls", nil)
}

// maxPEM bounds a file of certificates, in bytes.
const maxPEM = 16 << 20

func readPool(path string) (*x509.CertPool, error) {
	text, err := safefile.ReadTrusted(path, maxPEM)
	if err != nil {
		return nil, fmt.Errorf("%w: name a readable file in PEM", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New(path + " has no certificate: name a file in PEM")
	}
	return pool, nil
}

// ClientTLS is how a client proves who it is.
type ClientTLS struct {
	Certificate, Key string // its own, files in PEM
	CA               string // signs the switch's certificate
	Name             string // that the switch's certificate has; empty: the address's host
}

// NewTLSClient returns a client of the switch that listens at an address.
func NewTLSClient(address string, c ClientTLS) (*Client, error) {
	own, err := safefile.KeyPair(c.Certificate, c.Key)
	if err != nil {
		return nil, fmt.Errorf("%w: name the client's certificate with --cert and its key with --key", err)
	}
	pool, err := readPool(c.CA)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("--address %q: write HOST:PORT", address)
	}
	if c.Name != "" {
		host = c.Name
	}
	return newTLSClient(address, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, RootCAs: pool, ServerName: host}), nil
}
