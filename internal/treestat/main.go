// Treestat measures the shape of a Go tree: what a reader has to hold in mind.
//
//	go run ./internal/treestat [-packages] [DIR] [DIR...]
//
// It prints one column for each checkout, so that a tree can be compared with an earlier one
// (`git worktree add`). It parses all Go files that git tracks, without tests and generated ones.
// A figure is evidence for a reader, not a limit: no test asserts one.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// module is the import path that our own imports begin with.
const module = "github.com/weirswitch/weir/"

// tree is what one checkout holds.
type tree struct {
	lines     map[string]int             // of the package in a folder
	exported  map[string]int             // names of the package
	functions []int                      // lines of each function
	files     []int                      // lines of each file
	imports   map[string]map[string]bool // of ours, by package
	shapes    []string                   // struct types that hold a flow and its path

	locals, shortLocals int
	singleCaller        int
}

func main() {
	packages := flag.Bool("packages", false, "also list the shapes, and the packages with their lines and exported names")
	flag.Parse()
	dirs := flag.Args()
	if len(dirs) == 0 {
		dirs = []string{"."}
	}
	var trees []*tree
	for _, dir := range dirs {
		t, err := measure(dir)
		if err != nil {
			fmt.Fprintf(os.Stderr, "treestat: measure %s: %v\n", dir, err)
			os.Exit(1)
		}
		trees = append(trees, t)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\t%s\n", strings.Join(dirs, "\t"))
	row := func(name string, value func(*tree) string) {
		fmt.Fprint(w, name)
		for _, t := range trees {
			fmt.Fprintf(w, "\t%s", value(t))
		}
		fmt.Fprintln(w)
	}
	row("lines", func(t *tree) string { return fmt.Sprint(sum(t.lines)) })
	row("packages", func(t *tree) string { return fmt.Sprint(len(t.lines)) })
	row("lines of a package, median / 90 % / most", func(t *tree) string { return spread(values(t.lines)) })
	row("lines of a file, median / 90 % / most", func(t *tree) string { return spread(t.files) })
	row("lines of a function, median / 90 % / most", func(t *tree) string { return spread(t.functions) })
	row("exported names of a package, median / 90 % / most", func(t *tree) string { return spread(values(t.exported)) })
	row("exported names", func(t *tree) string { return fmt.Sprint(sum(t.exported)) })
	row("unexported functions used once, of all functions", func(t *tree) string { return share(t.singleCaller, len(t.functions)) })
	row("one-letter locals (:=)", func(t *tree) string { return share(t.shortLocals, t.locals) })
	row("lines of cmd/weir", func(t *tree) string { return fmt.Sprint(t.lines["cmd/weir"]) })
	row("packages of ours that cmd/weir imports", func(t *tree) string { return fmt.Sprint(len(t.imports["cmd/weir"])) })
	row("shapes of a path answer", func(t *tree) string { return fmt.Sprint(len(t.shapes)) })
	if *packages {
		row("shapes", func(t *tree) string { return strings.Join(t.shapes, " ") })
		var all []string
		for _, t := range trees {
			for dir := range t.lines {
				all = append(all, dir)
			}
		}
		slices.Sort(all)
		for _, dir := range slices.Compact(all) {
			row(dir, func(t *tree) string { return fmt.Sprintf("%d lines, %d exported", t.lines[dir], t.exported[dir]) })
		}
	}
	if err := w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "treestat:", err)
		os.Exit(1)
	}
}

