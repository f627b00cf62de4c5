// The tests run parts of the program on BMv2, where it is installed, that no packet of a lab reaches at will.
package v1model_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/bmv2/bmv2test"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	m.Run()
}

// clocked puts a packet's own time stamps, in cpu_t, in place of BMv2's and gives the packet what egress_clock makes of
// them.
const clocked = `
#include <core.p4>
#include <v1model.p4>
#include "%s/clock.p4"

parser parse(packet_in p, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { p.extract(hdr.cpu); transition accept; }
}
control no_verify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control no_compute(inout headers_t hdr, inout metadata_t meta) { apply { } }
control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    pair_hash() hash_pair; // packet.p4 brings it along, and what is not used is a fault
    apply {
        pair_message_t message = { 0, 0 };
        hash_t h;
        hash_pair.apply(h, message, 0);
        ingress_clock.apply(hdr, meta, sm);
        sm.egress_spec = 1;
    }
}
control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        meta.arrival = hdr.cpu.arrival;
        sm.ingress_global_timestamp = (bit<48>)hdr.cpu.digest;
        sm.egress_global_timestamp = (bit<48>)hdr.cpu.id;
        egress_clock.apply(hdr, meta, sm);
        hdr.cpu.arrival = meta.now;
    }
}
control deparse(packet_out p, in headers_t hdr) { apply { p.emit(hdr.cpu); } }
V1Switch(parse(), no_verify(), ingress(), egress(), no_compute(), deparse()) main;
`

// TestClockSetBack: a packet leaves as long after its arrival as BMv2 says and, if BMv2's clock was set back
// meanwhile, at once: not years later.
func TestClockSetBack(t *testing.T) {
	tools := bmv2test.Find(t)
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile("clock.p4"); err != nil { // so that results are not those of another clock.p4
		t.Fatal(err)
	}
	source := filepath.Join(t.TempDir(), "clocked.p4")
	if err := os.WriteFile(source, fmt.Appendf(nil, clocked, here), 0o600); err != nil {
		t.Fatal(err)
	}
	s := bmv2test.Start(t, tools, bmv2test.Compile(t, tools, source), "wclk")
	const arrival = 1_800_000_000_123_456_000
	for _, c := range []struct{ ingress, egress, stay uint64 }{
		{5, 5, 0},
		{5, 12, 7000},
		{1 << 40, 1<<40 + 1_000_000, 1_000_000_000},
		{1<<48 - 3, 4, 7000}, // the counter of 48 bits begins anew
		{1_000_000, 999_999, 0},
		{1 << 40, 5, 0},
	} {
		p := make([]byte, 32)
		binary.BigEndian.PutUint64(p[8:], c.ingress)
		binary.BigEndian.PutUint64(p[16:], c.egress)
		binary.BigEndian.PutUint64(p[24:], arrival)
		if err := s.Send(bmv2.Packet{Port: 0, Data: p}); err != nil {
			t.Fatal(err)
		}
		got, err := s.Receive(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if now := binary.BigEndian.Uint64(got.Data[24:]); now != arrival+c.stay {
			t.Errorf("stamps %d and %d: the packet leaves %d ns after its arrival, want %d", c.ingress, c.egress, int64(now-arrival), c.stay)
		}
	}
}
