package paper

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// heldFile has values of small versions of figures by test and row: those of the committed code, with the seeds of the tests.
const heldFile = "testdata/held.json"

// heldWithin is by how much a value may differ from the committed one: what rounding gives where sums are in another order, and packets that
// fall on the other side of a limit by it. It is far below a tenth.
const heldWithin = 0.02

// holdCommitted compares a value with the committed one. Both are of the same seeds, so that the luck of draws is in both of them, and a change of
// a tenth is found with certainty where the luck of a few small runs would hide it from a comparison with other seeds. What draws anew,
// or in another order, changes the values by luck: the tests with other seeds say then whether it was luck, and
// `go test -run <test> -update`, with -short and without it, writes the new ones.
func holdCommitted(t *testing.T, row string, value float64) {
	t.Helper()
	name := t.Name()
	if testing.Short() {
		name += " short"
	}
	committed := map[string]map[string]float64{}
	text, err := os.ReadFile(filepath.FromSlash(heldFile))
	if err == nil {
		err = json.Unmarshal(text, &committed)
	}
	if err != nil && !(*update && errors.Is(err, fs.ErrNotExist)) {
		t.Fatal(err)
	}
	if *update {
		if committed[name] == nil {
			committed[name] = map[string]float64{}
		}
		committed[name][row] = value
		text, err := json.MarshalIndent(committed, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.FromSlash(heldFile), append(text, '\n'), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, ok := committed[name][row]
	if !ok {
		t.Errorf("%s has no %q of %q: run the test with -update", heldFile, row, name)
	} else if off := value/want - 1; !(math.Abs(off) <= heldWithin) {
		t.Errorf("%s: %.5g, with the same seeds it was %.5g: %+.1f %%, at most %g %% is rounding (see holdCommitted)", row, value, want, 100*off, 100*heldWithin)
	}
}
