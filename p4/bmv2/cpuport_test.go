package bmv2

import (
	"bytes"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// TestCPUPort: what is sent by the interface is read here, however long, and nothing else; it goes with its file.
func TestCPUPort(t *testing.T) {
	netnstest.Require(t)
	ns := netnstest.New(t, "wcpu")
	var p *CPUPort
	err := ns.Do(func() (err error) {
		p, err = OpenCPUPort()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	socket, err := ns.PacketSocket(p.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	b := make([]byte, 1<<17)
	for _, length := range []int{60, 1500, cpuMTU} {
		frame := bytes.Repeat([]byte{byte(length)}, length)
		if err := socket.Send(frame); err != nil {
			t.Fatal(err)
		}
		n, err := p.Read(b)
		if err != nil || !bytes.Equal(b[:n], frame) {
			t.Errorf("%d bytes sent, %d read: %v", length, n, err)
		}
	}
	count := func() (n uint64) {
		err := ns.Do(func() (err error) {
			n, err = p.Dropped()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(); n != 0 {
		t.Errorf("%d dropped", n)
	}
	const more = 100
	for range cpuQueue + more {
		if err := socket.Send(b[:60]); err != nil {
			break // The kernel may say that there is no room.
		}
	}
	if n := count(); n < more || n > 2*more { // The ring keeps some places of what was read.
		t.Errorf("%d dropped of %d too many", n, more)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := ns.Link(p.Name()); err == nil {
		t.Errorf("%s is still there", p.Name())
	}
}
