package lab

import (
	"strings"
	"testing"
)

// open is a bridge that keeps no hosts apart.
const open = `
[[host]]
name = "red1"
addresses = ["10.0.0.1/24", "fd00::1/64"]
[[host]]
name = "red2"
addresses = ["10.0.0.2/24", "fd00::2/64"]
[[host]]
name = "blue1"
addresses = ["10.0.0.3/24", "fd00::3/64"]
[[bridge]]
name = "b1"
[[link]]
endpoints = ["red1", "b1:p0"]
[[link]]
endpoints = ["red2", "b1:p1"]
[[link]]
endpoints = ["blue1", "b1:p2"]
`

// TestReachAndForgedSeeLeaks: where nothing keeps tenants apart, each pair that shall not reach each other does, and forged frames arrive. Hosts of one tenant reach each
// other, and their frames may.
func TestReachAndForgedSeeLeaks(t *testing.T) {
	c, file := newLab(t, open+`
[[traffic]]
kind = "reach"
tenants = [["red1", "red2"], ["blue1"]]
count = 1
[[traffic]]
kind = "reach"
tenants = [["red1", "red2"]]
outside = ["blue1"]
count = 1
[[traffic]]
kind = "forged"
from = "red1"
to = "blue1"
peers = ["red2"]
count = 1203
vlans = [10, 20]
`)
	o, err := Run(t.Context(), c, Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	said := describe(t, o)
	if o.OK || len(o.Traffic) != 3 || !strings.Contains(said, "CROSS") {
		t.Fatalf("outcome:\n%s", said)
	}
	// Of each pair of hosts there are two directions and two IP versions.
	for i, want := range []struct{ pairs, leaked int }{{12, 8}, {12, 4}} {
		r := o.Traffic[i].Reach
		leaked, unreached := r.wrong()
		if len(r.Pairs) != want.pairs || len(leaked) != want.leaked || len(unreached) != 0 || o.Traffic[i].OK() {
			t.Errorf("reach %d: %d pairs, leaked %q, unreached %q", i, len(r.Pairs), leaked, unreached)
		}
	}
	forged := o.Traffic[2]
	sent, crossed := uint64(0), map[string]uint64{}
	for _, f := range forged.Forged {
		sent += f.Sent
		crossed[f.Kind] = f.Crossed
		if f.Crossed > 0 && f.At != "blue1" {
			t.Errorf("%+v", f)
		}
	}
	if forged.OK() || sent != 1203 || forged.Sent != 1203 {
		t.Errorf("%+v", forged)
	}
	for _, kind := range []string{"neighbour", "vlan", "double-tag", "arp", "neighbour-discovery", "source-mac"} {
		if crossed[kind] == 0 {
			t.Errorf("none of kind %s arrived: %v", kind, crossed)
		}
	}
	if len(crossed) != 6 {
		t.Errorf("kinds for which the load has nothing: %v", crossed)
	}
}

// TestReachIsRight: on the same bridge all is as it shall be if all are one tenant, and a forgery that its only receiver may get has not crossed.
func TestReachIsRight(t *testing.T) {
	c, file := newLab(t, strings.Replace(open, "\"fd00::3/64\"", "\"fd01::3/64\"", 1)+`
[[traffic]]
kind = "reach"
tenants = [["red1", "red2"]]
`)
	o, err := Run(t.Context(), c, Options{File: file})
	if err != nil || !o.OK || len(o.Traffic[0].Reach.Pairs) != 4 {
		t.Fatalf("%v, outcome:\n%s", err, describe(t, o))
	}
}

func TestReachAndForgedFaults(t *testing.T) {
	_, err := Parse(open+`
[[traffic]]
kind = "reach"
from = "red1"
count = 2000
tenants = [["red1", "red1"], ["rde2"]]
[[traffic]]
kind = "reach"
rate = 5
[[traffic]]
kind = "forged"
from = "red1"
to = "blue1"
peers = ["blue1", "grey"]
vlans = [4095]
vnis = [16777216]
outside_addresses = ["fd00::1"]
[[traffic]]
kind = "udp"
from = "red1"
to = "red2"
cut = "red1"
[[traffic]]
kind = "ping"
from = "red1"
to = "red2"
cut_at = 0.5
[[traffic]]
kind = "udp"
from = "red1"
to = "red2"
group = "g"
cut = "red1"
[[traffic]]
kind = "udp"
from = "red1"
to = "red2"
group = "g"
cut = "red1"
`, "x")
	if err == nil {
		t.Fatal("no fault was found")
	}
	for _, want := range []string{
		"traffic[0].from: each host asks each other one",
		"traffic[0].count: 2000: choose 1 to 1000",
		`traffic[0].tenants[0][1]: "red1" is at traffic[0].tenants[0][0] too`,
		`traffic[0].tenants[1][0]: "rde2" is no host: did you mean "red2"`,
		`traffic[1].rate: not read by kind "reach"`,
		"traffic[1].tenants: missing",
		`traffic[2].peers[0]: "blue1" is the victim`,
		`traffic[2].peers[1]: "grey" is no host`,
		"traffic[2].vlans[0]: 4095: choose 1 to 4094",
		"traffic[2].vnis[0]: 16777216",
		"traffic[2].vnis: forged tunnels need both",
		"traffic[2].from: red1 has no gateway",
		`traffic[2].outside_addresses[0]: "fd00::1": write an IPv4 address`,
		`traffic[3].cut: "red1" is no end of a cable between switches`,
		"traffic[4].cut_at: nothing is cut",
		"traffic[6].cut: traffic[5] of the same group cuts a cable already",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing fault %q in\n%v", want, err)
		}
	}
}
