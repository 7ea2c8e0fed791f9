package events

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// kinds reads the constants from the source, so that one that is added is not forgotten here.
func kinds(t *testing.T) (all []Kind) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "kinds.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		kind, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Kind(kind))
		return true
	})
	if len(all) < 18 {
		t.Fatalf("only %d kinds found", len(all))
	}
	return all
}

func TestTheDocumentNamesEveryKindAndField(t *testing.T) {
	doc, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds(t) {
		if !strings.Contains(string(doc), "| `"+string(kind)+"` |") {
			t.Errorf("docs/events.md has no row for %s", kind)
		}
	}
	source, err := os.ReadFile("kinds.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(source), "`json:\"")[1:] {
		field := part[:strings.IndexAny(part, ",\"")]
		if !strings.Contains(string(doc), "`"+field+"`") {
			t.Errorf("docs/events.md does not name the field %s", field)
		}
	}
}

func TestEverySubjectHasSixTokens(t *testing.T) {
	for _, kind := range kinds(t) {
		for _, e := range []Event{{Kind: kind}, {Kind: kind, Star: "a", Stream: "x.y z"}, {Kind: kind, Star: "a.*.>"}} {
			subject := e.Subject()
			if n := len(strings.Split(subject, ".")); n != 6 || strings.ContainsAny(subject, "*> ") {
				t.Errorf("subject %q", subject)
			}
		}
	}
}
