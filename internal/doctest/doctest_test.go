package doctest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	m.Run()
}

var update = flag.Bool("update", false, "write the output of blocks marked so into the documents")

// preamble precedes every script. It takes commands back that a
// reader types and a test must not run.
const preamble = `set -eu -o pipefail
sudo() { "$@"; }
make() {
	case "${1:-}" in
	build) command make -n "$@" >/dev/null; [ -x bin/weir ] ;; # made by buildWeir
	test|race|fuzz|bench|bench-*|lint|ci|p4|p4-*) command make -n "$@" >/dev/null ;;
	*) command make --no-print-directory "$@" ;;
	esac
}
`

// blockTime bounds a block that hangs; it is no statement about speed.
const blockTime = 8 * time.Minute

// document is one file whose blocks run, and where.
type document struct {
	t     *testing.T
	name  string // below the top of the tree
	lines []string
	dir   string // the copy of the tree
	ns    *netns.Namespace

	update bool // take what is printed over instead of comparing it
}

func TestCommands(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	emptyTmp(t, root)
	weir := buildWeir(t, root)
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "p4/README.md"} {
		names = append(names, filepath.Join(root, name))
	}
	for _, path := range names {
		name, _ := filepath.Rel(root, path)
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			d := &document{t: t, name: name, lines: strings.Split(string(text), "\n"), dir: t.TempDir(), update: *update}
			copyTree(t, root, d.dir)
			if err := os.Mkdir(filepath.Join(d.dir, "bin"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Link(weir, filepath.Join(d.dir, "bin", "weir")); err != nil {
				t.Fatal(err)
			}
			d.run()
			if d.update && !t.Failed() {
				if err := os.WriteFile(path, []byte(strings.Join(d.lines, "\n")), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// emptyTmp gives the documents' commands an empty /tmp: some begin with a folder that must not exist,
// which an earlier run, or a reader who tried them, may have left.
func emptyTmp(t *testing.T, root string) {
	t.Helper()
	if netnstest.Available() != nil || strings.HasPrefix(root, "/tmp/") {
		return
	}
	if err := unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount("/tmp", unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// buildWeir has make build compile the binary, once for all documents.
func buildWeir(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	copyTree(t, root, dir)
	weir := filepath.Join(dir, "bin", "weir")
	build := exec.Command("make", "build")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	return weir
}

// copyTree copies the regular files of the tree, without what is not source.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(from, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || name == "bin"):
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, info.Mode())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// run runs the blocks of the document in order.
func (d *document) run() {
	blocks, err := parse(d.lines)
	if err != nil {
		d.t.Fatalf("%s: %v", d.name, err)
	}
	grown := 0 // lines that updates added so far
	for _, b := range blocks {
		d.t.Run(fmt.Sprintf("line%d", b.line), func(t *testing.T) {
			d.require(t, &b)
			if b.language == "toml" {
				if err := b.load(); err != nil {
					t.Errorf("%s:%d: %v", d.name, b.line, err)
				}
				return
			}
			if b.background {
				d.start(t, &b)
				return
			}
			var text []string
			for _, c := range b.commands() {
				printed, err := d.execute(&b, c)
				if err != nil {
					t.Fatalf("%s:%d: %v", d.name, b.line, err)
				}
				text = append(append(text, "$ "+strings.ReplaceAll(c.script, "\n", "\n> ")), printed...)
			}
			if b.output && d.update && !t.Failed() {
				at := b.line + grown
				d.lines = slices.Replace(d.lines, at, at+len(b.text), text...)
				grown += len(text) - len(b.text)
			}
		})
	}
}

// load reads a block that is a configuration file.
func (b *block) load() error {
	text := strings.Join(b.text, "\n")
	if b.lab {
		_, err := lab.Parse(text, "example")
		return err
	}
	_, err := config.Parse([]byte(text))
	return err
}

// require skips the block if it must be, or cannot be, run here.
func (d *document) require(t *testing.T, b *block) {
	t.Helper()
	if b.skip != "" {
		t.Skipf("%s:%d is not run: %s", d.name, b.line, b.skip)
	}
	if b.long && testing.Short() {
		t.Skipf("%s:%d takes long", d.name, b.line)
	}
	for _, program := range b.needs {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv(netnstest.RequireVariable) == "1" {
				t.Fatal(err)
			}
			t.Skipf("%s:%d: %v", d.name, b.line, err)
		}
	}
	if b.netns {
		netnstest.Require(t)
		if d.ns == nil {
			d.ns = netnstest.New(d.t, "weirdoc")
		}
	}
}

// shell returns a shell for the script, in its own process group, so that
// all that a block leaves behind can be ended.
func (d *document) shell(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", preamble+script)
	cmd.Dir = d.dir
	// Without paths in them, objects of one copy of the tree serve all others from Go's cache.
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(d.dir, "bin")+":"+os.Getenv("PATH"), "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	if shared, err := filepath.Abs(filepath.Dir(netsim.DataDir())); err == nil && os.Getenv("WEIR_SHARED") == "" {
		cmd.Env = append(cmd.Env, "WEIR_SHARED="+shared) // the copy of the tree is elsewhere
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func (d *document) launch(cmd *exec.Cmd, b *block) error {
	if b.netns {
		return d.ns.Start(cmd)
	}
	return cmd.Start()
}

// execute runs one script, compares its status and what it printed with what
// the document says, and returns the printed lines.
func (d *document) execute(b *block, c command) (printed []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), blockTime)
	defer cancel()
	cmd := d.shell(ctx, c.script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := d.launch(cmd, b); err != nil {
		return nil, err
	}
	err = cmd.Wait()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) || cmd.ProcessState.ExitCode() != b.exit {
		_ = cmd.Cancel() // what the script left running
		return nil, fmt.Errorf("%s\nends with %v, want status %d; it printed\n%s", c.script, err, b.exit, &out)
	}
	if text := strings.TrimRight(out.String(), "\n"); text != "" {
		printed = strings.Split(text, "\n")
	}
	if b.output && !d.update && !sameShape(c.printed, printed) {
		return nil, fmt.Errorf("%s\nprints\n%s\nand not, as documented,\n%s\n(go test ./internal/doctest -update)",
			c.script, strings.Join(printed, "\n"), strings.Join(c.printed, "\n"))
	}
	return printed, nil
}

// TestExecute proves that a document with a wrong command fails.
func TestExecute(t *testing.T) {
	d := &document{dir: t.TempDir()}
	for _, c := range []struct {
		name, script, printed string
		exit                  int
		ok                    bool
	}{
		{"true", "true", "", 0, true},
		{"output", "echo took 3 ms", "took 14 ms", 0, true},
		{"standard error", "echo lost 0 >&2", "lost 0", 0, true},
		{"status", "exit 2", "", 2, true},
		{"sudo", "sudo true", "", 0, true},
		{"false", "false", "", 0, false},
		{"a command that fails in front of one that does not", "false\ntrue", "", 0, false},
		{"a pipe that fails", "false | true", "", 0, false},
		{"an unknown variable", "echo $WEIR_NOT_SET", "", 0, false},
		{"an unknown command", "weir-not-there", "", 0, false},
		{"other status", "exit 1", "", 2, false},
		{"status of success", "true", "", 2, false},
		{"other output", "echo lost", "found", 0, false},
		{"more output", "echo lost; echo found", "lost", 0, false},
		{"an unknown make target", "make test-nothing", "", 0, false},
	} {
		b := &block{language: "console", output: true, exit: c.exit}
		var documented []string
		if c.printed != "" {
			documented = strings.Split(c.printed, "\n")
		}
		if _, err := d.execute(b, command{c.script, documented}); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// start starts a background block and waits until it printed its text. Its one
// command replaces the shell, so that the signal at the end reaches it and
// the status is its own.
func (d *document) start(t *testing.T, b *block) {
	t.Helper()
	script := strings.TrimPrefix(strings.Join(b.text, "\n"), "sudo ")
	cmd := d.shell(context.Background(), "exec "+script)
	out := &watcher{text: b.ready, seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	if err := d.launch(cmd, b); err != nil {
		t.Fatalf("%s:%d: %v", d.name, b.line, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	d.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		stop := time.AfterFunc(blockTime, func() { _ = cmd.Cancel() })
		defer stop.Stop()
		if err := <-ended; err != nil {
			d.t.Errorf("%s:%d: %s\nends with %v, want status 0 at SIGTERM; it printed\n%s", d.name, b.line, script, err, out)
		}
	})
	select {
	case <-out.seen:
	case err := <-ended:
		ended <- err
		t.Fatalf("%s:%d: %s\nends (%v) before it printed %q, with\n%s", d.name, b.line, script, err, b.ready, out)
	case <-time.After(blockTime):
		t.Fatalf("%s:%d: %s\ndoes not print %q but\n%s", d.name, b.line, script, b.ready, out)
	}
}

// watcher keeps what is written and closes seen once text was.
type watcher struct {
	text string
	seen chan struct{}

	mu   sync.Mutex
	all  []byte
	done bool
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, p...)
	if !w.done && bytes.Contains(w.all, []byte(w.text)) {
		w.done = true
		close(w.seen)
	}
	return len(p), nil
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.all)
}