// measure parses the tree that git tracks below dir.
func measure(dir string) (*tree, error) {
	list := exec.Command("git", "ls-files", "*.go")
	list.Dir, list.Stderr = dir, os.Stderr
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	t := &tree{lines: map[string]int{}, exported: map[string]int{}, imports: map[string]map[string]bool{}}
	declared, used := map[string]map[string]bool{}, map[string]map[string]int{}
	for name := range strings.Lines(string(names)) {
		name = strings.TrimSpace(name)
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		folder := filepath.ToSlash(filepath.Dir(name))
		t.findShapes(folder, file)
		if ast.IsGenerated(file) {
			continue
		}
		if declared[folder] == nil {
			declared[folder], used[folder], t.imports[folder] = map[string]bool{}, map[string]int{}, map[string]bool{}
		}
		lines := set.File(file.FileStart).LineCount()
		t.lines[folder] += lines
		t.files = append(t.files, lines)
		t.exported[folder] += countExported(file)
		for _, spec := range file.Imports {
			if path := strings.Trim(spec.Path.Value, `"`); strings.HasPrefix(path, module) {
				t.imports[folder][strings.TrimPrefix(path, module)] = true
			}
		}
		for _, decl := range file.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			t.functions = append(t.functions, set.Position(function.End()).Line-set.Position(function.Pos()).Line+1)
			if n := function.Name.Name; !ast.IsExported(n) && n != "main" && n != "init" {
				declared[folder][n] = true
				used[folder][n]-- // the declaration's own identifier
			}
		}
		t.countIdentifiers(file, used[folder])
	}
	for folder, names := range declared {
		for n := range names {
			if used[folder][n] == 1 {
				t.singleCaller++
			}
		}
	}
	slices.Sort(t.shapes)
	return t, nil
}

// countIdentifiers counts uses of names, and locals that := declares.
func (t *tree) countIdentifiers(file *ast.File, used map[string]int) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			used[n.Name]++
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				break
			}
			for _, left := range n.Lhs {
				if name, ok := left.(*ast.Ident); ok && name.Name != "_" {
					t.locals++
					if len(name.Name) == 1 {
						t.shortLocals++
					}
				}
			}
		}
		return true
	})
}

// countExported counts exported functions, methods of exported types, types, constants and variables.
func countExported(file *ast.File) (count int) {
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Name.IsExported() && (decl.Recv == nil || ast.IsExported(receiver(decl))) {
				count++
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.IsExported() {
						count++
					}
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						if name.IsExported() {
							count++
						}
					}
				}
			}
		}
	}
	return count
}

// receiver is the name of a method's type.
func receiver(method *ast.FuncDecl) string {
	name := ""
	ast.Inspect(method.Recv.List[0].Type, func(n ast.Node) bool {
		if ident, ok := n.(*ast.Ident); ok && name == "" {
			name = ident.Name
		}
		return name == ""
	})
	return name
}

// findShapes collects struct types of a flow's path: they, or a struct that they embed, have a field for
// the flow's hops next to how sure they are. Generated messages count, as readers meet them, too.
func (t *tree) findShapes(folder string, file *ast.File) {
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			declaration, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			if structure, ok := declaration.Type.(*ast.StructType); ok {
				path, sure := false, false
				for _, field := range structure.Fields.List {
					for _, name := range field.Names {
						path = path || name.Name == "Path" || name.Name == "Hops"
						sure = sure || name.Name == "Certain"
					}
					if embedded, ok := field.Type.(*ast.SelectorExpr); ok && field.Names == nil && embedded.Sel.Name == "PathAnswer" {
						path, sure = true, true
					}
				}
				if path && sure {
					t.shapes = append(t.shapes, folder+"."+declaration.Name.Name)
				}
			}
		}
	}
}

func sum(of map[string]int) (total int) {
	for _, n := range of {
		total += n
	}
	return total
}

func values(of map[string]int) (list []int) {
	for _, n := range of {
		list = append(list, n)
	}
	return list
}

// spread is the median, the 90th percentile and the largest value.
func spread(list []int) string {
	if len(list) == 0 {
		return "-"
	}
	list = slices.Sorted(slices.Values(list))
	last := len(list) - 1
	return fmt.Sprintf("%d / %d / %d", list[last/2], list[last*9/10], list[last])
}

func share(part, all int) string {
	return fmt.Sprintf("%.0f %% of %d", 100*float64(part)/float64(max(all, 1)), all)
}
