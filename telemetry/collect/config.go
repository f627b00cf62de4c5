package collect

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/weirswitch/weir/telemetry/record"
)

// NATS is where the stream of records is, [nats]: in a server of the collector's
// own, or in servers that are there already.
type NATS struct {
	// Listen is the address of the collector's own server, at which switches
	// publish. One that other machines reach needs [nats.tls].
	Listen string `toml:"listen"`
	// Servers are the URLs of servers to use instead, as in "tls://192.0.2.1:4222";
	// empty: the collector runs its own.
	Servers []string `toml:"servers"`
	// Replicas is how many servers keep each record: 1, 3 or 5.
	Replicas int `toml:"replicas"`
	// Sync is how often the own server has its disk write down what it took; 0:
	// before each acknowledgement. A killed process loses nothing in either case, a
	// machine without power at most so much.
	Sync time.Duration `toml:"sync"`
	// TLS has the certificates: of the own server and of its clients' authority, or
	// of the collector as a client and of the servers' authority.
	TLS TLS `toml:"tls"`
	// User and PasswordFile, or TokenFile, or Credentials (a file of NATS) are how
	// the collector proves to Servers who it is.
	User         string `toml:"user"`
	PasswordFile string `toml:"password_file"`
	TokenFile    string `toml:"token_file"`
	Credentials  string `toml:"credentials"`
	// Cluster joins the own servers of several collectors to one.
	Cluster Cluster `toml:"cluster"`
	// ClientRate is how many bytes a second a client of the own server may send for longer than some seconds:
	// beyond, it is read more slowly. ClientConnections are those that it may have at a time.
	ClientRate        int64 `toml:"client_rate_bytes"`
	ClientConnections int   `toml:"client_connections"`
	// Clients may connect to the own server.
	Clients []Client `toml:"client"`
}

// TLS names the files of a TLS endpoint, in PEM; all of them or none.
type TLS struct {
	Certificate string `toml:"certificate"` // its own
	Key         string `toml:"key"`         // of that
	CA          string `toml:"ca"`          // signs those of the other side
	// Revoked is a list of the other side's certificates that are revoked (a CRL, which CA signed); empty: none is.
	Revoked string `toml:"revoked"`
}

// Cluster is the own server's part in a cluster of collectors, [nats.cluster].
type Cluster struct {
	// Name is the cluster's, the same in all; empty: the server is alone.
	Name string `toml:"name"`
	// Listen is the address for the others, Routes are theirs, HOST:PORT.
	Listen string   `toml:"listen"`
	Routes []string `toml:"routes"`
	// Members are the common names of the others' certificates, with [nats.tls]; empty: all have
	// the name of the own one. A switch's certificate must not be let in here.
	Members []string `toml:"members"`
	// PasswordFile holds the password of the cluster, the same in all; needed without [nats.tls].
	PasswordFile string `toml:"password_file"`
}

// Client is somebody who may connect to the collector's own server,
// [[nats.client]].
type Client struct {
	// Name is what the client calls itself; with TLS it is the common name of its
	// certificate.
	Name string `toml:"name"`
	// PasswordFile holds the password, which must be given too; may be empty with TLS.
	PasswordFile string `toml:"password_file"`
	// Role is "switch" or "collector".
	Role string `toml:"role"`
	// Switch is the number under which a switch may publish.
	Switch uint32 `toml:"switch"`
}

// The roles of clients.
const (
	RoleSwitch    = "switch"    // publishes records under its number, and reads their acknowledgements
	RoleCollector = "collector" // reads all records, and makes the stream
)

// Retention bounds what the stream keeps, [retention]. The oldest records go first.
type Retention struct {
	// Age is how long a record is kept, at least a minute.
	Age time.Duration `toml:"age"`
	// Bytes are those of the stream in each server; the disk needs a sixteenth more for indices.
	Bytes int64 `toml:"bytes"`
}

