package runtime

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// Config is what a service is configured with.
type Config interface {
	Flags(*pflag.FlagSet)
	Validate() error
}

// variable is the environment's name of a flag.
func variable(flag string) string {
	return "NOVA_" + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(flag))
}

// parse reads the flags; one that the command line leaves out is read from the environment. A variable
// that is set to nothing counts as not set, which is what compose files make of a variable they lack.
func parse(f *pflag.FlagSet, args []string, lookup func(string) (string, bool)) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; every setting is a flag, see --help", f.Arg(0))
	}
	var failed error
	f.VisitAll(func(flag *pflag.Flag) {
		value, _ := lookup(variable(flag.Name))
		if value == "" || flag.Changed || failed != nil {
			return
		}
		if err := f.Set(flag.Name, value); err != nil {
			failed = fmt.Errorf("from the environment's %s: %w", variable(flag.Name), err)
		}
	})
	return failed
}

// usage writes what --help answers: each flag with its kind or unit, its default and its variable. It
// shows the defaults that pflag's own listing leaves out, such as 0 and false.
func usage(w io.Writer, name, short string, f *pflag.FlagSet) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nA flag that is left out is read from the environment variable in brackets.\n\n", name, short)
	f.VisitAll(func(flag *pflag.Flag) {
		kind, text := pflag.UnquoteUsage(flag)
		if kind == "" {
			kind = flag.Value.Type()
		}
		value := flag.DefValue
		if value == "" || value == "[]" {
			value = "none"
		}
		fmt.Fprintf(&b, "  --%s %s\n      %s (default %s) [%s]\n", flag.Name, kind, text, value, variable(flag.Name))
	})
	_, _ = io.WriteString(w, b.String()) // to whoever asked for it
}
