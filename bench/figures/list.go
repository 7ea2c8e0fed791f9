package figures

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"nova.internal/bench/figure"
)

// Figure is one thing that is measured.
type Figure struct {
	figure.Spec
	run run
}

// Limit bounds one figure.
const Limit = 8 * time.Minute

// Measure measures the figure. The folder e.Dir is as it was, afterwards.
func (f Figure) Measure(ctx context.Context, e *Env) (figure.Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, Limit, fmt.Errorf("not done within %v", Limit))
	defer cancel()
	r, err := f.run(ctx, e, f.Spec)
	if err != nil {
		return r, fmt.Errorf("measure %s: %w", f.Name, err)
	}
	return r, nil
}

// List is every figure, in the order in which they are measured.
func List() []Figure {
	return slices.Concat(appends(), peers(), latencies(), scans(), puts(), recoveries())
}

// Pick is the figures that the patterns name: comma-separated, as path.Match has them. An empty string
// picks all, a pattern that names none is an error.
func Pick(patterns string) ([]Figure, error) {
	all := List()
	if patterns == "" {
		return all, nil
	}
	var picked []Figure
	for pattern := range strings.SplitSeq(patterns, ",") {
		found := false
		for _, f := range all {
			ok, err := path.Match(pattern, f.Name)
			if err != nil {
				return nil, fmt.Errorf("figure %q: %w", pattern, err)
			}
			if ok {
				picked, found = append(picked, f), true
			}
		}
		if !found {
			return nil, fmt.Errorf("no figure %q; --list names them all", pattern)
		}
	}
	return picked, nil
}
