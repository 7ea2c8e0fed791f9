package ctl

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// table prints rows below a header, each column as wide as it must be.
func table(out io.Writer, header string, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if header != "" {
		fmt.Fprintln(w, strings.Join(strings.Fields(header), "\t"))
	}
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// document prints v as one indented JSON document, line as one line. Neither escapes what HTML would.
func document(out io.Writer, v any) error { return encode(out, v, "  ") }
func jsonLine(out io.Writer, v any) error { return encode(out, v, "") }

func encode(out io.Writer, v any, indent string) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(v)
}

// instant is a Unix time in milliseconds in the form that results have, "" for none.
func instant(ms int64) string {
	if ms == 0 {
		return ""
	}
	return stamp(time.UnixMilli(ms))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// rate is bytes a second for people.
func rate(bytes float64) string {
	for _, unit := range []string{"B/s", "KiB/s", "MiB/s"} {
		if bytes < 1024 {
			return fmt.Sprintf("%.4g %s", bytes, unit)
		}
		bytes /= 1024
	}
	return fmt.Sprintf("%.4g GiB/s", bytes)
}

// orDash shows that a value is absent.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
