package encode

import (
	"errors"
	"fmt"
	"math"
	"sync"
)

const (
	// utilisationScale is the binary logarithm of 1 in the state.
	utilisationScale = 32
	// utilisationTable is q of the tables: 3 * 2^-10 bounds the relative error of
	// a term, see Update.
	utilisationTable = 10
)

// Utilisation estimates how much of a link is used, as HPCC does, in integers
// (section 4.3, appendix B). It is a moving average over the base round trip
// time T, whose weight is the time tau since the packet before:
//
//	U <- (T - tau)/T * U + qlen*tau/(B*T^2) + bytes/(B*T)
//
// The products are sums of logarithms. Two things differ from the paper. Up to
// tau = T/2 the first term is U - U*tau/T, where only the small product is
// approximate: a relative error of the kept part would act on each packet anew
// and add up to T/tau times itself. And tau counts as at most T, so that an idle
// link forgets what it was before.
//
// The zero value is not usable. A Utilisation belongs to one egress port; it is
// not safe for concurrent use.
type Utilisation struct {
	u    uint64 // in units of 2^-utilisationScale
	last uint64 // ns
	t    uint64 // T, ns

	// Constants, in units of the logarithm.
	logT, logBytes int64 // log T; log(B*T), the bytes of a full link in T
	log            *Log
	exp            *Exp
}

// NewUtilisation starts an estimate of 0 for a link of the given rate and base
// round trip time.
func NewUtilisation(bytesPerSecond, roundTripNs uint64) (*Utilisation, error) {
	perT := float64(bytesPerSecond) / 1e9 * float64(roundTripNs)
	if perT < 1 || roundTripNs > 1<<40 || bytesPerSecond > 1<<50 {
		return nil, fmt.Errorf("utilisation: a link of %d bytes/s sends %g bytes in a round trip of %d ns: both must be positive, the rate at most 2^50, the time at most 2^40", bytesPerSecond, perT, roundTripNs)
	}
	tables := utilisationTables()
	return &Utilisation{
		t: roundTripNs, log: tables.log, exp: tables.exp,
		logT:     int64(math.Round(math.Log2(float64(roundTripNs)) * (1 << LogFraction))),
		logBytes: int64(math.Round(math.Log2(perT) * (1 << LogFraction))),
	}, nil
}

// utilisationTables are those of all ports, so that they share lines of the caches.
var utilisationTables = sync.OnceValue(func() (t struct {
	log *Log
	exp *Exp
}) {
	var errs [2]error
	t.log, errs[0] = NewLog(utilisationTable)
	t.exp, errs[1] = NewExp(utilisationTable)
	if err := errors.Join(errs[:]...); err != nil {
		panic("pint: tables of utilisation: " + err.Error()) // utilisationTable is a constant
	}
	return t
})

// Update takes in a packet of the given bytes, sent at nowNs, that left
// queueBytes behind in the queue. Times before the last one count as that.
//
// A product of n factors, of which each logarithm is low by at most 1.45*2^-q
// and the exponential by a factor of 1 + 0.7*2^-q, is low by at most
// (n + 0.7) * 2^-q of itself. So U, against the exact recursion, stays
// within 3*2^-10 < 0.3 % relatively, beside 2^-32 per packet of rounding.
func (u *Utilisation) Update(nowNs, queueBytes, bytes uint64) {
	tau := min(max(nowNs, u.last)-u.last, u.t)
	u.last = max(nowNs, u.last)
	logTau := u.log.Log2(tau)
	if tau <= u.t/2 {
		u.u -= min(u.u, u.product(u.u, tau, logTau-u.logT))
	} else {
		u.u = u.product(u.u, u.t-tau, u.log.Log2(u.t-tau)-u.logT)
	}
	const one = utilisationScale << LogFraction
	u.u += u.product(queueBytes, tau, logTau-u.logBytes-u.logT+one)
	u.u += u.product(bytes, 1, one-u.logBytes)
}

// product is x * 2^logFactor, or 0 if x or y is 0; it is at most 2^60, so that
// sums of a few do not overflow.
func (u *Utilisation) product(x, y uint64, logFactor int64) uint64 {
	if x == 0 || y == 0 {
		return 0
	}
	return min(u.exp.Exp2(u.log.Log2(x)+logFactor), 1<<60)
}

// Value is the utilisation at the last update, in units of 1/UtilisationOne.
func (u *Utilisation) Value() uint64 { return u.u >> (utilisationScale - 16) }

// State returns what the average holds: U in units of 2^-32, and the time of the last
// packet in ns. A P4 switch has both in registers.
func (u *Utilisation) State() (used, lastNs uint64) { return u.u, u.last }

// UtilisationTables are the constants of a Utilisation, to be read only.
type UtilisationTables struct {
	RoundTripNs uint64 // T
	// LogRoundTrip is log2(T), and LogBytes log2 of the bytes of a full link in T,
	// in units of 2^-LogFraction.
	LogRoundTrip, LogBytes int64
	Log                    []uint32 // see Log: by the bits behind the leading one
	Exp                    []uint64 // see Exp: by the first bits of the fraction
}

// Tables are the constants of the estimate, as a P4 target gets them.
func (u *Utilisation) Tables() UtilisationTables {
	return UtilisationTables{u.t, u.logT, u.logBytes, u.log.table, u.exp.table}
}
