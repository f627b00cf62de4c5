package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/weirswitch/weir/internal/printable"
	"github.com/weirswitch/weir/internal/tomlfile"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/view/ipfix"
)

// Collect is the complete configuration of a collector.
type Collect struct {
	Collect    Collecting         `toml:"collect"`
	NATS       collect.NATS       `toml:"nats"`
	Retention  collect.Retention  `toml:"retention"`
	Archive    collect.Archive    `toml:"archive"`
	Store      CollectStore       `toml:"store"`
	Partitions collect.Partitions `toml:"partitions"`
	Limits     CollectLimits      `toml:"limits"`
	TLS        CollectTLS         `toml:"tls"`
	// IPFIX sends the heavy flows of each interval to an IPFIX collector.
	IPFIX ipfix.Config `toml:"ipfix"`
	// Links are the cables between the switches, which the page draws.
	Links []Link `toml:"link"`
	// Regions are those whose collectors answer this collector's questions, beside what it has itself.
	Regions []Region `toml:"region"`
	Log     Log      `toml:"log"`
}

// Collecting is the collector itself, [collect].
type Collecting struct {
	// Name is the collector's name, in logs and in a cluster; default: the host's.
	Name string `toml:"name"`
	// Listen is the address of the page, the API and the metrics. One that other machines reach
	// needs [tls].
	Listen string `toml:"listen"`
	// Socket is the path of a unix socket that serves the same to this machine's root and
	// to the collector's own user; empty: none.
	Socket string `toml:"socket"`
	// Users may read too, over plain TCP on this machine: names or numbers. Without certificates
	// the collector is there for root and its own user.
	Users []string `toml:"users"`
	// Data is the folder of what is kept; default: weir-collect, in the folder that systemd
	// names or in the present one.
	Data string `toml:"data"`
	// Plans are the files of PINT's plans, as in [stages.pint] plan; none: the plan that switches
	// have without one.
	Plans []string `toml:"plans"`
	// Paths is a file of flows' paths, as weir query --paths reads it, for the flows of which PINT
	// knows none.
	Paths string `toml:"paths"`
	// Lab is a lab's file instead: the paths follow from its switches' routes, else from its links.
	Lab string `toml:"lab"`
	// Keys are files of networks' secret keys (weir key): with them, records that were not made under one are counted as
	// unkeyed, and are in no answer. The latest is the last.
	Keys []string `toml:"keys"`
	// Keyless are the numbers of switches whose records are taken all the same, such as P4's, which have no keyed hash.
	Keyless []uint32 `toml:"keyless"`
	// FlowSeed is the seed of [stages.parse] in the switches.
	FlowSeed uint64 `toml:"flow_seed"`
	// Coordinate has the collector choose the numbers of subepochs of DiSketch's fragments from the records of all
	// switches and the paths of flows, and send them to the switches; otherwise each switch chooses its own. A collector of one partition of
	// several cannot: it has not all paths.
	Coordinate bool `toml:"coordinate"`
}

// CollectStore bounds what is in memory, [store].
type CollectStore struct {
	// Bytes is for records and digests; beyond, the oldest slices of the clock go, from memory
	// alone.
	Bytes int64 `toml:"bytes"`
}

// CollectLimits bound what clients may ask, [limits].
type CollectLimits struct {
	// Queries is how many questions are answered at a time; more wait, up to QueryTime.
	Queries int `toml:"queries"`
	// QueryTime is how long an answer may take.
	QueryTime time.Duration `toml:"query_time"`
	// Candidates are the flows of one question that are asked one by one, Records the
	// records or digests that it reads, Bytes the memory that it takes in addition to the store's.
	Candidates int   `toml:"candidates"`
	Records    int   `toml:"records"`
	Bytes      int64 `toml:"bytes"`
	// RequestBytes bound a request, Connections the clients at a time.
	RequestBytes int64 `toml:"request_bytes"`
	Connections  int   `toml:"connections"`
}

// CollectTLS says which other machines may connect, [tls]: TLS 1.3 with certificates on
// both sides.
type CollectTLS struct {
	// Certificate and Key are the collector's own, CA signs the clients'; files in PEM.
	Certificate string `toml:"certificate"`
	Key         string `toml:"key"`
	CA          string `toml:"ca"`
	// Revoked is a list of clients' certificates that are revoked (a CRL, which CA signed); empty: none is.
	Revoked string `toml:"revoked"`
	// Readers are the common names of the certificates that may read; none: all that CA signed, or only Admins where
	// nats.tls.ca has the same authority, as a switch's certificate is for publishing alone.
	Readers []string `toml:"readers"`
	// Admins are the common names of the certificates that may change the collector.
	Admins []string `toml:"admins"`
}

