package tables

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TestSizes: what this package believes the program has room for is what the program
// says, as far as p4/include does not compare it by name.
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
	if n := said["CODE_PART_BITS"]; n != codePartBits {
		t.Errorf("codes look at %d bits in p4/include, at %d here", n, codePartBits)
	}
	if n := 1 << said["LDS_POINT_BITS"]; n != maxPoints {
		t.Errorf("%d measurement points in p4/include, %d here", n, maxPoints)
	}
	if n := WeirInfo(hash.CRC).tables[pintControl+".encoder.query_set"].Size; n != maxSets {
		t.Errorf("%d sets of queries in the program, %d here", n, maxSets)
	}
}
