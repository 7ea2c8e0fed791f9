package ctl

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"nova.internal/libs/client"
)

// Streams are what a command reads and writes, and the environment it runs in.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(name string) (value string, ok bool) // nil: no environment
	Terminal bool                                      // Err is a terminal: progress may be shown there
	Typed    bool                                      // In is a terminal: somebody types there
}

const (
	defaultGateway = "127.0.0.1:7070"
	// callTimeout bounds one question to the fleet. A handoff may wait for flights on slow storage.
	callTimeout = time.Minute
)

// Main is Run in this process's environment.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return Run(ctx, args, Streams{
		In: stdin, Out: stdout, Err: stderr, Env: os.LookupEnv,
		Terminal: isTerminal(stderr), Typed: isTerminal(stdin),
	})
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Run runs one command and returns the process's exit code. ctx's end interrupts the command.
func Run(ctx context.Context, args []string, s Streams) int {
	if s.Env == nil {
		s.Env = func(string) (string, bool) { return "", false }
	}
	c := &cli{Streams: s}
	root := newRoot(c)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(s.Err, "novactl: %s\n", explain(err))
	return exitCode(err)
}

// cli is one command line: its streams and the flags that every command has.
type cli struct {
	Streams
	gateway string
	output  choice
}

func (c *cli) json() bool { return c.output.value == "json" }

func newRoot(c *cli) *cobra.Command {
	root := group("novactl", "Create, write, read and move streams of a nova fleet")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, "%w", err) })
	root.CompletionOptions.HiddenDefaultCmd = true

	c.output = choice{value: "table", allowed: []string{"table", "json"}}
	flags := root.PersistentFlags()
	flags.StringVar(&c.gateway, "gateway", c.setting("NOVA_GATEWAY", defaultGateway), "`host:port` of the fleet's gateway; also NOVA_GATEWAY")
	flags.VarP(&c.output, "output", "o", "`format` of the results: table or json")
	completes(root, "output", c.output.allowed)

	root.AddCommand(newStream(c), newProduce(c), newConsume(c), newHandoff(c), newFleet(c), newEvents(c))
	return root
}

func (c *cli) setting(name, byDefault string) string {
	if value, ok := c.Env(name); ok && value != "" {
		return value
	}
	return byDefault
}

// connected runs do with a connection to the fleet.
func (c *cli) connected(cmd *cobra.Command, do func(*client.Client) error) error {
	if _, _, err := net.SplitHostPort(c.gateway); err != nil {
		return usage(cmd, "gateway %q is not host:port (--gateway, NOVA_GATEWAY)", c.gateway)
	}
	fleet, err := client.Dial(cmd.Context(), client.Config{Gateway: c.gateway})
	if err != nil {
		return err
	}
	defer fleet.Close()
	return do(fleet)
}

// asked runs do, which asks the fleet questions that have an end, under a deadline.
func (c *cli) asked(cmd *cobra.Command, do func(context.Context, *client.Client) error) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), callTimeout)
	defer cancel()
	err := c.connected(cmd, func(fleet *client.Client) error { return do(ctx, fleet) })
	if err != nil && cmd.Context().Err() != nil {
		return errInterrupted
	}
	return err
}
