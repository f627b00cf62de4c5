package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/weirswitch/weir/internal/plural"
	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/internal/tomlfile"
)

// Failure is an error with an exit status: 1 for packets lost or wrong, 2 for a
// configuration or a machine on which the lab cannot be made.
type Failure struct {
	Err    error
	Status int
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// Command carries out `weir lab`. Out gets the report, Err the progress.
type Command struct {
	Out  io.Writer
	Err  *os.File
	JSON bool // report as one JSON object
	// Keep and Examine are those of [Options].
	Keep    string
	Examine func(context.Context, *Evidence) (Answers, error)
	// Switches looks at the switches' own configurations before anything is made; nil: each switch does as it starts.
	Switches func(*Config) error
	// Linger keeps the collector of a run, and its page, until the context ends.
	Linger bool
}

// interrupted is the error of a run that a signal ended; err is what broke off, joined with what else went wrong.
type interrupted struct {
	lab      string
	reported bool
	err      error
}

func (i interrupted) Unwrap() error { return i.err }

// Error names the signal first, then each other fault.
func (i interrupted) Error() string {
	said := fmt.Sprintf("lab %s: a signal interrupted it", i.lab)
	if i.reported {
		said += ": the report has what was known by then"
	}
	for _, text := range strings.Split(i.err.Error(), "\n") {
		if text != context.Canceled.Error() {
			said += "; " + strings.ReplaceAll(text, context.Canceled.Error(), "interrupted")
		}
	}
	return said
}

func (c *Command) open(file string) (*Config, Options, error) {
	config, err := c.read(file, c.Switches)
	if err != nil {
		return nil, Options{}, err
	}
	return config, Options{File: file, Progress: newConsole(c.Err), Keep: c.Keep, Examine: c.Examine}, nil
}

// read reads a file, and has check look at what is in it, if it is not nil. All faults are reported at once.
func (c *Command) read(file string, check func(*Config) error) (*Config, error) {
	config, err := LoadFaulty(file)
	if text, readErr := safefile.ReadTrusted(file, tomlfile.MaxBytes); err != nil && readErr == nil && tomlfile.HasTable(text, "switch") {
		return nil, &Failure{fmt.Errorf("%s: this is the file of one switch: weir switch -c %s", file, file), 2}
	}
	if config != nil && check != nil {
		err = InOrder(err, check(config))
	}
	if err != nil {
		return nil, &Failure{inFile(file, err), 2}
	}
	return config, nil
}

func (c *Command) print(object any, text func(io.Writer) error) error {
	if !c.JSON {
		return text(c.Out)
	}
	return json.NewEncoder(c.Out).Encode(object)
}

// draw shows the topology, unless the output is for a program.
func (c *Command) draw(config *Config) {
	if !c.JSON {
		fmt.Fprintf(c.Out, "%s\n", config.drawing(columns(c.Out)))
	}
}

// Run is `weir lab run`.
func (c *Command) Run(ctx context.Context, file string) error {
	config, options, err := c.open(file)
	if err != nil {
		return err
	}
	c.draw(config)
	printed := false
	if c.Linger {
		options.Linger = func(ctx context.Context, o *Outcome) {
			printed, o.Lingers = true, true
			_ = c.print(o, o.WriteText) // without a writable output an error cannot be printed either
			options.Progress.Step("The page is at %s until you press Ctrl-C%s.", o.Page, asked(o.Page))
			<-ctx.Done()
		}
	}
	outcome, err := Run(ctx, config, options)
	if outcome != nil && !printed {
		err = errors.Join(err, c.print(outcome, outcome.WriteText))
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return &Failure{interrupted{config.Name, outcome != nil, err}, 1}
	}
	if err != nil {
		return &Failure{err, 2}
	}
	if !outcome.OK {
		return &Failure{fmt.Errorf("lab %s: %s", config.Name, outcome.failed()), 1}
	}
	return nil
}

// Check is `weir lab check`: it reads the file and what the switches in it are given, and says what is wrong, all at once; nothing is
// made. check looks at the switches' configurations and at what they must have in common.
func (c *Command) Check(file string, check func(*Config) error) error {
	config, err := c.read(file, check)
	if err != nil {
		return err
	}
	c.draw(config)
	return c.print(map[string]any{"name": config.Name, "ok": true}, func(w io.Writer) error {
		links := 0
		for i := range config.Relays {
			if config.Relays[i].link != nil {
				links++
			}
		}
		_, err := fmt.Fprintf(w, "%s is good: lab %s, %s, %s, %s (%d with a delay, jitter, loss or rate), %s\n",
			file, config.Name, plural.Counted(len(config.Hosts), "host"), plural.Counted(len(config.Switches), "switch"),
			plural.Counted(len(config.Links)-links, "link"), links, plural.Counted(len(config.Traffic), "load"))
		return err
	})
}

// Up is `weir lab up`.
func (c *Command) Up(ctx context.Context, file string) error {
	config, options, err := c.open(file)
	if err != nil {
		return err
	}
	c.draw(config)
	l, err := Up(ctx, config, options)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return &Failure{interrupted{config.Name, false, err}, 1}
	}
	if err != nil {
		return &Failure{err, 2}
	}
	l.Release()
	return c.status(config.Name)
}

