package ctl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client"
)

func newStream(c *cli) *cobra.Command {
	cmd := group("stream", "Create, list, describe and delete streams")
	cmd.AddCommand(newStreamCreate(c), newStreamList(c), newStreamDescribe(c), newStreamDelete(c))
	return cmd
}

func newStreamCreate(c *cli) *cobra.Command {
	mode := choice{value: "any", allowed: []string{"any", "fenced"}}
	class := choice{value: "standard", allowed: []string{"standard", "express"}}
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a stream; one that stands with the same mode and class is left as it is",
		Args: streamName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.asked(cmd, func(ctx context.Context, fleet *client.Client) error {
				info, err := fleet.Create(ctx, args[0], modes[mode.value], classes[class.value])
				if err != nil {
					return err
				}
				if c.json() {
					return document(c.Out, described(info))
				}
				_, err = fmt.Fprintf(c.Out, "stream %s stands: mode %s, class %s\n", info.GetName(), modeName(info), className(info))
				return err
			})
		},
	}
	cmd.Flags().Var(&mode, "mode", "`mode`: any (many producers) or fenced (one, the newest wins)")
	cmd.Flags().Var(&class, "class", "`class`: standard (one copy) or express (several copies, acknowledged on a majority)")
	completes(cmd, "mode", mode.allowed)
	completes(cmd, "class", class.allowed)
	return cmd
}

func newStreamList(c *cli) *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use: "list", Short: "List the streams by name", Args: nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.asked(cmd, func(ctx context.Context, fleet *client.Client) error {
				listed := []listedStream{}
				for info, err := range fleet.List(ctx, prefix) {
					if err != nil {
						return err
					}
					listed = append(listed, listedStream{info.GetName(), info.GetId(), modeName(info), className(info), instant(info.GetCreatedUnixMs())})
				}
				slices.SortFunc(listed, func(a, b listedStream) int { return cmp.Compare(a.Name, b.Name) })
				if c.json() {
					return document(c.Out, listed)
				}
				rows := make([][]string, 0, len(listed))
				for _, s := range listed {
					rows = append(rows, []string{s.Name, s.Mode, s.Class, orDash(s.Created)})
				}
				return table(c.Out, "NAME MODE CLASS CREATED", rows)
			})
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only streams whose `names` begin with this")
	return cmd
}

func newStreamDescribe(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "describe NAME", Short: "Show a stream's mode, class, epoch, leader and positions", Args: streamName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.asked(cmd, func(ctx context.Context, fleet *client.Client) error {
				info, err := fleet.Describe(ctx, args[0])
				if err != nil {
					return err
				}
				d := described(info)
				if c.json() {
					return document(c.Out, d)
				}
				return table(c.Out, "", d.rows())
			})
		},
	}
}

func newStreamDelete(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Delete a stream and its records", Args: streamName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.asked(cmd, func(ctx context.Context, fleet *client.Client) error {
				if err := fleet.Delete(ctx, args[0]); err != nil {
					return err
				}
				if c.json() {
					return document(c.Out, map[string]string{"deleted": args[0]})
				}
				_, err := fmt.Fprintf(c.Out, "stream %s is deleted\n", args[0])
				return err
			})
		},
	}
}

// listedStream is what the name row of a stream tells.
type listedStream struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Mode    string `json:"mode"`
	Class   string `json:"class"`
	Created string `json:"created"`
}

// describedStream is all that is known about one stream. Leader is null while the stream is vacant. Next
// is a lower bound unless NextKnown.
type describedStream struct {
	listedStream
	Epoch         uint64  `json:"epoch"`
	Leader        *string `json:"leader"`
	LeaderAddress *string `json:"leader_address"`
	Next          uint64  `json:"next_sequence"`
	NextKnown     bool    `json:"next_known"`
	Covered       uint64  `json:"covered"`
	Segments      uint64  `json:"segments"`
	CleanRelease  bool    `json:"clean_release"`
}

func described(info *novav1.StreamInfo) describedStream {
	d := describedStream{
		listedStream: listedStream{info.GetName(), info.GetId(), modeName(info), className(info), instant(info.GetCreatedUnixMs())},
		Epoch:        info.GetEpoch(), Next: info.GetNext(), NextKnown: info.GetNextKnown(),
		Covered: info.GetCovered(), Segments: info.GetSegments(), CleanRelease: info.GetClean(),
	}
	if leader, address := info.GetLeader(), info.GetLeaderAddress(); leader != "" {
		d.Leader, d.LeaderAddress = &leader, &address
	}
	return d
}

func (d describedStream) rows() [][]string {
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	leader, next := "vacant", number(d.Next)
	if d.Leader != nil {
		leader = *d.Leader + " at " + orDash(*d.LeaderAddress)
	}
	if !d.NextKnown {
		next = "at least " + next
	}
	mark := "no"
	if d.CleanRelease {
		mark = "yes"
	}
	return [][]string{
		{"name", d.Name}, {"id", d.ID}, {"mode", d.Mode}, {"class", d.Class}, {"created", orDash(d.Created)},
		{"epoch", number(d.Epoch)}, {"leader", leader}, {"next sequence", next}, {"covered", number(d.Covered)},
		{"segments", number(d.Segments)}, {"clean release", mark},
	}
}

var (
	modes   = map[string]novav1.Mode{"any": novav1.Mode_MODE_ANY, "fenced": novav1.Mode_MODE_FENCED}
	classes = map[string]novav1.Class{"standard": novav1.Class_CLASS_STANDARD, "express": novav1.Class_CLASS_EXPRESS}
)

func modeName(info *novav1.StreamInfo) string {
	return strings.ToLower(strings.TrimPrefix(info.GetMode().String(), "MODE_"))
}

func className(info *novav1.StreamInfo) string {
	return strings.ToLower(strings.TrimPrefix(info.GetClass().String(), "CLASS_"))
}
