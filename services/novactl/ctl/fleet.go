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

func newFleet(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "fleet", Short: "List the living stars with what they last reported", Args: nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.asked(cmd, func(ctx context.Context, fleet *client.Client) error {
				members, err := fleet.Fleet(ctx)
				if err != nil {
					return err
				}
				stars := make([]starReport, 0, len(members))
				for _, m := range members {
					stars = append(stars, reported(m))
				}
				slices.SortFunc(stars, func(a, b starReport) int { return cmp.Compare(a.Star, b.Star) })
				if c.json() {
					return document(c.Out, stars)
				}
				rows := make([][]string, 0, len(stars))
				for _, s := range stars {
					rows = append(rows, s.row())
				}
				return table(c.Out, "STAR LOCATION ADDRESS LEADERS SESSIONS APPEND HOT-READ SATURATION STATE", rows)
			})
		},
	}
}

// starReport is one living star. The pointers are null until the star has reported for the first time.
type starReport struct {
	Star        string `json:"star"`
	Location    string `json:"location"`
	Address     string `json:"address"`
	Incarnation string `json:"incarnation"`
	Version     string `json:"version"`
	Joined      string `json:"joined"`
	Saturated   bool   `json:"saturated"`
	Draining    bool   `json:"draining"`
	Drain       string `json:"drain"`      // none, serving, decommission or exit
	Ineligible  string `json:"ineligible"` // why it may lead nothing new

	Leaders              *int64             `json:"leaders"`
	Sessions             *int64             `json:"sessions"`
	AppendBytesPerSecond *float64           `json:"append_bytes_per_second"`
	HotReadBytesPerSec   *float64           `json:"hot_read_bytes_per_second"`
	Saturation           *float64           `json:"saturation"` // the highest axis; 1: at the ceiling
	SaturationByAxis     map[string]float64 `json:"saturation_by_axis"`
	Stranded             bool               `json:"stranded"`
	Drained              bool               `json:"drained"`
	Reported             string             `json:"reported"`
}

func reported(m *novav1.FleetStar) starReport {
	star, stats := m.GetStar(), m.GetStats()
	r := starReport{
		Star: star.GetStar(), Location: star.GetLocation(), Address: star.GetAddress(), Incarnation: star.GetIncarnation(),
		Version: star.GetVersion(), Joined: instant(star.GetJoinedUnixMs()), Saturated: star.GetSaturated(),
		Draining: star.GetDraining() != novav1.Draining_DRAINING_NONE, Drain: drainName(star.GetDraining()), Ineligible: star.GetIneligible(),
	}
	if stats == nil {
		return r
	}
	r.Leaders, r.Sessions, r.Saturation = &stats.Leaders, &stats.Sessions, &stats.Saturation
	r.AppendBytesPerSecond, r.HotReadBytesPerSec = &stats.AppendBytesPerSecond, &stats.HotReadBytesPerSecond
	r.SaturationByAxis = map[string]float64{
		"cpu": stats.GetSaturationCpu(), "network": stats.GetSaturationNetwork(),
		"memory": stats.GetSaturationMemory(), "backlog": stats.GetSaturationBacklog(),
	}
	r.Stranded, r.Drained, r.Reported = stats.GetStranded(), stats.GetDrained(), instant(stats.GetAtUnixMs())
	return r
}

func drainName(d novav1.Draining) string {
	return strings.ToLower(strings.TrimPrefix(d.String(), "DRAINING_"))
}

func (r starReport) row() []string {
	row := []string{r.Star, orDash(r.Location), orDash(r.Address), "-", "-", "-", "-", "-", r.state()}
	if r.Leaders != nil {
		row[3], row[4] = strconv.FormatInt(*r.Leaders, 10), strconv.FormatInt(*r.Sessions, 10)
		row[5], row[6] = rate(*r.AppendBytesPerSecond), rate(*r.HotReadBytesPerSec)
		row[7] = fmt.Sprintf("%.2f", *r.Saturation)
	}
	return row
}

// state is every flag that stands, "ok" without any.
func (r starReport) state() string {
	var flags []string
	if r.Saturated {
		flags = append(flags, "saturated")
	}
	if r.Draining {
		flags = append(flags, "draining ("+r.Drain+")")
	}
	if r.Stranded {
		flags = append(flags, "stranded")
	}
	if r.Drained {
		flags = append(flags, "drained")
	}
	if r.Ineligible != "" {
		flags = append(flags, "ineligible: "+r.Ineligible)
	}
	return cmp.Or(strings.Join(flags, ", "), "ok")
}
