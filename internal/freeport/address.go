package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
)

var (
	lock  sync.Mutex
	given = map[int]bool{}
)

// Address is one of 127.0.0.1 without a listener, and that no other call in this process
// was or will be given. Its port is below those that the kernel chooses for port 0:
// between two runs of a server neither a client's connection nor a listener on port 0 takes
// it. Other processes' tests draw from the same ports, so the draw is not seeded.
func Address(t testing.TB) string {
	t.Helper()
	lock.Lock()
	defer lock.Unlock()
	const first = 10_000
	var err error
	for range 1000 {
		port := first + rand.IntN(kernelFirst()-first)
		if given[port] {
			continue
		}
		address := fmt.Sprintf("127.0.0.1:%d", port)
		var l net.Listener
		if l, err = net.Listen("tcp", address); err != nil {
			continue
		}
		_ = l.Close()
		given[port] = true
		return address
	}
	t.Fatalf("no free port: %v", err)
	return ""
}

// kernelFirst is the first port that the kernel gives: ip_local_port_range, whose default
// serves where it cannot be read or leaves too few below it.
func kernelFirst() int {
	const usual, least = 32_768, 12_000
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	first := 0
	if _, scanErr := fmt.Sscan(string(text), &first); err != nil || scanErr != nil || first < least {
		return usual
	}
	return first
}
