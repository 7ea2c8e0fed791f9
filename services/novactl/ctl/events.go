package ctl

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client"
)

func newEvents(c *cli) *cobra.Command {
	var follow bool
	var star, stream, kind, since string
	cmd := &cobra.Command{
		Use: "events", Short: "Show what happened to the fleet's leaderships",
		Long: "Show what happened to the fleet's leaderships, oldest first. With -o json each line is the event's CloudEvent.",
		Args: nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := sinceWhen(since, time.Now())
			if err != nil {
				return usage(cmd, "--since: %w", err)
			}
			req := &novav1.EventsRequest{Follow: follow, Star: star, Stream: stream, Kind: kind}
			if !from.IsZero() {
				req.SinceUnixMs = from.UnixMilli()
			}
			show := eventLine
			if c.json() {
				show = eventJSON
			}
			return c.connected(cmd, func(fleet *client.Client) error {
				for e, err := range fleet.Events(cmd.Context(), req) {
					if err != nil {
						return ended(cmd.Context(), follow, err)
					}
					if err := show(c.Out, e); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&follow, "follow", "f", false, "go on with new events until interrupted")
	f.StringVar(&star, "star", "", "only events of this `star`")
	f.StringVar(&stream, "stream", "", "only events of the stream of this `name`")
	f.StringVar(&kind, "kind", "", "only events of this `kind`, as handoff.decided, or handoff for all of them")
	f.StringVar(&since, "since", "", "only events from this `time` on: RFC 3339, or a duration back from now as 10m")
	return cmd
}

// sinceWhen reads a time or a duration back from now; "" is no limit.
func sinceWhen(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if back, err := time.ParseDuration(s); err == nil && back >= 0 {
		return now.Add(-back), nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a time as 2006-01-02T15:04:05Z nor a duration as 10m", s)
	}
	return at, nil
}

// cloudEvent is what a line shows of an event.
type cloudEvent struct {
	Type    string          `json:"type"`
	Subject string          `json:"subject"`
	Time    string          `json:"time"`
	Star    string          `json:"star"`
	Epoch   string          `json:"epoch"`
	Data    json.RawMessage `json:"data"`
}

func eventJSON(out io.Writer, e *novav1.EventsResponse) error {
	if !json.Valid(e.GetCloudEvent()) {
		return jsonLine(out, map[string]any{"subject": e.GetSubject(), "sequence": e.GetSequence(), "malformed": e.GetCloudEvent()})
	}
	return jsonLine(out, json.RawMessage(e.GetCloudEvent()))
}

// eventLine shows one event. One that nova did not write is shown by its subject.
func eventLine(out io.Writer, e *novav1.EventsResponse) error {
	var c cloudEvent
	if err := json.Unmarshal(e.GetCloudEvent(), &c); err != nil {
		_, err := fmt.Fprintf(out, "%s  not an event of nova\n", e.GetSubject())
		return err
	}
	var b strings.Builder
	if at, err := time.Parse(time.RFC3339Nano, c.Time); err == nil {
		c.Time = stamp(at) // of one width
	}
	fmt.Fprintf(&b, "%s  %-22s", orDash(c.Time), strings.TrimPrefix(c.Type, "nova."))
	for _, field := range []struct{ name, value string }{{"star", c.Star}, {"stream", c.Subject}, {"epoch", c.Epoch}, {"", string(c.Data)}} {
		switch {
		case field.value == "" || field.value == "null":
		case field.name == "":
			b.WriteString(" " + field.value)
		default:
			b.WriteString(" " + field.name + "=" + field.value)
		}
	}
	_, err := fmt.Fprintln(out, strings.TrimRight(b.String(), " "))
	return err
}
