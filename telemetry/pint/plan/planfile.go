package plan

import (
	"bytes"
	"fmt"
	"io"

	"github.com/BurntSushi/toml"
	"github.com/google/renameio/v2"

	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/internal/tomlfile"
	"github.com/weirswitch/weir/telemetry/hash"
)

// maxPlanBytes bounds a plan's file.
const maxPlanBytes = 1 << 20

// Read reads a plan in TOML and validates it. Unknown keys are faults; all
// faults are reported at once.
func Read(r io.Reader) (*Plan, error) {
	text, err := readText(r)
	if err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	p := new(Plan)
	f := tomlfile.Decode(text, p, nil)
	if !f.Set("hash") {
		f.Add("", "plan %d: hash is missing: write that of the switches, %q, %q or %q", p.ID, hash.AES, hash.XX, hash.CRC)
	}
	f.AddAll("", p.Validate())
	if !f.Empty() {
		return nil, f.Err("")
	}
	return p, nil
}

// Load reads a plan's file.
func Load(file string) (*Plan, error) {
	text, err := safefile.ReadTrusted(file, maxPlanBytes)
	if err != nil {
		return nil, fmt.Errorf("load plan: %w", err)
	}
	p, err := Read(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// readText reads a file of bounded length.
func readText(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxPlanBytes+1))
	if err == nil && len(text) > maxPlanBytes {
		err = fmt.Errorf("the file is longer than %d bytes", maxPlanBytes)
	}
	return text, err
}

// Write writes the plan in TOML. Numbers keep their exact value.
func (p *Plan) Write(w io.Writer) error {
	if err := p.Validate(); err != nil {
		return err
	}
	e := toml.NewEncoder(w)
	e.Indent = ""
	if err := e.Encode(p); err != nil {
		return fmt.Errorf("write plan %d: %w", p.ID, err)
	}
	return nil
}

// Digest distinguishes plans of one id: it is equal for plans that encode the same, and for
// others it is not but with a probability of 2^-64.
func (p *Plan) Digest() (uint64, error) {
	var text bytes.Buffer
	if err := p.Write(&text); err != nil {
		return 0, err
	}
	return hash.Bytes(0, text.Bytes()), nil
}

// Save replaces the plan's file as a whole, so that a reader never sees a part.
func (p *Plan) Save(file string) error {
	var text bytes.Buffer
	if err := p.Write(&text); err != nil {
		return err
	}
	if err := renameio.WriteFile(file, text.Bytes(), 0o644, renameio.IgnoreUmask()); err != nil {
		return fmt.Errorf("save plan %d: %w", p.ID, err)
	}
	return nil
}
