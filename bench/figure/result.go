package figure

import (
	"fmt"
	"slices"
	"time"
)

// Pair is what one round measured, in the figure's unit.
type Pair struct {
	Value    float64 `json:"value"`
	Baseline float64 `json:"baseline"`
}

// Ratio is the value in units of the baseline, 0 without one.
func (p Pair) Ratio() float64 {
	if p.Baseline == 0 {
		return 0
	}
	return p.Value / p.Baseline
}

// Target is what a figure has to reach. The zero Target asks for nothing.
type Target struct {
	// Of says what is bounded: the ratio, or the value itself.
	Of Quantity
	// Bound is the least that is wanted, or with AtMost the most.
	Bound  float64
	AtMost bool
}

// Quantity is what a target bounds.
type Quantity int

// What a target may bound.
const (
	Nothing Quantity = iota
	Ratio
	Value
)

// AtLeast wants a ratio of at least bound.
func AtLeast(bound float64) Target { return Target{Of: Ratio, Bound: bound} }

// RatioAtMost wants a ratio of at most bound.
func RatioAtMost(bound float64) Target { return Target{Of: Ratio, Bound: bound, AtMost: true} }

// ValueAtMost wants a value of at most bound.
func ValueAtMost(bound float64) Target { return Target{Of: Value, Bound: bound, AtMost: true} }

// Met says whether r reaches the target.
func (t Target) Met(r Result) bool {
	have := r.Ratio
	switch t.Of {
	case Nothing:
		return true
	case Value:
		have = r.Value
	}
	if t.AtMost {
		return have <= t.Bound
	}
	return have >= t.Bound
}

// String is the target as a reader wants it, "" where nothing is asked.
func (t Target) String() string {
	sign := "≥"
	if t.AtMost {
		sign = "≤"
	}
	switch t.Of {
	case Nothing:
		return ""
	case Value:
		return fmt.Sprintf("value %s %s", sign, number(t.Bound))
	}
	return fmt.Sprintf("ratio %s %s", sign, number(t.Bound))
}

// Result is one figure: a value beside its baseline.
type Result struct {
	Name     string  `json:"name"`
	Value    float64 `json:"value"`    // median over the rounds
	Unit     string  `json:"unit"`     // of value and baseline
	Baseline float64 `json:"baseline"` // median over the rounds
	Ratio    float64 `json:"ratio"`    // median of the rounds' ratios
	Against  string  `json:"against"`  // what the baseline is
	Target   string  `json:"target,omitempty"`
	Met      *bool   `json:"met,omitempty"` // absent without a target
	Rounds   []Pair  `json:"rounds"`
	Note     string  `json:"note,omitempty"` // what else a reader must know
}

// Spec is what of a figure is known before it is measured.
type Spec struct {
	Name, Unit, Against string
	Target              Target
}

// Of is the figure that the rounds make. There is at least one.
func (s Spec) Of(rounds []Pair, note string) Result {
	r := Result{Name: s.Name, Unit: s.Unit, Against: s.Against, Rounds: rounds, Note: note}
	r.Value = median(rounds, func(p Pair) float64 { return p.Value })
	r.Baseline = median(rounds, func(p Pair) float64 { return p.Baseline })
	r.Ratio = median(rounds, Pair.Ratio)
	if s.Target.Of != Nothing {
		met := s.Target.Met(r)
		r.Target, r.Met = s.Target.String(), &met
	}
	return r
}

// Spread is the lowest and the highest ratio of the rounds.
func (r Result) Spread() (lowest, highest float64) {
	lowest, highest = r.Ratio, r.Ratio
	for _, p := range r.Rounds {
		lowest, highest = min(lowest, p.Ratio()), max(highest, p.Ratio())
	}
	return lowest, highest
}

func median(rounds []Pair, of func(Pair) float64) float64 {
	values := make([]float64, len(rounds))
	for i, p := range rounds {
		values[i] = of(p)
	}
	return Median(values)
}

// Median is the middle of the values, or the mean of the two middle ones; 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Quantile is the nearest-rank quantile of the samples, with q between 0 and 1; 0 of none.
func Quantile(samples []time.Duration, q float64) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	rank := int(q * float64(len(sorted)))
	if float64(rank) < q*float64(len(sorted)) {
		rank++
	}
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Millis is d in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
