package figure

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Writer writes figures as they come.
type Writer interface{ Write(Result) error }

// JSON writes one object a line.
func JSON(w io.Writer) Writer { return &jsonLines{json.NewEncoder(w)} }

type jsonLines struct{ encoder *json.Encoder }

func (j *jsonLines) Write(r Result) error { return j.encoder.Encode(r) }

// Table writes a Markdown table, row by row.
func Table(w io.Writer) Writer { return &table{w: w} }

type table struct {
	w      io.Writer
	begun  bool
	failed error
}

func (t *table) Write(r Result) error {
	if !t.begun {
		t.line("figure", "value", "unit", "baseline", "ratio", "lowest–highest", "wanted", "against")
		t.line("---", "--:", "---", "--:", "--:", "--:", "---", "---")
		t.begun = true
	}
	wanted := r.Target
	if r.Met != nil && !*r.Met {
		wanted += " (missed)"
	}
	lowest, highest := r.Spread()
	t.line(r.Name, number(r.Value), r.Unit, number(r.Baseline), number(r.Ratio), number(lowest)+"–"+number(highest), wanted, r.Against)
	return t.failed
}

func (t *table) line(cells ...string) {
	if t.failed == nil {
		_, t.failed = fmt.Fprintln(t.w, "| "+strings.Join(cells, " | ")+" |")
	}
}

// number is a value with the digits that mean something.
func number(v float64) string {
	switch magnitude := math.Abs(v); {
	case magnitude >= 1000 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case magnitude >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case magnitude >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case magnitude >= 0.1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
}
