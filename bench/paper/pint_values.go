package paper

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// pintValues measures the approximate arithmetic against what is stated for it:
// codes of few bits (section 4.3), logarithms and exponentials from tables
// (appendix C), utilisation (appendix B) and randomised counting. Values are the
// worst errors found, references the bounds.
func pintValues(ctx context.Context, o Options) ([]Row, error) {
	var t table
	steps := []func(Options, *rand.Rand, *table) error{codecErrors, tableErrors, utilisationError, countingError}
	for i, step := range steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		o.progress(i, len(steps), "values")
		if err := step(o, rand.New(rand.NewPCG(hash.Bytes(o.Seed, []byte("values")), uint64(i))), &t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// anyScale draws values in low..high whose logarithm is uniform.
func anyScale(r *rand.Rand, low, high float64) uint64 {
	return uint64(low * math.Exp(r.Float64()*math.Log(high/low)))
}

func codecErrors(o Options, r *rand.Rand, t *table) error {
	for _, c := range []struct {
		metric string
		config encode.CodecConfig
		paper  float64
	}{
		{"multiplicative.16bits", encode.CodecConfig{Bits: 16, Multiplicative: true, Max: math.MaxUint32, Epsilon: 0.0025}, 0.0025},
		{"multiplicative.8bits", encode.CodecConfig{Bits: 8, Multiplicative: true, Max: 200_000, Epsilon: 0.025}, 0.025},
	} {
		k, err := encode.NewCodec(c.config)
		if err != nil {
			return err
		}
		worst, sum, n := 0.0, 0.0, o.runs(1_000_000)
		for range n {
			v := anyScale(r, 1000, float64(c.config.Max))
			worst = max(worst, math.Expm1(math.Abs(math.Log(k.Decode(k.Encode(v, encode.RoundNearest))/float64(v)))))
			sum += math.Log(k.Decode(k.Encode(v, r.Uint64N(encode.RoundOne))) / float64(v))
		}
		t.against(c.metric+".error", "ratio", worst, c.paper, "PINT section 4.3, rounding to the nearest; the tables add 1/64 of a code", "lower")
		t.add(c.metric+".random_bias", "ratio", math.Abs(sum)/float64(n), "mean logarithm of decoded over exact, random rounding", "lower")
	}
	k, err := encode.NewCodec(encode.CodecConfig{Bits: 12, Delta: 512, Max: 1 << 20})
	if err != nil {
		return err
	}
	worst := 0.0
	for range o.runs(1_000_000) {
		v := r.Uint64N(1 << 20)
		worst = max(worst, math.Abs(k.Decode(k.Encode(v, encode.RoundNearest))-float64(v)))
	}
	t.against("additive.12bits.error", "units", worst, 512, "PINT section 4.3, delta 512", "lower")
	return nil
}

func tableErrors(o Options, r *rand.Rand, t *table) error {
	for _, q := range []int{4, 8, 10} {
		l, err := encode.NewLog(q)
		if err != nil {
			return err
		}
		e, err := encode.NewExp(q)
		if err != nil {
			return err
		}
		logWorst, expWorst := 0.0, 0.0
		for range o.runs(1_000_000) {
			x := anyScale(r, 1, 1<<52)
			logWorst = max(logWorst, math.Abs(math.Log2(float64(x))-math.Ldexp(float64(l.Log2(x)), -encode.LogFraction)))
			// From 2^40 on the rounding of the result to an integer does not count.
			y := int64(40)<<encode.LogFraction + r.Int64N(20<<encode.LogFraction)
			expWorst = max(expWorst, math.Exp2(math.Ldexp(float64(y), -encode.LogFraction))/float64(e.Exp2(y))-1)
		}
		t.against(fmt.Sprintf("log.q%d.error", q), "bits", logWorst, 1.44*math.Ldexp(1, -q), "PINT appendix C, 1.44 * 2^-q", "lower")
		t.against(fmt.Sprintf("exp.q%d.error", q), "ratio", expWorst, math.Ldexp(1, -q), "PINT appendix C, R * 2^-q with R = 1; here R is 60", "lower")
	}
	return nil
}

// utilisationError drives a 100 Gbit/s link with Poisson arrivals at half load
// and compares with the recursion in floats.
func utilisationError(o Options, r *rand.Rand, t *table) error {
	const bytesPerNs, roundTrip = 12.5, 13_000
	u, err := encode.NewUtilisation(bytesPerNs*1e9, roundTrip)
	if err != nil {
		return err
	}
	exact, now, last, worst := 0.0, 0.0, uint64(0), 0.0
	for i := range o.runs(1_000_000) {
		bytes := uint64(64 + r.IntN(1437))
		now += float64(bytes) / bytesPerNs / 0.5 * r.ExpFloat64()
		ns, queue := uint64(now), r.Uint64N(20_000)
		tau := float64(min(ns-last, roundTrip))
		last = ns
		exact = (roundTrip-tau)/roundTrip*exact + float64(queue)*tau/(bytesPerNs*roundTrip*roundTrip) + float64(bytes)/(bytesPerNs*roundTrip)
		u.Update(ns, queue, bytes)
		if i > 1000 {
			worst = max(worst, math.Abs(float64(u.Value())/pint.UtilisationOne/exact-1))
		}
	}
	t.against("utilisation.error", "ratio", worst, 3.0/1024, "stated at pint.Utilisation.Update; 100 Gbit/s, T = 13 us", "lower")
	return nil
}

// countingError sums ten hop latencies in 8 bits.
func countingError(o Options, r *rand.Rand, t *table) error {
	const hops = 10
	k, err := encode.NewCounter(8, 100, 100_000_000)
	if err != nil {
		return err
	}
	var square, bias, stated float64
	n := o.runs(200_000)
	for range n {
		var register, sum uint64
		for range hops {
			v := anyScale(r, 1000, 1_000_000)
			sum += v
			register = k.Add(register, v, r.Uint64())
		}
		e := float64(k.Value(register))/float64(sum) - 1
		square, bias = square+e*e, bias+e
		stated += math.Pow(k.Deviation(float64(sum), hops)/float64(sum), 2)
	}
	t.against("sum.8bits.deviation", "ratio", math.Sqrt(square/float64(n)), math.Sqrt(stated/float64(n)), "bound of pint.Counter.Deviation, 10 hops", "lower")
	t.add("sum.8bits.bias", "ratio", math.Abs(bias)/float64(n), "10 hops", "lower")
	return nil
}
