// Schemagen writes the messages of answers in query.proto, which package query declares in Go.
//
//	go run ./schemagen query.proto
//
// It replaces the text between the two marks in the file. A message is a struct, a field a field with a json tag,
// comments are those of the Go source. A number that a field has is kept, a new field gets the next one; a field
// that goes away leaves its number in "reserved", so that a program with an older schema never misreads an answer.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/status"
)

// answers are the types that query.Engine.Ask answers with.
var answers = []any{
	query.Volume{}, query.Frequency{}, query.HeavyHitters{}, query.Entropy{}, query.Cardinality{}, query.Between{}, query.Target{},
	query.PathAnswer{}, query.LatencyAnswer{}, query.CongestionAnswer{}, query.LoopsAnswer{}, query.Series{}, query.Network{},
}

// names are messages that are not called as their Go type.
var names = map[reflect.Type]string{
	reflect.TypeFor[status.Measurement](): "NetworkMeasurement",
	reflect.TypeFor[status.Export]():      "NetworkExport",
	reflect.TypeFor[status.Spool]():       "NetworkSpool",
}

const (
	begin = "// The messages from here on are generated from package query: go generate ./telemetry/view/api\n"
	end   = "// The messages from here on are written by hand.\n"
)

func main() {
	if err := generate(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		os.Exit(1)
	}
}

func generate(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, found := strings.Cut(string(text), begin)
	old, tail, found2 := strings.Cut(rest, end)
	if !found || !found2 {
		return fmt.Errorf("%s lacks the lines %q and %q", file, begin, end)
	}
	g := &generator{numbers: parseNumbers(old), docs: map[string]string{}, written: map[reflect.Type]bool{}}
	for _, dir := range []string{"../../query", "../../store", "../../status"} {
		if err := g.readDocs(dir); err != nil {
			return err
		}
	}
	for _, answer := range answers {
		g.message(reflect.TypeOf(answer))
	}
	return os.WriteFile(file, []byte(head+begin+"\n"+g.out.String()+end+tail), 0o644)
}

// numbers are a message's fields, and those that it had once.
type numbers struct {
	of       map[string]int
	reserved []int
}

var (
	messageLine  = regexp.MustCompile(`^message (\w+) \{`)
	fieldLine    = regexp.MustCompile(`^  (?:optional |repeated )?[\w.]+ (\w+) = (\d+);`)
	reservedLine = regexp.MustCompile(`^  reserved ([\d, ]+);`)
)

// parseNumbers reads the numbers of the messages that are there.
func parseNumbers(text string) map[string]*numbers {
	all, current := map[string]*numbers{}, &numbers{}
	for line := range strings.Lines(text) {
		if match := messageLine.FindStringSubmatch(line); match != nil {
			current = &numbers{of: map[string]int{}}
			all[match[1]] = current
		} else if match := fieldLine.FindStringSubmatch(line); match != nil {
			current.of[match[1]], _ = strconv.Atoi(match[2])
		} else if match := reservedLine.FindStringSubmatch(line); match != nil {
			for number := range strings.SplitSeq(match[1], ",") {
				n, _ := strconv.Atoi(strings.TrimSpace(number))
				current.reserved = append(current.reserved, n)
			}
		}
	}
	return all
}

type generator struct {
	numbers map[string]*numbers // by message
	docs    map[string]string   // by "Type" and "Type.Field"
	written map[reflect.Type]bool
	out     bytes.Buffer
}

// readDocs collects the comments of a package's structs and their fields.
func (g *generator) readDocs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), dir+"/"+entry.Name(), nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			general, ok := decl.(*ast.GenDecl)
			if !ok || general.Tok != token.TYPE {
				continue
			}
			for _, spec := range general.Specs {
				declared := spec.(*ast.TypeSpec)
				structure, ok := declared.Type.(*ast.StructType)
				if !ok {
					continue
				}
				name := declared.Name.Name
				g.docs[name] = cmp.Or(declared.Doc.Text(), general.Doc.Text())
				for _, field := range structure.Fields.List {
					for _, fieldName := range field.Names {
						g.docs[name+"."+fieldName.Name] = cmp.Or(field.Doc.Text(), field.Comment.Text())
					}
				}
			}
		}
	}
	return nil
}

// field is one of a message; those of embedded structs are the message's own.
type field struct {
	name, doc string
	of        reflect.Type
	optional  bool
}

