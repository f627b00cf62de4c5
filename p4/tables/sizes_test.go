package tables

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// TestSizes: what this package believes the program has room for is what the program
// says.
func TestSizes(t *testing.T) {
	files, err := filepath.Glob("../include/*.p4")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	macro := regexp.MustCompile(`(?m)^#define (\w+) (?:\d+w)?(\d\w*)`)
	said := map[string]uint64{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range macro.FindAllStringSubmatch(string(text), -1) {
			if said[m[1]], err = strconv.ParseUint(m[2], 0, 64); err != nil {
				t.Fatal(m[0], err)
			}
		}
	}
	for name, want := range map[string]uint64{
		"MAX_PORTS": MaxPorts, "CPU_SESSION": cpuSession,
		"STATION_TABLE_SIZE": maxStations, "ROUTE_TABLE_SIZE": maxRoutes, "NEXT_HOP_TABLE_SIZE": maxNextHops,
		"VLAN_MEMBER_TABLE_SIZE": maxVLANMembers, "FLOOD_TABLE_SIZE": maxFloods,
		"DIGEST_BITS": digestBits, "CODE_PART_BITS": codePartBits,
		"FRAGMENTS": maxFragments, "FRAGMENT_COLUMN_BITS": maxFragmentColumnBits,
		"LDS_ROWS": pointRows, "LDS_COLUMN_BITS": maxLDSColumnBits,
		"REASON_MULTICAST": reasonMulticast, "REASON_MARTIAN": reasonMartian,
	} {
		if n, ok := said[name]; !ok || n != want {
			t.Errorf("%s is %d (%v) in p4/include, %d here", name, n, ok, want)
		}
	}
	if n := 1 << said["LDS_POINT_BITS"]; n != maxPoints {
		t.Errorf("%d measurement points in p4/include, %d here", n, maxPoints)
	}
	if n := WeirInfo().tables[pintControl+".encoder.query_set"].Size; n != maxSets {
		t.Errorf("%d sets of queries in the program, %d here", n, maxSets)
	}
}
