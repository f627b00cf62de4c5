package paper

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/weirswitch/weir/bench"
)

var update = flag.Bool("update", false, "write anew what tests compare with")

// kept is a kept result.
func kept(t *testing.T, figure string) (result bench.Result) {
	t.Helper()
	text, err := os.ReadFile("../results/disketch/" + figure + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &result); err != nil {
		t.Fatalf("%s: %v", figure, err)
	}
	return result
}

// docRows are the rows of a kept result, by metric.
func docRows(t *testing.T, figure string) map[string]float64 {
	t.Helper()
	result := kept(t, figure)
	rows := map[string]float64{}
	for _, r := range result.Rows {
		rows[r.Metric] = r.Value
	}
	return rows
}

// docTable is a table in Markdown: a line for each of lines, of the metrics that name gives.
func docTable(rows map[string]float64, head []string, lines []string, columns []string, name func(line, column string) string) string {
	text := "| " + strings.Join(head, " | ") + " |\n|" + strings.Repeat("---|", len(head)) + "\n"
	for _, line := range lines {
		cells, any := []string{line}, false
		for _, c := range columns {
			v, ok := rows[name(line, c)]
			if !ok {
				cells = append(cells, "")
				continue
			}
			any = true
			cells = append(cells, fmt.Sprintf("%.3g", v))
		}
		if any {
			text += "| " + strings.Join(cells, " | ") + " |\n"
		}
	}
	return text
}

// docTables are the tables of docs/disketch.md by the name of their place.
func docTables(t *testing.T) map[string]string {
	hops, regime, fragments, memories := docRows(t, "fig16-seed7"), docRows(t, "map"), docRows(t, "fragments"), docRows(t, "fig12-seed7")
	var lines []string
	for _, trace := range []string{"synthetic", "bursty", "realmix"} {
		for _, size := range []string{"8 KB", "1 MB"} {
			for _, h := range []int{1, 3, 5} {
				lines = append(lines, fmt.Sprintf("%s, %s, %d", trace, size, h))
			}
		}
	}
	at := func(line string) string {
		w := strings.Split(strings.ReplaceAll(line, " ", ""), ",")
		return w[0] + "." + w[1] + ".hops" + w[2] + ".rmse."
	}
	systems := []string{"disco.rows", "disco.likeliest", "distributed.rows", "distributed.likeliest", "n1.rows", "n1.checked", "central.rows", "central.checked", "autonomous.rows", "autonomous.checked", "coordinated.checked"}
	gains := []struct{ name, over, under string }{
		{"renewed hashes", "disco.rows", "n1.rows"}, {"decoder", "n1.rows", "n1.checked"}, {"subepochs", "n1.checked", "autonomous.checked"},
		{"all: DISCO over the default", "disco.rows", "autonomous.checked"}, {"autonomous over n = 1", "autonomous.checked", "n1.checked"}, {"coordinated over n = 1", "coordinated.checked", "n1.checked"},
	}
	ratios, names := map[string]float64{}, []string{}
	for _, g := range gains {
		names = append(names, g.name)
		for _, l := range lines {
			ratios[l+g.name] = max(hops[at(l)+g.over], dsNoError) / max(hops[at(l)+g.under], dsNoError)
		}
	}
	tables := map[string]string{
		"ablation": docTable(hops, append([]string{"trace, memory, switches"}, systems...), lines, systems, func(l, c string) string { return at(l) + c }),
		"gains":    docTable(ratios, append([]string{"trace, memory, switches"}, names...), lines, names, func(l, c string) string { return l + c }),
	}
	lines = nil
	for _, share := range []int{0, 1, 10, 100} {
		for _, kb := range []int{1, 2, 4, 8, 16, 32, 64} {
			lines = append(lines, fmt.Sprintf("%d %%, %d KB", share, kb))
		}
	}
	cells := []string{"best_n", "best_over_n1", "autonomous_over_n1", "coordinated_over_n1"}
	tables["map"] = docTable(regime, append([]string{"bursts, memory"}, cells...), lines, cells, func(l, c string) string {
		var share, kb int
		_, _ = fmt.Sscanf(l, "%d %%, %d KB", &share, &kb)
		return fmt.Sprintf("bursts%03d.%dKB.%s", share, kb, c)
	})
	lines = nil
	for _, trace := range []string{"synthetic", "bursty", "realmix"} {
		for _, kb := range []int{8, 64, 512} {
			lines = append(lines, fmt.Sprintf("%s, %d KB", trace, kb))
		}
	}
	place := func(line string) string { return strings.NewReplacer(", ", ".", " KB", "KB").Replace(line) + "." }
	kinds := []string{
		"rmse.countsketch", "rmse.countmin", "rmse.conservative", "rmse.sumax", "rmse.tower", "tower_over_countsketch",
		"rmse_rows.countsketch", "rmse_rows.countmin", "rmse_rows.conservative", "rmse_rows.sumax", "rmse_rows.tower", "rmse_rows." + dsCarried,
	}
	tables["fragments"] = docTable(fragments, append([]string{"trace, memory"}, kinds...), lines, kinds, func(l, c string) string { return place(l) + c })
	lines = nil
	for _, trace := range []string{"synthetic", "bursty", "realmix"} {
		for _, kb := range dsMemorySizes {
			lines = append(lines, fmt.Sprintf("%s, %d KB", trace, kb))
		}
	}
	over := []string{"autonomous_over_n1", "coordinated_over_n1", "disco_over_autonomous", "subepochs.autonomous", "subepochs.coordinated"}
	tables["memories"] = docTable(memories, append([]string{"trace, memory"}, over...), lines, over, func(l, c string) string { return place(l) + c })
	for name, from := range map[string]string{"ablation": "fig16-seed7", "gains": "fig16-seed7", "memories": "fig12-seed7", "map": "map", "fragments": "fragments"} {
		tables[name] += docSource(t, from)
	}
	return tables
}

