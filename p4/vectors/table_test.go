package vectors

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TableVariable names a Markdown file with the table of what was compiled, placed, executed and compared: the lines of the programs
// that this run executed are written anew, if no test failed.
const TableVariable = "WEIR_P4_TABLE"

// outcome is what was done with a program.
type outcome struct {
	compiler, executed   string
	packets, differences int
	failed               bool
}

// outcomes are those of this run, by program.
var outcomes = map[string]*outcome{}

// ran adds to a program's outcome; what fails behind it in the test does, too.
func ran(t *testing.T, program, compiler, executed string, packets int) *outcome {
	t.Helper()
	o := outcomes[program]
	if o == nil {
		o = new(outcome)
		outcomes[program] = o
	}
	o.compiler, o.executed = compiler, executed
	o.packets += packets
	t.Cleanup(func() { o.failed = o.failed || t.Failed() })
	return o
}

// placedText are the headings of the assembler's report, which make p4 compares.
var placedText = regexp.MustCompile("(?m)^#### `(\\w+)\\.p4`: (\\d+ of \\d+ stages of Tofino \\d)$")

// placed says what stages the programs of p4/tna take.
func placed() (map[string]string, error) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, m := range placedText.FindAllStringSubmatch(string(text), -1) {
		all["tna/"+m[1]+".p4"] = m[2]
	}
	return all, nil
}

// tableRow is the line of a program.
func tableRow(program string, o *outcome, stages string) string {
	if stages == "" {
		stages = "no stages: software"
	}
	differences := fmt.Sprint(o.differences)
	if o.failed && o.differences == 0 {
		differences = "failed"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %d | %s |", program, o.compiler, stages, o.executed, o.packets, differences)
}

// writeTable writes the lines of this run into the file that the variable names.
func writeTable() error {
	file := os.Getenv(TableVariable)
	if file == "" || len(outcomes) == 0 {
		return nil
	}
	stages, err := placed()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, program := range slices.Sorted(maps.Keys(outcomes)) {
		line := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(program) + "` \\|.*$")
		if n := len(line.FindAll(text, -1)); n != 1 {
			return fmt.Errorf("%s: %d lines of %s in a table, not one", file, n, program)
		}
		text = line.ReplaceAllLiteral(text, []byte(tableRow(program, outcomes[program], stages[program])))
	}
	return os.WriteFile(file, text, 0o644)
}

// TestTablePrograms: the documented table has each program once, with the stages of the assembler's report, and as many packets
// without a difference as were compared.
func TestTablePrograms(t *testing.T) {
	stages, err := placed()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/p4.md")
	if err != nil {
		t.Fatal(err)
	}
	programs := append(slices.Sorted(maps.Keys(stages)), programName(hash.CRC), programName(hash.XX))
	if len(programs) != 7 {
		t.Fatalf("programs: %v", programs)
	}
	for _, program := range programs {
		_, row, ok := strings.Cut(string(text), "\n| `"+program+"` |")
		row, _, _ = strings.Cut(row, "\n")
		cells := strings.Split(row, " |")
		if !ok || len(cells) < 6 {
			t.Errorf("docs/p4.md has no line of %s", program)
			continue
		}
		if want := stages[program]; want != "" && strings.TrimSpace(cells[1]) != want {
			t.Errorf("%s is placed in%s, by p4/README.md in %s", program, cells[1], want)
		}
		if difference := strings.TrimSpace(cells[4]); difference != "0" && difference != "—" {
			t.Errorf("%s: differences: %s", program, difference)
		}
	}
}