// Link is a cable between two ports of switches, [[link]].
type Link struct {
	// Ends are "SWITCH:PORT", by names, or the name of a host.
	Ends [2]string `toml:"ends"`
	// Speed is what the cable carries in each direction, in bits per second; 0: what the ports say.
	Speed uint64 `toml:"speed"`
}

// URL is the URL of the page and the API at an address.
func (c *Collect) URL(address string) string {
	if c.TLS.Certificate != "" {
		return "https://" + address + "/"
	}
	return "http://" + address + "/"
}

// Certificates are the files of [tls], as a collector's package reads them.
func (c *Collect) Certificates() collect.TLS {
	return collect.TLS{Certificate: c.TLS.Certificate, Key: c.TLS.Key, CA: c.TLS.CA, Revoked: c.TLS.Revoked}
}

// DefaultCollect returns what holds for keys that a file leaves out: a collector of this
// machine alone.
func DefaultCollect() *Collect {
	return &Collect{
		Collect:    Collecting{Listen: "127.0.0.1:9470"},
		NATS:       collect.DefaultNATS(),
		Retention:  collect.DefaultRetention(),
		Archive:    collect.DefaultArchive(),
		Store:      CollectStore{Bytes: 1 << 30},
		Partitions: collect.DefaultPartitions(),
		Limits: CollectLimits{
			Queries: 4, QueryTime: 10 * time.Second, Candidates: 1 << 18, Records: 1 << 24, Bytes: 1 << 30,
			RequestBytes: 1 << 20, Connections: 256,
		},
		IPFIX: ipfix.DefaultConfig(),
		Log:   DefaultLog(),
	}
}

// LoadCollect reads and checks a file. The error joins a tomlfile.Fault for all that is wrong.
func LoadCollect(path string) (*Collect, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return readCollect(data, path)
}

// ParseCollect checks the text of a file, as LoadCollect does.
func ParseCollect(data []byte) (*Collect, error) { return readCollect(data, "") }

func readCollect(data []byte, path string) (*Collect, error) {
	c := DefaultCollect()
	f := tomlfile.Decode(data, c, nil)
	c.complete(f)
	for i, key := range c.Collect.Keys {
		if _, err := useKey(key); err != nil {
			f.Add(fmt.Sprintf("collect.keys[%d]", i), "%v", err)
		}
	}
	if len(c.Collect.Keyless) != 0 && len(c.Collect.Keys) == 0 {
		f.Add("collect.keyless", "is set, but there are no keys: set collect.keys, or remove it")
	}
	c.validate(f)
	if !f.Empty() {
		return nil, f.Err(path)
	}
	return c, nil
}

// complete fills in the defaults that depend on other values.
func (c *Collect) complete(f *tomlfile.Faults) {
	if c.Collect.Name == "" {
		name, err := os.Hostname()
		if err != nil || !printable.IsName(name) {
			f.Add("collect.name", "is missing, and the host's name %q cannot serve: set it", name)
		}
		c.Collect.Name = name
	}
	for i := range c.NATS.Clients {
		if u := &c.NATS.Clients[i]; u.Role == "" {
			u.Role = collect.RoleSwitch
		}
	}
}

// validate collects what is wrong with the values, table by table and across.
func (c *Collect) validate(f *tomlfile.Faults) {
	if !printable.IsName(c.Collect.Name) && !f.Under("collect.name") {
		f.Add("collect.name", "%q is not a name: use 1 to 32 letters, digits, '.', '_' and '-'", c.Collect.Name)
	}
	f.AddAll("collect", c.Collect.Validate())
	f.AddAll("nats", c.NATS.Validate())
	f.AddAll("retention", c.Retention.Validate())
	f.AddAll("archive", c.Archive.Validate())
	f.AddAll("store", c.Store.Validate())
	f.AddAll("partitions", c.Partitions.Validate())
	f.AddAll("limits", c.Limits.Validate())
	f.AddAll("ipfix", c.IPFIX.Validate())
	f.AddAll("log", c.Log.Validate())
	c.validateTLS(f)
	c.validateLinks(f)
	c.validateRegions(f)
}

