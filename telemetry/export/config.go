package export

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirswitch/weir/telemetry/jetstream"
)

// Config is the section [telemetry] of a switch's configuration.
type Config struct {
	// Collector are the NATS servers of the collector, "nats://127.0.0.1:4222", to which records are sent;
	// none: they stay in the spool.
	Collector []string `toml:"collector"`
	// TLSCA is a file with the certificates, in PEM, that sign the servers'; it makes the
	// connection TLS, as a server tls://HOST:PORT does.
	TLSCA string `toml:"tls_ca"`
	// TLSCert and TLSKey are files with the switch's own certificate and its key, in PEM.
	TLSCert string `toml:"tls_cert"`
	TLSKey  string `toml:"tls_key"`
	// Credentials is a NATS credentials file (.creds).
	Credentials string `toml:"credentials"`
	// User is the switch's name at the servers; the first line of PasswordFile is the password.
	User string `toml:"user"`
	// PasswordFile is a file with the password of the user.
	PasswordFile string `toml:"password_file"`
	// TokenFile is a file with a token, instead of a user and a password.
	TokenFile string `toml:"token_file"`
	// Spool is the folder to which records are written; empty: they are dropped, unless there is a
	// collector, which makes it /var/lib/weir/spool. Several switches may share it, each under its own name.
	Spool string `toml:"spool"`
	// Budget bounds the records that the switch makes, in bytes per second, "1MB/s"; "none": no bound. What does not fit is left out where an
	// answer loses least by it, and answers say so.
	Budget ByteRate `toml:"budget"`
	// SpoolBytes bounds the folder's files of this switch; beyond, the oldest
	// file goes.
	SpoolBytes int64 `toml:"spool_bytes"`
	// LocalBytes bounds the memory for PINT's digests that the switch keeps to answer questions itself
	// (weir ctl show paths, latency, congestion, loops); beyond, the oldest go. 0: it keeps none.
	LocalBytes int64 `toml:"local_bytes"`
}

// defaultSpool is the folder of a switch that has a collector and names none.
const defaultSpool = "/var/lib/weir/spool"

// DefaultConfig writes nothing; records are bounded to 1 MB/s, a spool to 256 MiB, digests in memory to 32 MiB.
func DefaultConfig() Config { return Config{Budget: 1e6, SpoolBytes: 256 << 20, LocalBytes: 32 << 20} }

// Complete fills in what depends on other keys.
func (c *Config) Complete() {
	if len(c.Collector) != 0 && c.Spool == "" {
		c.Spool = defaultSpool
	}
}

const (
	// minBudget is a few records of each kind in a second.
	minBudget = 10_000
	// minSpool is the smallest bound: a full file and the one being written.
	minSpool = 1 << 20
	// minLocal holds a few seconds of a small network, as package store has it.
	minLocal = 1 << 20
)

// Validate reports all faults, each beginning with its key.
func (c *Config) Validate() error {
	var errs []error
	if c.Budget != 0 && c.Budget < minBudget {
		errs = append(errs, fmt.Errorf("budget = \"%dB/s\": choose at least \"10kB/s\", or \"none\" for no bound", c.Budget))
	}
	if c.SpoolBytes < minSpool {
		errs = append(errs, fmt.Errorf("spool_bytes = %d: choose at least %d", c.SpoolBytes, minSpool))
	}
	if c.LocalBytes != 0 && c.LocalBytes < minLocal {
		errs = append(errs, fmt.Errorf("local_bytes = %d: choose at least %d, or 0 to keep no digests in memory", c.LocalBytes, minLocal))
	}
	o := c.Options("")
	if err := o.Validate(); err != nil {
		for line := range strings.Lines(err.Error()) {
			line = strings.TrimSuffix(line, "\n")
			if rest, ok := strings.CutPrefix(line, "servers["); ok {
				line = "collector[" + rest
			}
			errs = append(errs, errors.New(line))
		}
	}
	return errors.Join(errs...)
}

// Options are those of the connection of the switch with a name.
func (c *Config) Options(name string) jetstream.Options {
	return jetstream.Options{
		Name: name, Servers: c.Collector,
		TLSCA: c.TLSCA, TLSCert: c.TLSCert, TLSKey: c.TLSKey,
		Credentials: c.Credentials, User: c.User, PasswordFile: c.PasswordFile, TokenFile: c.TokenFile,
	}
}