// Archive is where records are kept for longer than in the stream, [archive].
type Archive struct {
	// URL is a folder, as in "file:///var/lib/weir/archive", or a bucket of a store that speaks S3's protocol, as in
	// "s3://BUCKET/PREFIX?endpoint=https://192.0.2.1:9000&region=eu-1"; without an endpoint it is one of AWS, without a region that of
	// AWS_REGION or AWS_DEFAULT_REGION, or what the store says. Empty: there is no archive.
	URL string `toml:"url"`
	// Credentials is a file with aws_access_key_id and aws_secret_access_key under [default], as AWS' programs have it;
	// empty: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment, else the file AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials,
	// else the role of the container or machine.
	Credentials string `toml:"credentials"`
	// CA is a file of certificates, in PEM, that sign that of the endpoint; empty: the system's.
	CA string `toml:"ca"`
	// Age is how long a record is kept, by when it arrived. The collector that archives partition 0 deletes for all.
	Age time.Duration `toml:"age"`
	// Bytes are those of all files; beyond, the oldest ones are deleted.
	Bytes int64 `toml:"bytes"`
	// Flush is how long records are gathered for a file.
	Flush time.Duration `toml:"flush"`
	// Recent is how much of the stream a collector that starts reads, and what is not archived yet; the rest it reads
	// from the archive when a question is about it.
	Recent  time.Duration `toml:"recent"`
	Rollups Rollups       `toml:"rollups"`
}

// Partitions is the collector's share of PINT's digests, [partitions]: those of
// partitions whose number modulo Of is Index.
type Partitions struct {
	// Index is this collector's, from 0, Of the number of collectors, up to 16.
	Index int `toml:"index"`
	Of    int `toml:"of"`
	// Share has the collectors of the stream divide the partitions among them, and again whenever one comes or goes. Index and Of are
	// then 0 and 1.
	Share bool `toml:"share"`
}

// SwitchNames are the names of the switches that are clients, by number.
func (c *NATS) SwitchNames() map[uint32]string {
	names := map[uint32]string{}
	for _, u := range c.Clients {
		if u.Role == RoleSwitch || u.Role == "" {
			names[u.Switch] = u.Name
		}
	}
	return names
}

// DefaultNATS is a server on this machine alone.
func DefaultNATS() NATS {
	return NATS{Listen: "127.0.0.1:4222", Replicas: 1, Sync: 10 * time.Second, ClientRate: 64 << 20, ClientConnections: 8}
}

// DefaultRetention is a week, within 10 GiB.
func DefaultRetention() Retention { return Retention{Age: 7 * 24 * time.Hour, Bytes: 10 << 30} }

// DefaultArchive is none; one that is named keeps a year, within 100 GiB.
func DefaultArchive() Archive {
	return Archive{Age: 365 * 24 * time.Hour, Bytes: 100 << 30, Flush: 5 * time.Minute, Recent: 10 * time.Minute, Rollups: Rollups{
		Fine: time.Minute, Coarse: time.Hour, After: time.Hour, Age: 5 * 365 * 24 * time.Hour, Bytes: 10 << 30, Flows: 100, Prefixes: []string{},
	}}
}

// DefaultPartitions has all digests in one collector.
func DefaultPartitions() Partitions { return Partitions{Of: 1} }

// What a stream can keep: at least a file of JetStream's for each of a few kinds, at most what sums of
// several bounds have room for.
const (
	minBytes = 64 << 20
	maxBytes = 1 << 60
	minAge   = time.Minute
)

// Validate reports all faults, joined, each beginning with its key. It opens no file.
func (c *NATS) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Replicas != 1 && c.Replicas != 3 && c.Replicas != 5 {
		fault("replicas: %d: choose 1, 3 or 5", c.Replicas)
	}
	if c.Sync < 0 || c.Sync > time.Hour {
		fault("sync: %v: choose 0s, for each record, to 1h", c.Sync)
	}
	if c.ClientRate < 1<<20 {
		fault("client_rate_bytes: %d: choose 1048576 or more", c.ClientRate)
	}
	if c.ClientConnections < 1 || c.ClientConnections > 1<<14 {
		fault("client_connections: %d: choose 1 to %d", c.ClientConnections, 1<<14)
	}
	errs = append(errs, c.TLS.validate("tls.")...)
	for _, f := range []struct{ key, path string }{{"password_file", c.PasswordFile}, {"token_file", c.TokenFile}, {"credentials", c.Credentials}} {
		if f.path != "" && !filepath.IsAbs(f.path) {
			fault("%s: %q is not an absolute path: begin it with a slash", f.key, f.path)
		}
	}
	if len(c.Servers) != 0 {
		return errors.Join(append(errs, c.validateServers()...)...)
	}
	return errors.Join(append(errs, c.validateServer()...)...)
}