// Validate reports all faults, joined, each beginning with its key. It reads no file.
func (c *Collecting) Validate() error {
	var errs []error
	if _, err := collect.Remote(c.Listen); err != nil {
		errs = append(errs, fmt.Errorf("listen: %w", err))
	}
	const maxPath = 107 // sun_path of include/uapi/linux/un.h, less the zero byte
	switch {
	case c.Socket == "":
	case !filepath.IsAbs(c.Socket):
		errs = append(errs, fmt.Errorf("socket: %q is not an absolute path: begin it with a slash", c.Socket))
	case len(c.Socket) > maxPath:
		errs = append(errs, fmt.Errorf("socket: the path has %d bytes, a unix socket's has at most %d: choose a shorter one", len(c.Socket), maxPath))
	}
	if c.Paths != "" && c.Lab != "" {
		errs = append(errs, errors.New("lab: paths names the flows' paths already: remove one of them"))
	}
	for i, p := range c.Plans {
		if p == "" {
			errs = append(errs, fmt.Errorf("plans[%d]: is empty: name a file that weir plan wrote", i))
		}
	}
	for i, name := range c.Users {
		if _, err := userNumber(name); err != nil {
			errs = append(errs, fmt.Errorf("users[%d]: %w: name a user of this machine, or its number", i, err))
		}
	}
	return errors.Join(errs...)
}

// UserNumbers are the numbers of Users.
func (c *Collecting) UserNumbers() (numbers []int) {
	for _, name := range c.Users {
		if n, err := userNumber(name); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

func userNumber(name string) (int, error) {
	if n, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(n), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(u.Uid)
}

// Validate reports a store without room.
func (c *CollectStore) Validate() error {
	const least = 16 << 20
	if c.Bytes < least {
		return fmt.Errorf("bytes: %d: choose %d or more", c.Bytes, least)
	}
	return nil
}

// Validate reports all faults, joined, each beginning with its key.
func (c *CollectLimits) Validate() error {
	var errs []error
	bound := func(key string, n, least, most int64) {
		if n < least || n > most {
			errs = append(errs, fmt.Errorf("%s: %d: choose %d to %d", key, n, least, most))
		}
	}
	bound("queries", int64(c.Queries), 1, 1024)
	bound("candidates", int64(c.Candidates), 1, 1<<30)
	bound("records", int64(c.Records), 1, 1<<40)
	bound("bytes", c.Bytes, 1<<20, 1<<50)
	bound("request_bytes", c.RequestBytes, 1<<10, 64<<20)
	bound("connections", int64(c.Connections), 1, 1<<20)
	if c.QueryTime < 10*time.Millisecond || c.QueryTime > time.Hour {
		errs = append(errs, fmt.Errorf("query_time: %v: choose 10ms to 1h", c.QueryTime))
	}
	return errors.Join(errs...)
}

func (c *Collect) validateTLS(f *tomlfile.Faults) {
	remote, err := collect.Remote(c.Collect.Listen)
	if remote && err == nil && c.Certificates() == (collect.TLS{}) {
		f.Add("collect.listen", "other machines reach %s, so both sides must have certificates: set [tls], or listen on 127.0.0.1", c.Collect.Listen)
	}
	t := c.Certificates()
	f.AddAll("tls", t.Validate())
	if t == (collect.TLS{}) && len(c.TLS.Admins) != 0 {
		f.Add("tls.admins", "is set, but there are no certificates: set tls.certificate, tls.key and tls.ca, or remove it")
	}
	if t == (collect.TLS{}) && len(c.TLS.Readers) != 0 {
		f.Add("tls.readers", "is set, but there are no certificates: set tls.certificate, tls.key and tls.ca, or remove it")
	}
	for i, name := range c.TLS.Readers {
		if name == "" {
			f.Add(fmt.Sprintf("tls.readers[%d]", i), "is empty: name the common name of a certificate")
		}
	}
	for i, name := range c.TLS.Admins {
		if name == "" {
			f.Add(fmt.Sprintf("tls.admins[%d]", i), "is empty: name the common name of a certificate")
		}
	}
}

// linkEnd is a switch and a port by their names, or a host by its own.
var linkEnd = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,31}(:[A-Za-z0-9_][A-Za-z0-9._-]{0,31})?$`)

func (c *Collect) validateLinks(f *tomlfile.Faults) {
	taken := map[string]int{}
	for i, l := range c.Links {
		for j, end := range l.Ends {
			key := fmt.Sprintf("link[%d].ends[%d]", i, j)
			if !linkEnd.MatchString(end) {
				f.Add(key, "%q is no end of a link: write \"SWITCH:PORT\", or a host's name", end)
				continue
			}
			if k, ok := taken[end]; ok && strings.Contains(end, ":") {
				f.Add(key, "link[%d] is plugged into %s already: a port has one cable", k, end)
			}
			taken[end] = i
		}
	}
}

// Dump writes the complete configuration, defaults included, as TOML that loads
// again to the same.
func (c *Collect) Dump(w io.Writer) error { return dump(w, *c) }
