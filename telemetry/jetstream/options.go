package jetstream

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
)

// Options say how to reach the servers of a stream. The zero value reaches none.
type Options struct {
	// Name is the connection's, which servers show.
	Name string `toml:"-"`
	// Inbox begins the names to which servers send answers, such as Acks of a switch: a
	// collector's own server lets a client listen to no others. Empty: NATS' usual ones.
	Inbox string `toml:"-"`
	// Servers are NATS servers of one cluster, as "nats://HOST:PORT", or
	// "tls://HOST:PORT" for TLS by the system's certificates.
	Servers []string `toml:"servers"`
	// TLSCA is a file of the certificates, in PEM, that sign the servers'; it makes the connection TLS.
	TLSCA string `toml:"tls_ca"`
	// TLSCert and TLSKey are files with the client's own certificate and its key, in PEM.
	TLSCert string `toml:"tls_cert"`
	TLSKey  string `toml:"tls_key"`
	// Credentials is a NATS credentials file (.creds: a JWT and its seed).
	Credentials string `toml:"credentials"`
	// User is a user name; the password is the first line of PasswordFile.
	User         string `toml:"user"`
	PasswordFile string `toml:"password_file"`
	// TokenFile is a file with a token in its first line.
	TokenFile string `toml:"token_file"`
}

// Validate reports all faults, joined, each beginning with its key. It reads no file.
func (o *Options) Validate() error {
	var errs []error
	for i, s := range o.Servers {
		if err := checkServer(s); err != nil {
			errs = append(errs, fmt.Errorf("servers[%d]: %w", i, err))
		}
	}
	errs = append(errs, o.checkFiles()...)
	if (o.TLSCert == "") != (o.TLSKey == "") {
		missing, there := "tls_key", "tls_cert"
		if o.TLSCert == "" {
			missing, there = there, missing
		}
		errs = append(errs, fmt.Errorf("%s: is missing: a certificate and its key go together, name its file, or remove %s", missing, there))
	}
	if (o.User == "") != (o.PasswordFile == "") {
		missing, there := "password_file", "user"
		if o.User == "" {
			missing, there = there, missing
		}
		errs = append(errs, fmt.Errorf("%s: is missing: a user and a password go together, set it, or remove %s", missing, there))
	}
	var ways []string
	for _, w := range []struct{ key, value string }{{"credentials", o.Credentials}, {"user", o.User}, {"token_file", o.TokenFile}} {
		if w.value != "" {
			ways = append(ways, w.key)
		}
	}
	if len(ways) > 1 {
		errs = append(errs, fmt.Errorf("%s: a client authenticates by one method: keep one of %s", ways[1], strings.Join(ways, ", ")))
	}
	return errors.Join(errs...)
}

func (o *Options) checkFiles() (errs []error) {
	for _, f := range o.files() {
		switch {
		case f.path == "":
		case len(o.Servers) == 0:
			errs = append(errs, fmt.Errorf("%s: is set, but there is no server: name one, or remove it", f.key))
		case !filepath.IsAbs(f.path):
			errs = append(errs, fmt.Errorf("%s: %q is not an absolute path: begin it with a slash", f.key, f.path))
		}
	}
	return errs
}

type file struct{ key, path string }

func (o *Options) files() []file {
	return []file{
		{"tls_ca", o.TLSCA}, {"tls_cert", o.TLSCert}, {"tls_key", o.TLSKey},
		{"credentials", o.Credentials}, {"password_file", o.PasswordFile}, {"token_file", o.TokenFile},
	}
}

// checkServer never repeats an address with a password in it.
func checkServer(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Hostname() == "" {
		if strings.Contains(s, "@") {
			s = "..." + s[strings.LastIndex(s, "@"):]
		}
		return fmt.Errorf("%q is not a server's address: write one, as in \"nats://127.0.0.1:4222\"", s)
	}
	if u.User != nil {
		return fmt.Errorf("the address of %s has a user or a secret in it, which this file would show: use credentials, user and password_file, or token_file", u.Host)
	}
	if u.Scheme != "nats" && u.Scheme != "tls" {
		return fmt.Errorf("%q is not of a kind that records travel by: begin it with nats:// or tls://", s)
	}
	if _, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && err != nil {
		return fmt.Errorf("%q has no port up to 65535: write one, as in \"nats://127.0.0.1:4222\"", s)
	}
	if u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q has more than a host and a port: leave out what follows", s)
	}
	return nil
}

// secure reports whether connections are TLS, whatever a server asks for.
func (o *Options) secure() bool {
	for _, s := range o.Servers {
		if strings.HasPrefix(s, "tls:") {
			return true
		}
	}
	return o.TLSCA != "" || o.TLSCert != ""
}