func (c *NATS) validateServers() (errs []error) {
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for i, s := range c.Servers {
		remote, err := serverURL(s)
		switch {
		case err != nil:
			fault("servers[%d]: %w", i, err)
		case remote && c.TLS == (TLS{}):
			fault("servers[%d]: %s is not on this machine, and [nats.tls] is not set: name a certificate, its key and the CA", i, s)
		}
	}
	if c.Cluster.Name != "" || c.Cluster.Listen != "" || len(c.Cluster.Routes) != 0 {
		fault("cluster: is of the collector's own server, but servers names others: remove one of them")
	}
	if len(c.Clients) != 0 {
		fault("client: is of the collector's own server, but servers names others: remove one of them")
	}
	if (c.User == "") != (c.PasswordFile == "") {
		fault("user: comes with password_file, and vice versa: set both, or none")
	}
	ways := 0
	for _, w := range []string{c.User, c.TokenFile, c.Credentials} {
		if w != "" {
			ways++
		}
	}
	if ways > 1 {
		fault("credentials: choose one of user, token_file and credentials")
	}
	return errs
}

func (c *NATS) validateServer() (errs []error) {
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.User != "" || c.PasswordFile != "" || c.TokenFile != "" || c.Credentials != "" {
		fault("user: is for servers, and there are none: who may connect to the collector's own is in [[nats.client]]")
	}
	remote, err := Remote(c.Listen)
	switch {
	case err != nil:
		fault("listen: %w", err)
	case remote && c.TLS == (TLS{}):
		fault("listen: other machines reach %s, so both sides must have certificates: set [nats.tls], or listen on 127.0.0.1", c.Listen)
	}
	if c.TLS != (TLS{}) && len(c.Clients) == 0 {
		fault("client: is missing: with [nats.tls] only named clients may connect, add a table [[nats.client]] for each switch")
	}
	errs = append(errs, c.validateClients()...)
	errs = append(errs, c.validateCluster()...)
	return errs
}

// token is what may be between two dots of a subject.
var token = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (c *NATS) validateClients() (errs []error) {
	names, numbers := map[string]int{}, map[uint32]int{}
	for i, u := range c.Clients {
		fault := func(key, format string, args ...any) {
			errs = append(errs, fmt.Errorf("client[%d].%s: %s", i, key, fmt.Sprintf(format, args...)))
		}
		if j, ok := names[u.Name]; ok && u.Name != "" {
			fault("name", "client[%d] is called %q already: choose another name", j, u.Name)
		}
		names[u.Name] = i
		if u.Name == "" {
			fault("name", "is missing: name the client, with [nats.tls] as its certificate does")
		}
		switch {
		case u.PasswordFile == "" && c.TLS == (TLS{}):
			fault("password_file", "is missing: without [nats.tls] a password is all that the client has")
		case u.PasswordFile != "" && !filepath.IsAbs(u.PasswordFile):
			fault("password_file", "%q is not an absolute path: begin it with a slash", u.PasswordFile)
		}
		switch u.Role {
		case RoleSwitch:
			if j, ok := numbers[u.Switch]; ok {
				fault("switch", "client[%d] is switch %d already: choose another number", j, u.Switch)
			}
			numbers[u.Switch] = i
		case RoleCollector:
			if u.Name != "" && !token.MatchString(u.Name) {
				fault("name", "%q: a collector's name is part of subjects: use letters, digits, '_' and '-'", u.Name)
			}
			if u.Switch != 0 {
				fault("switch", "is set, but the role is %q: remove it", u.Role)
			}
		default:
			fault("role", "%q: choose %q or %q", u.Role, RoleSwitch, RoleCollector)
		}
	}
	return errs
}

