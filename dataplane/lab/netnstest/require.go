package netnstest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netns"
)

// RequireVariable is the environment variable that turns a skip into a failure
// when it is 1.
const RequireVariable = "WEIR_REQUIRE_NETNS"

// Require skips the test, with the reason, where network namespaces cannot be
// made. With WEIR_REQUIRE_NETNS=1 it fails the test instead.
func Require(t testing.TB) {
	t.Helper()
	if errors.Is(notIsolated, errNotCalled) {
		t.Fatal(notIsolated)
	}
	err := probe()
	if err == nil {
		return
	}
	if os.Getenv(RequireVariable) == "1" {
		t.Fatalf("%s=1, but network namespaces cannot be made: %v", RequireVariable, err)
	}
	t.Skipf("needs network namespaces (run as root): %v", err)
}

// Available is why network namespaces cannot be made, or nil.
func Available() error { return probe() }

// probe tries, once per process, all that the helpers will do.
var probe = sync.OnceValue(func() error {
	if notIsolated != nil {
		return notIsolated
	}
	ns, err := netns.Create(UniqueName("probe"))
	if err != nil {
		return err
	}
	defer ns.Delete()
	err = netns.AddVeth(netns.End{Namespace: ns, Name: "a"}, netns.End{Namespace: ns, Name: "b"}, netns.Veth{})
	if err != nil {
		return fmt.Errorf("make a veth pair: %w", err)
	}
	if err := ns.SetHostOffloads("a"); err != nil {
		return err
	}
	socket, err := ns.PacketSocket("a")
	if err != nil {
		return err
	}
	return socket.Close()
})