// Down is `weir lab down`. That the lab of a file is not up is no failure, so that scripts can clean up twice; a name
// by which there is no lab is one.
func (c *Command) Down(file string) error {
	name, isFile, err := nameOf(file)
	if err != nil {
		return err
	}
	ends, err := Down(name)
	if errors.Is(err, ErrNotUp) && isFile {
		ends, err = []SwitchEnd{}, nil
	}
	var printErr error
	if err == nil || ends != nil { // a lab that another process holds is not down, nor is one that is not up
		printErr = c.print(map[string]any{"name": name, "switches": ends}, func(w io.Writer) error {
			writeEnds(w, ends)
			if err != nil {
				return nil
			}
			_, err := fmt.Fprintf(w, "lab %s is down\n", name)
			return err
		})
	}
	if err != nil {
		return &Failure{upInstead(err), 2}
	}
	return printErr
}

// Status is `weir lab status`. It fails with status 1 if the lab is not up and whole, and with 2 for a name by which there is none.
func (c *Command) Status(file string) error {
	name, isFile, err := nameOf(file)
	if err != nil {
		return err
	}
	err = c.status(name)
	if failure := (*Failure)(nil); !isFile && errors.Is(err, ErrNotUp) && errors.As(err, &failure) {
		failure.Status = 2 // the name is wrong, as for Down
	}
	return err
}

func (c *Command) status(name string) error {
	status, err := Inspect(name)
	if err != nil {
		return &Failure{upInstead(err), 1}
	}
	if err := c.print(status, status.WriteText); err != nil {
		return err
	}
	if !status.Healthy {
		return &Failure{fmt.Errorf("lab %s is not whole", name), 1}
	}
	return nil
}

// upInstead adds to [ErrNotUp] which labs are up.
func upInstead(err error) error {
	if !errors.Is(err, ErrNotUp) {
		return err
	}
	entries, _ := os.ReadDir(Root) // without the folder no lab is up
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("%w: no lab is up on this machine: weir lab up FILE brings one up", err)
	}
	return fmt.Errorf("%w: those that are up: %s", err, strings.Join(names, ", "))
}

// nameOf takes a file or the name of a lab, and reports which: a lab can be taken down when its file
// is gone, or no longer right.
func nameOf(file string) (name string, isFile bool, err error) {
	config, err := Load(file)
	if err == nil {
		return config.Name, true, nil
	}
	if labName.MatchString(file) {
		if _, statErr := os.Stat(directoryOf(file)); statErr == nil || errors.Is(err, os.ErrNotExist) {
			return file, false, nil
		}
	}
	return "", false, &Failure{inFile(file, err), 2}
}

// inFile puts the file's name in front of each of its faults.
func inFile(file string, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		if fault := (tomlfile.Fault{}); errors.As(err, &fault) && fault.File != "" {
			return err // it says where it is
		}
		return fmt.Errorf("%s: %w", file, err)
	}
	var faults []error
	for _, fault := range joined.Unwrap() {
		faults = append(faults, inFile(file, fault))
	}
	return errors.Join(faults...)
}