func (c *NATS) validateCluster() (errs []error) {
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Cluster.Name == "" {
		if c.Cluster.Listen != "" || len(c.Cluster.Routes) != 0 || len(c.Cluster.Members) != 0 || c.Cluster.PasswordFile != "" {
			fault("cluster.name: is missing: give the cluster a name, the same in all collectors, or remove [nats.cluster]")
		}
		if c.Replicas > 1 {
			fault("replicas: %d copies need as many servers: set [nats.cluster] or servers, or choose 1", c.Replicas)
		}
		return errs
	}
	remote, err := Remote(c.Cluster.Listen)
	switch {
	case err != nil:
		fault("cluster.listen: %w", err)
	case remote && c.TLS == (TLS{}):
		fault("cluster.listen: other machines reach %s, so both sides must have certificates: set [nats.tls]", c.Cluster.Listen)
	}
	if len(c.Cluster.Routes) == 0 {
		fault("cluster.routes: is missing: name the other servers' cluster.listen")
	}
	switch f := c.Cluster.PasswordFile; {
	case f == "" && c.TLS == (TLS{}):
		fault("cluster.password_file: is missing: without [nats.tls] a password keeps other processes out of the cluster")
	case f != "" && !filepath.IsAbs(f):
		fault("cluster.password_file: %q is not an absolute path: begin it with a slash", f)
	}
	for i, m := range c.Cluster.Members {
		if m == "" {
			fault("cluster.members[%d]: is empty: name the common name of a certificate", i)
		}
	}
	for i, r := range c.Cluster.Routes {
		if _, _, err := net.SplitHostPort(r); err != nil {
			fault("cluster.routes[%d]: %q: write HOST:PORT", i, r)
		}
	}
	return errs
}

// Validate checks that all files are named, or none.
func (t *TLS) Validate() error { return errors.Join(t.validate("")...) }

func (t *TLS) validate(prefix string) (errs []error) {
	if *t == (TLS{}) {
		return nil
	}
	for _, f := range []struct{ key, path string }{{"certificate", t.Certificate}, {"key", t.Key}, {"ca", t.CA}} {
		switch {
		case f.path == "":
			errs = append(errs, fmt.Errorf("%s%s: is missing: name a file in PEM; both sides need certificates", prefix, f.key))
		case !filepath.IsAbs(f.path):
			errs = append(errs, fmt.Errorf("%s%s: %q is not an absolute path: begin it with a slash", prefix, f.key, f.path))
		}
	}
	if t.Revoked != "" && !filepath.IsAbs(t.Revoked) {
		errs = append(errs, fmt.Errorf("%srevoked: %q is not an absolute path: begin it with a slash", prefix, t.Revoked))
	}
	return errs
}

// Validate reports all faults, joined, each beginning with its key.
func (c *Retention) Validate() error {
	var errs []error
	if c.Age < minAge {
		errs = append(errs, fmt.Errorf("age: %v: choose %v or more", c.Age, minAge))
	}
	if c.Bytes < minBytes || c.Bytes > maxBytes {
		errs = append(errs, fmt.Errorf("bytes: %d: choose %d to %d", c.Bytes, minBytes, maxBytes))
	}
	return errors.Join(errs...)
}

