// Notices writes the licences of the modules that are linked into the binary.
//
//	go run ./internal/notices > THIRD-PARTY-NOTICES
//
// Licences such as BSD and MIT require that their text goes with a binary, and Apache-2.0 that a
// module's NOTICE does. Equal texts are written once, below all modules that have them.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if err := write(os.Stdout, "./cmd/weir"); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

// module is one that a program is linked with.
type module struct {
	Path, Version, Dir string
	Main               bool
}

// linked lists the modules that a program is linked with, sorted by path.
func linked(program string) (modules []module, err error) {
	list := exec.Command("go", "list", "-deps", "-json=Module", program)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the dependencies of %s: %w", program, err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ Module *module }
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if p.Module != nil && !p.Module.Main {
			modules = append(modules, *p.Module)
		}
	}
	slices.SortFunc(modules, func(a, b module) int { return cmp.Compare(a.Path, b.Path) })
	return slices.Compact(modules), nil
}

// texts reads the files of a module that have to go with a binary.
func (m *module) texts() (all []string, err error) {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w: run \"go mod download\"", m.Path, m.Version, err)
	}
	licensed := false
	for _, entry := range entries {
		name := strings.ToUpper(entry.Name())
		license := strings.Contains(name, "LICENSE") || strings.HasPrefix(name, "LICENCE") || strings.HasPrefix(name, "COPYING")
		if entry.IsDir() || !license && !strings.HasPrefix(name, "NOTICE") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.Dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		licensed = licensed || license
		all = append(all, strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
	}
	if !licensed {
		return nil, fmt.Errorf("%s %s has no file with its licence", m.Path, m.Version)
	}
	return all, nil
}

// write writes the notices of a program.
func write(w io.Writer, program string) error {
	modules, err := linked(program)
	if err != nil {
		return err
	}
	var order []string
	of := map[string][]string{} // modules by a text's words
	for i := range modules {
		texts, err := modules[i].texts()
		if err != nil {
			return err
		}
		for _, text := range texts {
			words := strings.Join(strings.Fields(text), " ")
			if of[words] == nil {
				order = append(order, text)
			}
			of[words] = append(of[words], modules[i].Path)
		}
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "Weir is linked with the modules below. Each is under the licence that follows its name.\n")
	for _, text := range order {
		fmt.Fprintf(out, "\n%s\n", strings.Repeat("=", 80))
		for _, path := range of[strings.Join(strings.Fields(text), " ")] {
			fmt.Fprintln(out, path)
		}
		fmt.Fprintf(out, "%s\n\n%s\n", strings.Repeat("-", 80), text)
	}
	return out.Flush()
}
