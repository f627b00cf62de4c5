package control

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"github.com/weirswitch/weir/internal/socket"
)

// Config is where the API and the metrics are served, and to whom, [control].
type Config struct {
	// Socket is the path of the unix socket; default: /run/weir/NAME.sock.
	Socket string `toml:"socket"`
	// Group is the name or number of the group whose members may read; empty: the
	// group that the switch runs in. Root and the switch's own user are admins.
	Group string `toml:"group"`
	// Audit is the file to which every change is appended, a line of JSON each;
	// empty: changes are in the log alone.
	Audit string `toml:"audit"`
	// Metrics is the address of /metrics and /healthz, as in "127.0.0.1:9464",
	// over plain HTTP without authentication; empty: not served.
	Metrics string `toml:"metrics"`
	// KeepCapabilities keeps what a port needs that is opened again, once the
	// switch forwards: see docs/control.md. Without, the switch keeps none.
	KeepCapabilities bool `toml:"keep_capabilities"`
	// Takeover lets another process take the switch over while packets flow (weir switch --takeover), by a socket
	// beside the control socket that root and the switch's own user alone may use. Packet memory is in a file in memory then, to which the kernel
	// gives no transparent huge pages: with dataplane.huge_pages it costs nothing.
	Takeover bool `toml:"takeover"`
	// TLS serves the API over TCP too.
	TLS TLS `toml:"tls"`
}

// TLS is the API over TCP, with TLS 1.3 and certificates on both sides,
// [control.tls]. A client with a certificate of the client CA may read.
type TLS struct {
	// Listen is the address, as in "192.0.2.1:9465"; empty: the API is not served
	// over TCP.
	Listen string `toml:"listen"`
	// Certificate and Key are the switch's own, files in PEM.
	Certificate string `toml:"certificate"`
	Key         string `toml:"key"`
	// ClientCA is the file with the certificates, in PEM, that sign clients'.
	ClientCA string `toml:"client_ca"`
	// Revoked is a list of clients' certificates that are revoked (a CRL, which ClientCA signed); empty: none is.
	Revoked string `toml:"revoked"`
	// Readers are the common names of the certificates that may read; none: all that ClientCA signed.
	Readers []string `toml:"readers"`
	// Admins are the common names of the certificates that may change the switch.
	Admins []string `toml:"admins"`
}

// DefaultConfig leaves the socket to DefaultSocket, which needs a name, and
// serves nothing over TCP.
func DefaultConfig() Config { return Config{KeepCapabilities: true} }

// DefaultSocket is the path of the control socket of the switch with a name.
func DefaultSocket(name string) string { return "/run/weir/" + name + ".sock" }

// Answering separates control sockets at which a switch answers from those that killed switches left behind.
func Answering(sockets []string) (live, stale []string) {
	for _, path := range sockets {
		if socket.Stale(path) {
			stale = append(stale, path)
		} else {
			live = append(live, path)
		}
	}
	return live, stale
}

// maxPath is the size of sun_path (include/uapi/linux/un.h), less the zero byte.
const maxPath = 107

// Validate reports all faults, joined, each beginning with the key. It reads no
// file and looks up no group.
func (c *Config) Validate() error {
	var errs []error
	switch {
	case !filepath.IsAbs(c.Socket):
		errs = append(errs, fmt.Errorf("socket: %q is not an absolute path: begin it with a slash", c.Socket))
	case len(c.Socket) > maxPath:
		errs = append(errs, fmt.Errorf("socket: the path has %d bytes, a unix socket's has at most %d: choose a shorter one", len(c.Socket), maxPath))
	case filepath.Clean(c.Socket) != c.Socket:
		errs = append(errs, fmt.Errorf("socket: %q is not in its shortest form: write %q", c.Socket, filepath.Clean(c.Socket)))
	}
	if c.Audit != "" && !filepath.IsAbs(c.Audit) {
		errs = append(errs, fmt.Errorf("audit: %q is not an absolute path: begin it with a slash", c.Audit))
	}
	if c.Metrics != "" {
		errs = append(errs, address("metrics", c.Metrics))
	}
	return errors.Join(append(errs, c.TLS.validate()...)...)
}

func (t *TLS) validate() (errs []error) {
	files := []struct{ key, path string }{{"certificate", t.Certificate}, {"key", t.Key}, {"client_ca", t.ClientCA}}
	if t.Listen == "" {
		for _, f := range files {
			if f.path != "" {
				errs = append(errs, fmt.Errorf("tls.%s: is set, but nothing is served: set tls.listen, or remove it", f.key))
			}
		}
		if len(t.Admins) != 0 {
			errs = append(errs, errors.New("tls.admins: is set, but nothing is served: set tls.listen, or remove it"))
		}
		return errs
	}
	if err := address("tls.listen", t.Listen); err != nil {
		errs = append(errs, err)
	}
	for _, f := range files {
		switch {
		case f.path == "":
			errs = append(errs, fmt.Errorf("tls.%s: is missing: name a file in PEM; without certificates on both sides nothing is served over TCP", f.key))
		case !filepath.IsAbs(f.path):
			errs = append(errs, fmt.Errorf("tls.%s: %q is not an absolute path: begin it with a slash", f.key, f.path))
		}
	}
	for i, name := range t.Admins {
		if name == "" {
			errs = append(errs, fmt.Errorf("tls.admins[%d]: is empty: name the common name of a certificate", i))
		}
	}
	return errs
}

// address checks HOST:PORT. Host may be empty for all addresses; port 0 is the
// kernel's choice, which a test wants.
func address(key, text string) error {
	host, port, err := net.SplitHostPort(text)
	if err == nil && host != "" && net.ParseIP(host) == nil {
		err = fmt.Errorf("%q is no IP address", host)
	}
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%s: %q is not an address with a port: write one, as in \"127.0.0.1:9464\"", key, text)
	}
	return nil
}
