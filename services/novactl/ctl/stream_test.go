package ctl_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/client/clienttest"
)

func TestStreamCreateListDescribeDelete(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{})
	r := run(t, f, "", "stream", "create", "b/orders", "--mode", "fenced", "--class", "express").want(t, 0)
	if r.out != "stream b/orders stands: mode fenced, class express\n" {
		t.Errorf("create printed %q", r.out)
	}
	run(t, f, "", "stream", "create", "a").want(t, 0)
	run(t, f, "", "stream", "create", "a").want(t, 0)
	run(t, f, "", "stream", "create", "a", "--mode", "fenced").want(t, 1).says(t, "another mode or class", "choose another name")

	r = run(t, f, "", "stream", "list").want(t, 0)
	want := `NAME      MODE    CLASS     CREATED
a         any     standard  1970-01-01T00:00:00.001Z
b/orders  fenced  express   1970-01-01T00:00:00.001Z
`
	if diff := cmp.Diff(want, r.out); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	run(t, f, "", "stream", "delete", "a").want(t, 0)
	r = run(t, f, "", "stream", "list", "-o", "json").want(t, 0)
	listed := parsed[[]map[string]string](t, r.out)
	if len(listed) != 1 || listed[0]["name"] != "b/orders" || listed[0]["mode"] != "fenced" || listed[0]["class"] != "express" {
		t.Errorf("listed %v", listed)
	}
	run(t, f, "", "stream", "delete", "b/orders").want(t, 0)
	if r = run(t, f, "", "stream", "list", "-o", "json").want(t, 0); r.out != "[]\n" {
		t.Errorf("a list of nothing is %q", r.out)
	}
}

func TestStreamDescribeShowsLeaderOrVacant(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{Stars: 2})
	f.Create("s", novav1.Mode_MODE_ANY)
	r := run(t, f, "", "stream", "describe", "s").want(t, 0)
	want := `name           s
id             id-s
mode           any
class          standard
created        1970-01-01T00:00:00.001Z
epoch          0
leader         vacant
next sequence  0
covered        0
segments       0
clean release  yes
`
	if diff := cmp.Diff(want, r.out); diff != "" {
		t.Errorf("describe (-want +got):\n%s", diff)
	}
	if r := run(t, f, "", "stream", "describe", "s", "-o", "json").want(t, 0); !strings.Contains(r.out, `"leader": null`) {
		t.Errorf("a vacant stream's leader is not null: %s", r.out)
	}
	f.Lead("s", 1)
	run(t, f, "a\nb\n", "produce", "s").want(t, 0)
	r = run(t, f, "", "stream", "describe", "s", "-o", "json").want(t, 0)
	d := parsed[map[string]any](t, r.out)
	if d["leader"] != "star-1" || d["leader_address"] != f.Star(1) || d["epoch"] != 1.0 || d["next_sequence"] != 2.0 || d["next_known"] != true {
		t.Errorf("described %v", d)
	}
	if r := run(t, f, "", "stream", "describe", "s").want(t, 0); !strings.Contains(r.out, "star-1 at "+f.Star(1)) {
		t.Errorf("describe printed %q", r.out)
	}
}

func TestHandoffMovesAStream(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{Stars: 2})
	f.Create("s", novav1.Mode_MODE_ANY)
	run(t, f, "", "handoff", "s").want(t, 1).says(t, "vacant")
	f.Lead("s", 0)
	r := run(t, f, "", "handoff", "s").want(t, 0)
	if r.out != "stream s moved from star-0, which led epoch 1, to star-1, which goes on at sequence 0 (handoff h1)\n" {
		t.Errorf("handoff printed %q", r.out)
	}
	run(t, f, "", "handoff", "s", "--to", "star-9").want(t, 1).says(t, "star-9", "no such star", "novactl fleet")
	r = run(t, f, "", "handoff", "s", "--to", "star-0", "-o", "json").want(t, 0)
	want := map[string]any{"stream": "s", "handoff": "h1", "from": "star-1", "to": "star-0", "epoch": 2.0, "covered": 0.0}
	if diff := cmp.Diff(want, parsed[map[string]any](t, r.out)); diff != "" {
		t.Errorf("handoff (-want +got):\n%s", diff)
	}
}

func TestFleetListsStarsAndStats(t *testing.T) {
	f := clienttest.New(t, clienttest.Options{Stars: 2})
	r := run(t, f, "", "fleet").want(t, 0)
	lines := strings.Split(r.out, "\n")
	if len(lines) != 4 || strings.Join(strings.Fields(lines[0]), " ") != "STAR LOCATION ADDRESS LEADERS SESSIONS APPEND HOT-READ SATURATION STATE" ||
		strings.Join(strings.Fields(lines[1]), " ") != "star-0 here "+f.Star(0)+" 1 0 2 KiB/s 0 B/s 0.25 ok" {
		t.Errorf("fleet printed\n%s", r.out)
	}
	r = run(t, f, "", "fleet", "-o", "json").want(t, 0)
	stars := parsed[[]map[string]any](t, r.out)
	if len(stars) != 2 {
		t.Fatalf("%d stars", len(stars))
	}
	want := map[string]any{
		"star": "star-1", "location": "here", "address": f.Star(1), "incarnation": "inc-star-1", "version": "test", "joined": "",
		"saturated": false, "draining": false, "drain": "none", "ineligible": "",
		"leaders": 1.0, "sessions": 0.0, "append_bytes_per_second": 2048.0, "hot_read_bytes_per_second": 0.0,
		"saturation": 0.25, "saturation_by_axis": map[string]any{"cpu": 0.0, "network": 0.0, "memory": 0.0, "backlog": 0.0},
		"stranded": false, "drained": false, "reported": "",
	}
	if diff := cmp.Diff(want, stars[1]); diff != "" {
		t.Errorf("star-1 (-want +got):\n%s", diff)
	}
}
