package events

import (
	"strings"

	"nova.internal/libs/api"
)

// StreamName is the JetStream stream that holds every event of a fleet.
const StreamName = "NOVA"

const (
	subjectPrefix = "nova.event."
	allSubjects   = subjectPrefix + ">"
	// none is the token of what an event is not about.
	none = "_"
)

// Subject is where an event is published: nova.event.KIND.STAR.STREAM, always six tokens, since a kind of
// one word is padded and the stream's name is encoded.
func (e Event) Subject() string {
	stream := none
	if e.Stream != "" {
		stream = api.EncodeName(e.Stream)
	}
	return subjectPrefix + kindTokens(string(e.Kind)) + "." + starToken(e.Star) + "." + stream
}

func kindTokens(kind string) string {
	if !strings.Contains(kind, ".") {
		return kind + "." + none
	}
	return kind
}

// starToken is a star's name as it is, or encoded where it is no legal name: a subject must not fall
// apart over a bad field.
func starToken(star string) string {
	switch {
	case star == "":
		return none
	case api.CheckStarName(star) != nil:
		return none + api.EncodeName(star)
	}
	return star
}
