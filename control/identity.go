package control

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"

	"github.com/weirswitch/weir/internal/socket"
)

// identity is who is at the other end of a connection: a process of this machine,
// by what the kernel says, or the owner of a certificate.
type identity struct {
	uid, pid    int    // of a process; pid 0 is one of another pid namespace
	certificate string // the common name; empty: a process
	admin       bool
}

// itself reports whether it is the switch that acts, as by a signal.
func (id identity) itself() bool { return id.uid == -1 && id.pid == 0 && id.certificate == "" }

// String names the client in logs and answers.
func (id identity) String() string {
	if id.certificate != "" {
		return fmt.Sprintf("certificate %q", id.certificate)
	}
	return fmt.Sprintf("uid %d", id.uid)
}

// identityKey finds an identity in a context.
type identityKey struct{}

// identityOf returns the client of a call.
func identityOf(ctx context.Context) identity {
	id, _ := ctx.Value(identityKey{}).(identity)
	return id
}

// peerOf asks the kernel who connected to a unix socket. Root and the switch's
// own user are admins. Others got past the socket's mode, so they are of its
// group. A peer that the kernel does not name may read like these.
func peerOf(c net.Conn) identity {
	p := socket.PeerOf(c)
	return identity{uid: p.UID, pid: p.PID, admin: p.Privileged()}
}

// certified returns the owner of the certificate with which a request came. The
// handshake has verified it.
func certified(r *http.Request, admins []string) identity {
	id := identity{uid: -1, certificate: "without a name"}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return id
	}
	if name := r.TLS.PeerCertificates[0].Subject.CommonName; name != "" {
		id.certificate = name
		id.admin = slices.Contains(admins, name)
	}
	return id
}