// Validate reports all faults, joined, each beginning with its key. It reads no file.
func (c *Archive) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		if c.Credentials != "" || c.CA != "" {
			fault("url: is missing: name a folder or a bucket, or remove credentials and ca")
		}
	case err != nil:
		fault("url: %q is no URL: write file:///FOLDER or s3://BUCKET", c.URL)
	case u.User != nil:
		fault("url: has a name or a password in it, which logs would show: use credentials")
	case u.Scheme == "file" && (u.Host != "" || len(u.Path) < 2 || u.RawQuery != ""):
		fault("url: %q: write file:///FOLDER, the folder's path from the root", c.URL)
	case u.Scheme == "file" && (c.Credentials != "" || c.CA != ""):
		fault("credentials: is for s3://, and the archive is a folder: remove credentials and ca")
	case u.Scheme == "s3":
		if u.Host == "" || u.Port() != "" {
			fault("url: %q: write s3://BUCKET, and the server as ?endpoint=https://HOST:PORT", c.URL)
		}
		for key, values := range u.Query() {
			e, err := url.Parse(values[0])
			switch {
			case key == "endpoint" && (err != nil || e.Host == "" || e.Scheme != "http" && e.Scheme != "https" || e.User != nil || e.Path != "" && e.Path != "/"):
				fault("url: endpoint %q: write http://HOST:PORT or https://HOST:PORT", values[0])
			case key != "endpoint" && key != "region":
				fault("url: parameter %q: choose endpoint or region", key)
			}
		}
	case u.Scheme != "file":
		fault("url: %q: write file:///FOLDER or s3://BUCKET", c.URL)
	}
	for _, f := range []struct{ key, path string }{{"credentials", c.Credentials}, {"ca", c.CA}} {
		if f.path != "" && !filepath.IsAbs(f.path) {
			fault("%s: %q is not an absolute path: begin it with a slash", f.key, f.path)
		}
	}
	if c.Age < minAge {
		fault("age: %v: choose %v or more", c.Age, minAge)
	}
	if c.Bytes < minBytes || c.Bytes > maxBytes {
		fault("bytes: %d: choose %d to %d", c.Bytes, minBytes, maxBytes)
	}
	if c.Flush < time.Second || c.Flush > 24*time.Hour {
		fault("flush: %v: choose 1s to 24h", c.Flush)
	}
	if c.Recent < time.Second {
		fault("recent: %v: choose 1s or more", c.Recent)
	}
	return errors.Join(append(errs, c.Rollups.validate()...)...)
}

// Remote reports whether other machines reach a listening address, HOST:PORT.
func Remote(address string) (bool, error) {
	host, port, err := net.SplitHostPort(address)
	if err == nil && host != "" && net.ParseIP(host) == nil {
		err = fmt.Errorf("%q is no IP address", host)
	}
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return false, fmt.Errorf("%q is not an address with a port: write one, as in \"127.0.0.1:4222\"", address)
	}
	return host == "" || !net.ParseIP(host).IsLoopback(), nil
}

// serverURL reports whether a NATS server is on another machine.
func serverURL(text string) (remote bool, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Port() == "" || u.Scheme != "nats" && u.Scheme != "tls" {
		return false, fmt.Errorf("%q: write nats://HOST:PORT or tls://HOST:PORT", text)
	}
	if u.User != nil {
		return false, errors.New("has a name or a password in it, which logs would show: use user and password_file")
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()), nil
}

// Validate reports all faults, joined, each beginning with its key.
func (p *Partitions) Validate() error {
	var errs []error
	if p.Of < 1 || p.Of > record.Partitions {
		errs = append(errs, fmt.Errorf("of: %d: choose 1 to %d", p.Of, record.Partitions))
	} else if p.Index < 0 || p.Index >= p.Of {
		errs = append(errs, fmt.Errorf("index: %d: choose 0 to %d, one less than of", p.Index, p.Of-1))
	}
	if p.Share && p.Of > 1 {
		errs = append(errs, fmt.Errorf("share: is true, and of is %d: collectors that share the partitions find out how many they are: remove index and of, or share", p.Of))
	}
	return errors.Join(errs...)
}

// Set reports whether other collectors have some of the partitions, or may have.
func (p *Partitions) Set() bool { return p.Share || p.Of > 1 }

// Owner is the index of the collector that has the digests of a partition for good.
func (p *Partitions) Owner(partition int) int { return partition % max(p.Of, 1) }

// Fixed are the partitions that the collector has for good.
func (p *Partitions) Fixed() (m Mask) {
	for i := range record.Partitions {
		if !p.Share && p.Owner(i) == p.Index {
			m = m.With(i)
		}
	}
	return m
}

// Mask is a set of partitions.
type Mask uint16

// AllPartitions is the set of all.
const AllPartitions = Mask(1<<record.Partitions - 1)

// With is the set with a partition, Has reports whether it is in it.
func (m Mask) With(partition int) Mask { return m | 1<<partition }
func (m Mask) Has(partition int) bool  { return m>>partition&1 != 0 }

// List are the partitions, in order.
func (m Mask) List() (list []int) {
	for i := range record.Partitions {
		if m.Has(i) {
			list = append(list, i)
		}
	}
	return list
}
