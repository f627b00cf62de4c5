package doctest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// block is a fenced block with commands.
type block struct {
	line     int // of the opening fence, from 1
	language string
	text     []string

	netns, output, background bool
	long                      bool     // left out under -short
	config, lab               bool     // toml: what kind of file it is
	ready                     string   // background: it printed this
	needs                     []string // programs
	exit                      int
	skip                      string // the reason
}

// markComment is the comment in front of a block.
var markComment = regexp.MustCompile(`^<!-- doctest: (.*) -->$`)

// parse finds the blocks with commands in a file's lines.
func parse(lines []string) ([]block, error) {
	var blocks []block
	marks := ""
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if m := markComment.FindStringSubmatch(line); m != nil {
			marks = m[1]
			continue
		}
		language, ok := strings.CutPrefix(line, "```")
		if !ok {
			if marks != "" && line != "" {
				return nil, fmt.Errorf("line %d: a doctest mark without a block behind it", i)
			}
			continue
		}
		end := i + 1
		for end < len(lines) && lines[end] != "```" {
			end++
		}
		if end == len(lines) {
			return nil, fmt.Errorf("line %d: the block has no end", i+1)
		}
		b := block{line: i + 1, language: language, text: lines[i+1 : end]}
		if err := b.mark(marks); err != nil {
			return nil, fmt.Errorf("line %d: %w", i, err)
		}
		switch language {
		case "sh", "console":
			blocks = append(blocks, b)
		case "toml":
			if b.config || b.lab {
				blocks = append(blocks, b)
			} else if b.skip == "" {
				return nil, fmt.Errorf("line %d: say whether this is a config or a lab file, so that it is tested", i+1)
			}
		case "bash", "shell":
			return nil, fmt.Errorf("line %d: call the language sh or console, so that the commands are tested", i+1)
		default:
			if marks != "" {
				return nil, fmt.Errorf("line %d: a doctest mark for a block of %q", i, language)
			}
		}
		marks, i = "", end
	}
	return blocks, nil
}

// mark takes in what the comment in front of the block says.
func (b *block) mark(marks string) error {
	if marks == "" {
		return nil
	}
	for _, mark := range strings.Split(marks, ";") {
		word, rest, _ := strings.Cut(strings.TrimSpace(mark), " ")
		var err error
		switch {
		case word == "netns" && rest == "":
			b.netns = true
		case word == "long" && rest == "":
			b.long = true
		case word == "config" && rest == "" && b.language == "toml":
			b.config = true
		case word == "lab" && rest == "" && b.language == "toml":
			b.lab = true
		case word == "output" && rest == "" && b.language == "console":
			b.output = true
		case word == "background" && rest != "" && b.language == "sh":
			b.background, b.ready = true, rest
		case word == "needs" && rest != "":
			b.needs = strings.Fields(rest)
		case word == "exit" && b.language == "sh":
			b.exit, err = strconv.Atoi(rest)
		case word == "skip" && rest != "":
			b.skip = rest
		default:
			err = fmt.Errorf("mark %q is none, or not one for a block of %s", mark, b.language)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// command is one script of a block.
type command struct {
	script  string
	printed []string // console: the lines behind it
}

// commands returns the block's scripts.
func (b *block) commands() []command {
	if b.language == "sh" {
		return []command{{script: strings.Join(b.text, "\n")}}
	}
	var all []command
	for i := 0; i < len(b.text); i++ {
		script, ok := strings.CutPrefix(b.text[i], "$ ")
		if !ok {
			if len(all) != 0 {
				last := &all[len(all)-1]
				last.printed = append(last.printed, b.text[i])
			}
			continue
		}
		for strings.HasSuffix(script, `\`) && i+1 < len(b.text) {
			i++
			script += "\n" + strings.TrimPrefix(b.text[i], "> ")
		}
		all = append(all, command{script: script})
	}
	return all
}

var (
	numbers = regexp.MustCompile(`[+-]?\d[\d.,:]*( ?(ns|µs|ms|s|m|h|%|k|M|G|B|KiB|MiB|GiB|[kM]pps|[kMG]?bit/s))?\b%?`)
	blanks  = regexp.MustCompile(`\s+`)
	rules   = regexp.MustCompile(`[-─=]{3,}`)
)

// shape is a printed line without what differs from run to run.
func shape(line string) string {
	line = numbers.ReplaceAllString(line, "N")
	line = rules.ReplaceAllString(line, "---")
	return strings.TrimSpace(blanks.ReplaceAllString(line, " "))
}

// sameShape compares printed lines with those of a document.
func sameShape(documented, printed []string) bool {
	if len(documented) == 0 {
		return len(printed) == 0
	}
	if documented[0] == "..." {
		for skip := range len(printed) + 1 {
			if sameShape(documented[1:], printed[skip:]) {
				return true
			}
		}
		return false
	}
	return len(printed) != 0 && shape(documented[0]) == shape(printed[0]) && sameShape(documented[1:], printed[1:])
}

func TestParse(t *testing.T) {
	text := strings.Split("# Title\n\n<!-- doctest: skip none -->\n```toml\na = 1\n```\n<!-- doctest: netns; output -->\n```console\n$ a \\\n> b\nx 1\n$ c\n```\n\n```text\n```\n"+
		"<!-- doctest: exit 2; needs ip ethtool; long -->\n```sh\nfalse\n```", "\n")
	blocks, err := parse(text)
	if err != nil || len(blocks) != 2 {
		t.Fatal(blocks, err)
	}
	first, second := blocks[0], blocks[1]
	if !first.netns || !first.output || first.line != 8 {
		t.Errorf("first block: %+v", first)
	}
	if c := first.commands(); len(c) != 2 || c[0].script != "a \\\nb" || !slices.Equal(c[0].printed, []string{"x 1"}) || c[1].script != "c" || c[1].printed != nil {
		t.Errorf("commands: %+v", c)
	}
	if second.exit != 2 || !slices.Equal(second.needs, []string{"ip", "ethtool"}) || second.netns || !second.long {
		t.Errorf("second block: %+v", second)
	}
	for _, bad := range []string{
		"```sh\ntrue",
		"```bash\ntrue\n```",
		"<!-- doctest: sometimes -->\n```sh\n```",
		"<!-- doctest: background -->\n```sh\nsleep 9\n```",
		"<!-- doctest: skip -->\n```sh\n```",
		"<!-- doctest: output -->\n```sh\n```",
		"```toml\nkey = 1\n```",
		"<!-- doctest: netns -->\n```json\n```",
		"<!-- doctest: netns -->\ntext",
	} {
		if _, err := parse(strings.Split(bad, "\n")); err == nil {
			t.Errorf("parse accepts %q", bad)
		}
	}
}

func TestSameShape(t *testing.T) {
	for _, c := range []struct {
		documented, printed string
		want                bool
	}{
		{"took 1.5 ms, 3 %", "took 12 s, 100 %", true},
		{"a    12\n----", "a 1,234\n--------", true},
		{"a\n...\nd", "a\nb\nc\nd", true},
		{"a\n...", "a", true},
		{"a\n...\nd", "a\nb", false},
		{"lost 0", "lost 3", true},
		{"zero-copy", "copy", false},
		{"a", "a\nb", false},
		{"s1 ok", "s2 failed", false},
	} {
		if got := sameShape(strings.Split(c.documented, "\n"), strings.Split(c.printed, "\n")); got != c.want {
			t.Errorf("sameShape(%q, %q) = %v", c.documented, c.printed, got)
		}
	}
}
