// Package figure is what a benchmark says: figures, each a value beside a baseline that was measured in
// the same run, and how they are written down.
//
// A machine is never quiet, and what disturbs it comes and goes. So subject and baseline are measured in
// turns, one round after the other, and a figure is the median of its rounds: of the values, of the
// baselines, and of the rounds' own ratios. What slows a whole round cancels out in its ratio.
//
// The package measures nothing and knows nothing of nova. Start reading at Result.
package figure
