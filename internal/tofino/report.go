package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// stage is what a program uses of a stage.
type stage struct {
	tables    []string // logical tables, gateways apart
	registers []string
	sram      int // blocks
	tcam      int
	hashBits  int
	hashDist  int // units of 16 bits that bring hashes to containers and addresses
	stateful  int // ALUs of registers, meters and filters
	vliw      int // instructions
}

// resources is what the compiler's resources.json has of it.
type resources struct {
	Resources struct {
		Mau struct {
			Stages []struct {
				HashBits struct {
					Bits []json.RawMessage `json:"bits"`
				} `json:"hash_bits"`
				HashDist struct {
					Units []json.RawMessage `json:"units"`
				} `json:"hash_distribution_units"`
				Rams struct {
					Srams []json.RawMessage `json:"srams"`
				} `json:"rams"`
				Tcams struct {
					Tcams []json.RawMessage `json:"tcams"`
				} `json:"tcams"`
				Meters struct {
					Meters []struct {
						Usages []struct {
							UsedBy  string `json:"used_by"`
							UsedFor string `json:"used_for"`
						} `json:"usages"`
					} `json:"meters"`
				} `json:"meter_alus"`
				Vliw struct {
					Instructions []json.RawMessage `json:"instructions"`
				} `json:"vliw"`
				Tables struct {
					IDs []struct {
						Name string `json:"table_name"`
					} `json:"ids"`
				} `json:"logical_tables"`
			} `json:"mau_stages"`
		} `json:"mau"`
	} `json:"resources"`
}

// readStages reads the compiler's report: the stages up to the last one in use.
func readStages(file string) ([]stage, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the compiler's report: %w", err)
	}
	return parseStages(data)
}

func parseStages(data []byte) (stages []stage, err error) {
	var r resources
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("read the compiler's report: %w", err)
	}
	used := 0
	for i, m := range r.Resources.Mau.Stages {
		s := stage{
			sram: len(m.Rams.Srams), tcam: len(m.Tcams.Tcams), hashBits: len(m.HashBits.Bits), hashDist: len(m.HashDist.Units),
			stateful: len(m.Meters.Meters), vliw: len(m.Vliw.Instructions),
		}
		for _, t := range m.Tables.IDs {
			s.tables = append(s.tables, t.Name)
		}
		for _, a := range m.Meters.Meters {
			for _, u := range a.Usages {
				if strings.HasPrefix(u.UsedFor, "stateful") && !slices.Contains(s.registers, u.UsedBy) {
					s.registers = append(s.registers, u.UsedBy)
				}
			}
		}
		if len(s.tables) > 0 {
			used = i + 1
		}
		stages = append(stages, s)
	}
	if used == 0 {
		return nil, fmt.Errorf("the compiler's report has no table in any stage: another version of the compiler?")
	}
	return stages[:used], nil
}

// table is the report as Markdown.
func table(p program, stages []stage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### `%s.p4`: %d of %d stages of %s\n\n", p.name, len(stages), p.most, map[string]string{"tofino": "Tofino 1", "tofino2": "Tofino 2"}[p.target])
	b.WriteString("| stage | tables | SRAM | TCAM | hash bits | hash units | stateful ALUs | instructions |\n")
	b.WriteString("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	var sum stage
	for i, s := range stages {
		row(&b, fmt.Sprint(i), len(s.tables), s)
		sum.tables = append(sum.tables, s.tables...)
		sum.sram += s.sram
		sum.tcam += s.tcam
		sum.hashBits += s.hashBits
		sum.hashDist += s.hashDist
		sum.stateful += s.stateful
		sum.vliw += s.vliw
	}
	row(&b, "all", len(sum.tables), sum)
	b.WriteString("\n")
	return b.String()
}

func row(b *strings.Builder, name string, tables int, s stage) {
	fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d | %d | %d |\n", name, tables, s.sram, s.tcam, s.hashBits, s.hashDist, s.stateful, s.vliw)
}
