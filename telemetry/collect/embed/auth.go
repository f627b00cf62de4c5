package embed

import (
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/jetstream"
)

// ownName is what the collector calls itself at its own server.
const ownName = "weir-collect"

// auth decides who a client is and what it may do. It does not change once made.
type auth struct {
	own     string // the password of ownName, random
	open    bool   // no client is named, so any client may publish
	tls     bool   // the name is that of the certificate
	clients map[string]client
	front   *front
	log     *zap.Logger
}

// client is somebody who may connect.
type client struct {
	password    string // empty: none is asked for
	permissions *server.Permissions
}

var _ server.Authentication = (*auth)(nil)

// newAuth reads the passwords.
func newAuth(c *collect.NATS) (*auth, error) {
	a := &auth{own: password(), open: len(c.Clients) == 0, tls: c.TLS != (collect.TLS{}), clients: map[string]client{}}
	for i, u := range c.Clients {
		word, err := secret(u.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("nats.client[%d].password_file: %w", i, err)
		}
		p := switchMay(u.Switch)
		if u.Role == collect.RoleCollector {
			p = collectorMay(u.Name)
		}
		a.clients[u.Name] = client{word, p}
	}
	return a, nil
}

// maxSecret bounds a file with a password, in bytes.
const maxSecret = 64 << 10

// secret reads a password, which is the first line of a file.
func secret(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	b, err := safefile.ReadTrusted(path, maxSecret)
	if err != nil {
		return "", fmt.Errorf("%w: name a readable file with the password", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	if line = strings.TrimSpace(line); line == "" {
		return "", fmt.Errorf("%s is empty: write the password into it", path)
	}
	return line, nil
}

// Check implements server.Authentication: it finds out who connects and says what
// that one may do.
func (a *auth) Check(c server.ClientAuthentication) bool {
	if c.Kind() != server.CLIENT {
		return false // no bridge to other networks
	}
	o := c.GetOpts()
	if o.Username == ownName {
		return a.admit(c, ownName, o.Password, client{a.own, ownMay()})
	}
	if a.open {
		return a.admit(c, "anonymous", "", client{permissions: anybodyMay()})
	}
	name := o.Username
	if a.tls {
		state := c.GetTLSConnectionState()
		if state == nil || len(state.PeerCertificates) == 0 {
			return false
		}
		certified := state.PeerCertificates[0].Subject.CommonName
		if name != "" && name != certified {
			return false
		}
		name = certified
	}
	u, ok := a.clients[name]
	return ok && a.admit(c, name, o.Password, u)
}

func (a *auth) admit(c server.ClientAuthentication, name, password string, u client) bool {
	if u.password != "" && subtle.ConstantTimeCompare([]byte(u.password), []byte(password)) != 1 {
		return false
	}
	if name != ownName {
		numbered, ok := c.(fmt.Stringer)
		if !ok {
			return false
		}
		if err := a.front.admit(numbered.String(), name); err != nil {
			a.log.Warn("a client is refused", zap.String("client", name), zap.Error(err))
			return false
		}
	}
	c.RegisterUser(&server.User{Username: name, Permissions: u.permissions})
	return true
}

func may(publish, subscribe []string) *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: publish},
		Subscribe: &server.SubjectPermission{Allow: subscribe},
	}
}

// switchMay is what a switch needs, and no more.
func switchMay(number uint32) *server.Permissions {
	return may([]string{jetstream.SubjectsOf(number)}, []string{jetstream.Acks(number) + ".>", jetstream.Assignments(number)})
}

// anybodyMay is for who needs no name: all of what switches may, and replies under NATS' usual
// names, under which no records are sent.
func anybodyMay() *server.Permissions {
	return may([]string{jetstream.Subjects}, []string{jetstream.AllAcks, jetstream.AllAssignments, "_INBOX.>"})
}

// ownMay is what the server's own collector needs in addition: it makes the stream, and keeps it as configured.
func ownMay() *server.Permissions {
	const stream = jetstream.Stream
	p := collectorMay(ownName)
	p.Publish.Allow = append(p.Publish.Allow, "$JS.API.STREAM.CREATE."+stream, "$JS.API.STREAM.UPDATE."+stream)
	return p
}

// collectorMay is what reading the stream needs, and asking and answering the collectors that share its digests. It can neither make nor change it: who updates a stream can have it
// keep one message, or seal it for good. Nobody deletes: an
// operator who wants that stops the collector and removes its folder.
func collectorMay(name string) *server.Permissions {
	const stream = jetstream.Stream
	p := may([]string{
		"$JS.API.INFO",
		"$JS.API.STREAM.INFO." + stream,
		"$JS.API.CONSUMER.CREATE." + stream + ".>", "$JS.API.CONSUMER.INFO." + stream + ".>",
		"$JS.API.CONSUMER.DELETE." + stream + ".>", "$JS.API.CONSUMER.MSG.NEXT." + stream + ".>",
		"$JS.FC.>", jetstream.AllAssignments, jetstream.AllDigests, jetstream.Members,
	}, []string{jetstream.Inbox(name) + ".>", jetstream.AllDigests, jetstream.Members})
	// It answers those who ask it for digests, once each.
	p.Response = &server.ResponsePermission{MaxMsgs: 1, Expires: answerWait}
	return p
}

// answerWait is how long a collector may take to answer another one.
const answerWait = 30 * time.Second

// routeAuth decides who is another server of the cluster, which sees and may do everything.
type routeAuth struct {
	members  []string
	password string // empty: none is asked for
}

// newRouteAuth lets in the members, or those of the own certificate's name.
func newRouteAuth(own tls.Certificate, members []string, password string) (*routeAuth, error) {
	if len(members) == 0 {
		leaf, err := x509.ParseCertificate(own.Certificate[0])
		if err != nil {
			return nil, fmt.Errorf("nats.tls.certificate: %w", err)
		}
		if leaf.Subject.CommonName == "" {
			return nil, errors.New("nats.tls.certificate: has no common name, by which other servers of the cluster would know it: set nats.cluster.members")
		}
		members = []string{leaf.Subject.CommonName}
	}
	return &routeAuth{members, password}, nil
}

// Check implements server.Authentication.
func (a *routeAuth) Check(c server.ClientAuthentication) bool {
	state := c.GetTLSConnectionState()
	if state == nil || len(state.PeerCertificates) == 0 || !slices.Contains(a.members, state.PeerCertificates[0].Subject.CommonName) {
		return false
	}
	o := c.GetOpts()
	return a.password == "" || o.Username == routeUser && subtle.ConstantTimeCompare([]byte(a.password), []byte(o.Password)) == 1
}
