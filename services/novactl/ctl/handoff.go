package ctl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"nova.internal/libs/api"
	"nova.internal/libs/client"
)

func newHandoff(c *cli) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "handoff NAME", Short: "Move a stream's leadership to another star",
		Long: "Move a stream's leadership to another star. Without --to it goes where placement would send it if its present\nleader were not there. Records stay where they are; producers go on at the successor by themselves.",
		Args: streamName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("to") {
				if err := api.CheckStarName(to); err != nil {
					return usage(cmd, "%w", err)
				}
			}
			return c.asked(cmd, func(ctx context.Context, fleet *client.Client) error {
				h, err := fleet.Handoff(ctx, args[0], to)
				if err != nil {
					return err
				}
				if c.json() {
					return document(c.Out, handedOff{args[0], h.GetHandoff(), h.GetFrom(), h.GetTo(), h.GetEpoch(), h.GetCovered()})
				}
				_, err = fmt.Fprintf(c.Out, "stream %s moved from %s, which led epoch %d, to %s, which goes on at sequence %d (handoff %s)\n",
					args[0], h.GetFrom(), h.GetEpoch(), h.GetTo(), h.GetCovered(), h.GetHandoff())
				return err
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`star` that shall lead; without it placement chooses")
	return cmd
}

// handedOff is a handoff that landed. Epoch is the one that From gave up, Covered where To goes on.
type handedOff struct {
	Stream  string `json:"stream"`
	Handoff string `json:"handoff"`
	From    string `json:"from"`
	To      string `json:"to"`
	Epoch   uint64 `json:"epoch"`
	Covered uint64 `json:"covered"`
}