// ofPlacements is how a row says of how many placements it is.
var ofPlacements = regexp.MustCompile(`(\d+) placements: `)

// docSource says below a table what it is of: the file, the seed and the placements.
func docSource(t *testing.T, figure string) string {
	result := kept(t, figure)
	placements := "one placement of memory"
	for _, r := range result.Rows {
		if found := ofPlacements.FindStringSubmatch(r.Source); found != nil {
			placements = found[1] + " placements of memory"
			break
		}
	}
	return fmt.Sprintf("\n(bench/results/disketch/%s.json: `%s`, seed %d, %s.)\n", figure, strings.TrimPrefix(result.Name, "paper/"), result.Seed, placements)
}

// TestDocs compares the tables of docs/disketch.md with the kept results.
func TestDocs(t *testing.T) {
	const name = "../../docs/disketch.md"
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for place, table := range docTables(t) {
		begin := fmt.Sprintf("<!-- rows: %s -->\n", place)
		_, rest, ok := strings.Cut(text, begin)
		was, _, ok2 := strings.Cut(rest, "<!-- end -->")
		if !ok || !ok2 {
			t.Errorf("%s has no place for the rows %s", name, place)
			continue
		}
		if was != table && !*update {
			t.Errorf("the rows %s of %s are not those of bench/results: run go test ./bench/paper -run TestDocs -update", place, name)
		}
		text = strings.Replace(text, begin+was, begin+table, 1)
	}
	if *update {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMap compares the drawings in docs/images with the kept rows.
func TestMap(t *testing.T) {
	for from, figure := range map[string]string{"map": "disketch-map", "fig12-seed7": "disketch-fig12"} {
		name := "../../docs/images/" + figure + ".svg"
		result := kept(t, from)
		var drawn bytes.Buffer
		if err := bench.PlotGrids(&drawn, &result, Grids(figure, result.Rows)); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(name, drawn.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if was, err := os.ReadFile(name); err != nil || !bytes.Equal(was, drawn.Bytes()) {
			t.Errorf("%s is not drawn from bench/results/disketch/%s.json: run go test ./bench/paper -run TestMap -update (%v)", name, from, err)
		}
	}
}