func (g *generator) fields(structure reflect.Type) (list []field) {
	renamed := map[string]string{} // as comments call them, and as the message does
	for i := range structure.NumField() {
		f := structure.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "":
			list = append(list, g.fields(f.Type)...)
		case tag != "" && tag != "-":
			if len(f.Name) > 2 { // "Of" begins sentences, too
				renamed[f.Name] = tag
			}
			// As in encoding/json, a struct's own field hides one of the same name of an embedded struct.
			list = slices.DeleteFunc(list, func(embedded field) bool { return embedded.name == tag })
			list = append(list, field{tag, g.docs[structure.Name()+"."+f.Name], f.Type, options == "omitempty" || f.Type.Kind() == reflect.Pointer})
		}
	}
	for i := range list {
		list[i].doc = regexp.MustCompile(`\b[A-Z]\w*\b`).ReplaceAllStringFunc(list[i].doc, func(word string) string {
			return cmp.Or(renamed[word], word)
		})
	}
	return list
}

// message writes the message of a struct, and those that it needs behind it.
func (g *generator) message(structure reflect.Type) {
	if g.written[structure] {
		return
	}
	g.written[structure] = true
	name := cmp.Or(names[structure], structure.Name())
	known := g.numbers[name]
	if known == nil {
		known = &numbers{of: map[string]int{}}
	}
	next := 1 + max(0, slices.Max(append(slices.Collect(maps.Values(known.of)), 0)), slices.Max(append(known.reserved, 0)))
	list := g.fields(structure)
	assigned := map[string]int{}
	for _, f := range list {
		number, ok := known.of[f.name]
		if !ok {
			number, next = next, next+1
		}
		assigned[f.name] = number
	}
	reserved := known.reserved
	for name, number := range known.of {
		if assigned[name] == 0 {
			reserved = append(reserved, number)
		}
	}
	slices.SortStableFunc(list, func(a, b field) int { return assigned[a.name] - assigned[b.name] })

	g.comment("", g.docs[structure.Name()])
	fmt.Fprintf(&g.out, "message %s {\n", name)
	if len(reserved) > 0 {
		slices.Sort(reserved)
		fmt.Fprintf(&g.out, "  reserved %s;\n", strings.Trim(strings.ReplaceAll(fmt.Sprint(reserved), " ", ", "), "[]"))
	}
	var nested []reflect.Type
	for _, f := range list {
		kind, structure := protoType(f)
		if structure != nil {
			nested = append(nested, structure)
		}
		line := fmt.Sprintf("  %s %s = %d;", kind, f.name, assigned[f.name])
		if doc := strings.TrimSpace(f.doc); doc != "" && !strings.Contains(doc, "\n") && len(line)+len(doc) < 110 {
			fmt.Fprintf(&g.out, "%s  // %s\n", line, doc)
		} else {
			g.comment("  ", doc)
			fmt.Fprintln(&g.out, line)
		}
	}
	fmt.Fprint(&g.out, "}\n\n")
	for _, structure := range nested {
		g.message(structure)
	}
}

func (g *generator) comment(indent, text string) {
	for line := range strings.Lines(strings.TrimSpace(text)) {
		fmt.Fprintln(&g.out, strings.TrimRight(indent+"// "+strings.TrimRight(line, "\n"), " "))
	}
}

// protoType is a field's type in the schema, and its struct if it is a message.
func protoType(f field) (kind string, structure reflect.Type) {
	of, label := f.of, ""
	switch {
	case of.Kind() == reflect.Pointer:
		of = of.Elem()
	case of.Kind() == reflect.Slice || of.Kind() == reflect.Array:
		of, label = of.Elem(), "repeated "
	}
	if f.optional && label == "" {
		label = "optional "
	}
	switch of.Kind() {
	case reflect.Struct:
		if label == "optional " {
			label = "" // a message is
		}
		return label + cmp.Or(names[of], of.Name()), of
	case reflect.String:
		return label + "string", nil
	case reflect.Bool:
		return label + "bool", nil
	case reflect.Float64:
		return label + "double", nil
	case reflect.Int, reflect.Int64:
		return label + "int64", nil
	case reflect.Uint64:
		return label + "uint64", nil
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return label + "uint32", nil
	}
	panic(fmt.Sprintf("schemagen: field %s is of type %v, which no message has", f.name, f.of))
}
