package paper

import (
	"context"
	"math/rand/v2"
	"testing"
)

// The model's queue has the mean waiting time of Pollaczek and Khinchine.
func TestHopQueue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, load := range []float64{0.3, 0.6, 0.9} {
		q := hopQueue{load: load}
		q.settle(r)
		sum, service, square := 0.0, 0.0, 0.0
		const n = 2_000_000
		for range n {
			wait := q.wait
			s := q.next(r) - wait - pipelineNs
			sum, service, square = sum+wait, service+s, square+s*s
		}
		want := load / (1 - load) * (square / n) / (2 * service / n)
		if got := sum / n; got < want*0.95 || got > want*1.05 {
			t.Errorf("load %v: mean wait %v, want %v", load, got, want)
		}
	}
}

func quickRows(t *testing.T, f func(context.Context, Options) ([]Row, error)) map[string]Row {
	t.Helper()
	all, err := f(context.Background(), Options{Seed: 2, Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]Row{}
	for _, r := range all {
		if _, twice := rows[r.Metric]; twice {
			t.Errorf("%s occurs twice", r.Metric)
		}
		rows[r.Metric] = r
		t.Logf("%-44s %.6g", r.Metric, r.Value)
	}
	return rows
}

func TestPintValuesWithinBounds(t *testing.T) {
	for metric, r := range quickRows(t, pintValues) {
		// The codecs' tables add 1/64 of a code, 1/32 of the half that epsilon is.
		if r.Reference != nil && r.Value > *r.Reference*1.04 {
			t.Errorf("%s is %v, stated %v", metric, r.Value, *r.Reference)
		}
		if r.Reference == nil && r.Value > 0.002 {
			t.Errorf("%s is %v", metric, r.Value)
		}
	}
}

// The shape of figure 9: errors fall with packets, to the floor of compression;
// a small sketch costs little, and has in HPCC's network no more than the model's sketches had. All is of fixed seeds.
func TestPintFig9Shape(t *testing.T) {
	if testing.Short() {
		t.Skip("TestPintValuesWithinBounds has the codecs")
	}
	rows := quickRows(t, pintFig9)
	value := func(metric string) float64 {
		r, ok := rows[metric]
		if !ok {
			t.Fatalf("no row %s", metric)
		}
		return r.Value
	}
	for _, rank := range []string{"median", "p99"} {
		if a, b := value("b8."+rank+".error.packets100"), value("b8."+rank+".error.packets10000"); b > a*0.5 {
			t.Errorf("8 bits, %s: %v falls to %v only", rank, a, b)
		}
		if a, b := value("b4."+rank+".error.packets10000"), value("b4."+rank+".compression"); a > b+0.05 {
			t.Errorf("4 bits, %s: %v is far from the compression's %v", rank, a, b)
		}
		if a, b := value("b4."+rank+".compression"), value("b8."+rank+".compression"); a < b {
			t.Errorf("%s: 4 bits %v, 8 bits %v", rank, a, b)
		}
	}
	for _, rank := range []string{"median", "p99"} {
		a, b := value("b8.sketch."+rank+".error.packets100"), value("b8.sketch."+rank+".error.packets10000")
		if without := value("b8." + rank + ".error.packets10000"); b > a*0.5 || b > without+0.05 {
			t.Errorf("8 bits, %s: with a sketch %v falls to %v only, without one to %v", rank, a, b, without)
		}
		if a, b := value("b4."+rank+".error.long"), value("b4."+rank+".compression"); a > b+0.05 {
			t.Errorf("4 bits, %s of a long flow: %v, of compression alone %v", rank, a, b)
		}
		for _, name := range []string{"b4", "b8"} {
			metric := "network." + name + ".sketch." + rank + ".error.packets500"
			if v := value(metric); v > *rows[metric].Reference {
				t.Errorf("%s: %v, without order or rounding the model has %v", metric, v, *rows[metric].Reference)
			}
		}
	}
}

func TestPintFig11Floors(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	rows := quickRows(t, pintFig11)
	for _, metric := range []string{"path.packets_increase", "latency.error_increase"} {
		if r, ok := rows[metric]; !ok || r.Value > 0.02 || r.Value < -0.02 {
			t.Errorf("%s is %v, at most 0.02", metric, r.Value)
		}
	}
	for _, metric := range []string{"network.load30.latency_error", "network.load50.latency_error"} {
		if r, ok := rows[metric]; !ok || r.Value > 0.05 {
			t.Errorf("%s is %v, at most 0.05", metric, r.Value)
		}
	}
}
