package node

import (
	"strings"
	"testing"

	"github.com/weirswitch/weir/config"
)

// TestSameDevices: what keeps a new process from the ports and the memory of the old one is named by its keys, with both values.
func TestSameDevices(t *testing.T) {
	const text = "[switch]\nname = \"s1\"\ngraph = [\"parse\", \"bond\", \"l2\", \"distribute\"]\n[[port]]\ninterface = \"p0\"\n[[port]]\ninterface = \"p1\"\n" +
		"[[port]]\nname = \"bond0\"\ndriver = \"bond\"\nmode = \"lacp\"\nmembers = [\"p0\"]\n"
	theirs, err := config.Parse([]byte(text))
	check(t, err)
	for _, c := range []struct {
		edit []string // of the new process's file
		want []string // nil: it is not refused
	}{
		{nil, nil},
		{[]string{"[switch]", "[control]\ntakeover = true\n[switch]"}, nil},
		{[]string{"\"l2\"", "\"l2\", \"lds_egress\""}, nil},
		{[]string{"[[port]]\ninterface = \"p1\"\n", "", "mode = \"lacp\"\n", "mode = \"lacp\"\n[[port]]\ninterface = \"p1\"\n", "members = [\"p0\"]", "", "name = \"bond0\"", "name = \"bond0\"\nmembers = [\"p0\"]"}, nil},
		{[]string{"[switch]", "[dataplane]\ntx_ring = 512\naudit = true\n[workers]\ncount = 2\n[switch]\nid = 7"},
			[]string{"switch.id is 1 there and 7 here", "dataplane.audit is false there and true here", "dataplane.tx_ring is 2048 there and 512 here", "workers.count is 1 there and 2 here"}},
		{[]string{"interface = \"p1\"", "interface = \"p1\"\ntx_budget = 32\nrss = \"symmetric\""},
			[]string{"port[1].tx_budget of port p1 is 0 there and 32 here", "port[1].rss of port p1 is \"keep\" there and \"symmetric\" here"}},
		{[]string{"\"p1\"", "\"p1\"\n[[port.class]]\nname = \"best\"\ndefault = true\n"},
			[]string{"port p1 has rate_bits or classes there and not here"}},
		{[]string{"members = [\"p0\"]", "members = [\"p0\", \"p1\"]\nlacp_rate = \"fast\""},
			[]string{"port[2].members of port bond0 is [\"p0\"] there and [\"p0\", \"p1\"] here", "port[2].lacp_rate of port bond0 is \"\" there and \"fast\" here"}},
		{[]string{"interface = \"p1\"", "interface = \"p2\""}, []string{"port p1 is missing here", "port p2 is missing there"}},
		{[]string{"interface = \"p1\"", "name = \"p1\"\ninterface = \"p2\""}, []string{"port[1].interface of port p1 is \"p1\" there and \"p2\" here"}},
	} {
		ours, err := config.Parse([]byte(strings.NewReplacer(c.edit...).Replace(text)))
		check(t, err)
		err = sameDevices(theirs, ours)
		if len(c.want) == 0 {
			if err != nil {
				t.Errorf("%q: %v", c.edit, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%q: it is not refused", c.edit)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		for i, want := range c.want {
			if len(lines) != len(c.want) || !strings.Contains(lines[i], want) {
				t.Errorf("%q: refused by %q, and not by %q", c.edit, lines, c.want)
				break
			}
		}
	}
}
