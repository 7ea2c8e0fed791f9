package events

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// Event is one thing that happened. Time and ID are filled by Publish where they are zero.
type Event struct {
	Kind     Kind
	Star     string // where it happened; may be empty
	Stream   string // name; empty when the event is about no stream, or its name is not known
	StreamID string
	Epoch    uint64
	Data     any // the kind's struct of this package, or nil; json.RawMessage in a parsed event
	Time     time.Time
	ID       string // and JetStream's message id; a ULID, but see stamped
}

// typePrefix stands before the kind in a CloudEvent's type.
const typePrefix = "nova."

// cloudEvent is CloudEvents 1.0 in JSON, structured mode, with the extensions star, streamid and epoch.
// The epoch is a string because an integer attribute has only 32 bits there.
type cloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	Time            string          `json:"time"`
	DataContentType string          `json:"datacontenttype,omitempty"`
	Star            string          `json:"star,omitempty"`
	StreamID        string          `json:"streamid,omitempty"`
	Epoch           string          `json:"epoch,omitempty"`
	Data            json.RawMessage `json:"data,omitempty"`
}

// stamped returns e with its id and time filled. The id is a new ULID; but a handoff has one decision and
// one end, so those are named after the handoff: when two processes tell its end, JetStream keeps what it
// heard first.
func (e Event) stamped() Event {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if e.ID != "" {
		return e
	}
	if h, ok := e.Data.(Handoff); ok && h.ID != "" {
		e.ID = h.ID + "-end"
		if e.Kind == HandoffDecided {
			e.ID = h.ID + "-decided"
		}
		return e
	}
	e.ID = ulid.Make().String()
	return e
}

// MarshalJSON writes e as a CloudEvent.
func (e Event) MarshalJSON() ([]byte, error) {
	c := cloudEvent{
		SpecVersion: "1.0", ID: e.ID, Source: "/nova", Type: typePrefix + string(e.Kind), Subject: e.Stream,
		Time: e.Time.UTC().Format(time.RFC3339Nano), Star: e.Star, StreamID: e.StreamID,
	}
	if e.Star != "" {
		c.Source += "/stars/" + e.Star
	}
	if e.Epoch > 0 {
		c.Epoch = strconv.FormatUint(e.Epoch, 10)
	}
	if e.Data != nil {
		data, err := json.Marshal(e.Data)
		if err != nil {
			return nil, fmt.Errorf("encode the data of %s: %w", e.Kind, err)
		}
		c.Data, c.DataContentType = data, "application/json"
	}
	return json.Marshal(c)
}

// UnmarshalJSON reads a CloudEvent that this package wrote. Data becomes a json.RawMessage, nil when
// there is none.
func (e *Event) UnmarshalJSON(data []byte) error {
	var c cloudEvent
	if err := json.Unmarshal(data, &c); err != nil {
		return err
	}
	kind, ours := strings.CutPrefix(c.Type, typePrefix)
	if !ours || c.SpecVersion != "1.0" {
		return fmt.Errorf("no event of nova: type %q, specversion %q", c.Type, c.SpecVersion)
	}
	at, err := time.Parse(time.RFC3339Nano, c.Time)
	if err != nil {
		return fmt.Errorf("event %s: time: %w", c.ID, err)
	}
	*e = Event{Kind: Kind(kind), Star: c.Star, Stream: c.Subject, StreamID: c.StreamID, Time: at, ID: c.ID}
	if c.Epoch != "" {
		if e.Epoch, err = strconv.ParseUint(c.Epoch, 10, 64); err != nil {
			return fmt.Errorf("event %s: epoch: %w", c.ID, err)
		}
	}
	if c.Data != nil {
		e.Data = c.Data
	}
	return nil
}
