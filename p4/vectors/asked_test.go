package vectors

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestAsked: with anything given, each test of make p4-test fails where a program is missing, and without, none does.
func TestAsked(t *testing.T) {
	given := []string{"P4C_BM2=x", "SIMPLE_SWITCH=x", "P4TEST=x", "P4_TABLE=x", "P4_CAPTURES=x", "P4_SETUPS=x", "P4_SEED=7", "P4_PACKETS=20000"}
	for _, variable := range append(given, "") {
		args := []string{"-n", "-C", "../..", "p4-test"}
		if variable != "" {
			args = append(args, variable)
		}
		c := exec.Command("make", args...)
		c.Env = slices.DeleteFunc(os.Environ(), func(e string) bool {
			name, _, _ := strings.Cut(e, "=")
			return strings.HasPrefix(name, "MAKE") || name == "MFLAGS" || slices.ContainsFunc(given, func(g string) bool { return strings.HasPrefix(g, name+"=") })
		})
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		commands := 0
		text := strings.ReplaceAll(string(out), "\\\n", "")
		for _, line := range strings.Split(text, "\n") {
			if !strings.Contains(line, " test -count=1 ") {
				continue
			}
			commands++
			if required := strings.Contains(line, "WEIR_REQUIRE_BMV2=1 "); required != (variable != "") {
				t.Errorf("with %q: required %v: %s", variable, required, line)
			}
		}
		if commands != 5 {
			t.Errorf("with %q make p4-test has %d tests:\n%s", variable, commands, out)
		}
	}
}
