package gateway

import (
	"fmt"
	"html/template"
	"net/http"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/runtime"
)

// page shows the fleet. html/template escapes what stars say about themselves.
var page = template.Must(template.New("fleet").Funcs(template.FuncMap{
	"state": state,
	"rate":  func(bytes float64) string { return fmt.Sprintf("%.1f KiB/s", bytes/1024) },
}).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="2"><title>nova fleet</title>
<style>body{font:14px/1.5 system-ui,sans-serif;margin:2em}table{border-collapse:collapse}th,td{text-align:left;padding:.3em 1em;border-bottom:1px solid #ccc}</style>
<h1>nova fleet</h1>
{{if .Stars}}<table>
<tr><th>star<th>state<th>leads<th>handles<th>appends<th>hot reads<th>location<th>address<th>version</tr>
{{range .Stars}}<tr><td>{{.Star.GetStar}}<td>{{state .Star}}<td>{{.Stats.GetLeaders}}<td>{{.Stats.GetSessions}}<td>{{rate .Stats.GetAppendBytesPerSecond}}<td>{{rate .Stats.GetHotReadBytesPerSecond}}<td>{{.Star.GetLocation}}<td>{{.Star.GetAddress}}<td>{{.Star.GetVersion}}</tr>
{{end}}</table>{{else}}<p>No star is in the fleet.</p>{{end}}
<p>As of {{.At}}. The same as JSON: <a href="/v1/fleet">/v1/fleet</a>. Metrics: <a href="/metrics">/metrics</a>.</p>
</html>
`))

// state is a star's state in a word or two.
func state(row *novav1.StarRow) string {
	switch {
	case row.GetDraining() != novav1.Draining_DRAINING_NONE:
		return "draining"
	case row.GetIneligible() != "":
		return "set aside: " + row.GetIneligible()
	case row.GetSaturated():
		return "saturated"
	}
	return "serving"
}

// web serves health, metrics, the status page and the fleet as JSON.
func (g *Gateway) web(env runtime.Env) http.Handler {
	mux := env.Health.Handler(env.Gatherer)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		fleet, _ := g.Fleet(r.Context(), nil) // it never fails
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		err := page.Execute(w, struct {
			Stars []*novav1.FleetStar
			At    string
		}{fleet.GetStars(), g.fleet.Registry().Snapshot().At.UTC().Format(time.RFC3339)})
		if err != nil {
			g.log.Debug("the status page was not sent", "err", err)
		}
	})
	mux.HandleFunc("GET /v1/fleet", func(w http.ResponseWriter, r *http.Request) {
		fleet, _ := g.Fleet(r.Context(), nil) // it never fails
		body, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(fleet)
		if err != nil {
			http.Error(w, "the fleet cannot be encoded", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // a reader that has gone needs no answer
	})
	return mux
}
