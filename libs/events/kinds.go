package events

// Kind says what happened. It is two words with a dot between them, or one.
type Kind string

// The kinds, each with the type of its Data.
const (
	StarJoined  Kind = "star.joined"  // Joined
	StarLeft    Kind = "star.left"    // Left
	StarRefused Kind = "star.refused" // Refused

	LeadershipOpened   Kind = "leadership.opened"   // Opened
	LeadershipIdle     Kind = "leadership.idle"     // none
	LeadershipRejoined Kind = "leadership.rejoined" // none
	LeadershipReleased Kind = "leadership.released" // Released
	LeadershipDeposed  Kind = "leadership.deposed"  // Limbo
	LeadershipLimbo    Kind = "leadership.limbo"    // Limbo

	HandoffDecided  Kind = "handoff.decided"  // Handoff
	HandoffFinished Kind = "handoff.finished" // Handoff
	HandoffFailed   Kind = "handoff.failed"   // Handoff, with Error

	LeaseHealed  Kind = "lease.healed"  // Healed
	EpochBumped  Kind = "epoch.bumped"  // none: the event's epoch is the new one
	ChainSealed  Kind = "chain.sealed"  // Sealed
	ChainSettled Kind = "chain.settled" // Settled
	ChainDecided Kind = "chain.decided" // Decided
	CopyAdmitted Kind = "copy.admitted" // Admitted
	StreamGap    Kind = "stream.gap"    // Limbo
	Shed         Kind = "shed"          // Bound
)

// Opened is a gate that passed.
type Opened struct {
	Coverage  string `json:"coverage"`          // on what evidence the cursor rests
	Recovered uint64 `json:"recovered"`         // records found above the last segment
	Millis    int64  `json:"ms"`                // that the gate took
	Handoff   string `json:"handoff,omitempty"` // that brought the stream here
	Trigger   string `json:"trigger,omitempty"` // of that handoff
	Chain     string `json:"chain"`             // that the leadership writes to
}

// Released is a departure that landed: the mark stands.
type Released struct {
	Reason  string `json:"reason"`
	Covered uint64 `json:"covered"` // where the next leader starts
}

// Handoff is a move: decided, finished or failed. The candidates are the numbers that decided, in the
// order of their scores.
type Handoff struct {
	ID         string      `json:"handoff"`
	From       string      `json:"from"`
	To         string      `json:"to"`
	Trigger    string      `json:"trigger,omitempty"`
	Epoch      uint64      `json:"epoch,omitempty"`   // that the old leader gave up
	Covered    uint64      `json:"covered,omitempty"` // where the successor starts
	Taken      uint64      `json:"taken,omitempty"`   // epoch of the successor; 0: not yet
	Error      string      `json:"error,omitempty"`
	Candidates []Candidate `json:"candidates,omitempty"`
}

// Candidate is one star that a decision compared.
type Candidate struct {
	Star               string  `json:"star"`
	Score              uint64  `json:"score"`
	LoadBytesPerSecond float64 `json:"load_bytes_per_second"`
}

// Healed is an orphaned lease that its own star took up again.
type Healed struct {
	AgeMillis int64 `json:"age_ms"`
}

// Sealed is a chain that a fence ended.
type Sealed struct {
	Chain  string `json:"chain"`
	Seal   uint64 `json:"seal"` // no slot at or above it counts
	Millis int64  `json:"ms"`
}

// Settled is a chain of which every record lies in a published segment.
type Settled struct {
	Chain   string `json:"chain"`
	Streams int    `json:"streams"`
	Millis  int64  `json:"ms"`
}

// Decided is a chain that its fencers could not end and that a person's word ended.
type Decided struct {
	Chain        string   `json:"chain"`
	Seal         uint64   `json:"seal"`
	Counted      []uint64 `json:"counted,omitempty"` // slots whose votes were split and whose flight counts
	LossAccepted bool     `json:"loss_accepted"`     // acknowledged records may lie at or above the seal
}

// Admitted is a blank store that was filled and made a copy of a class.
type Admitted struct {
	Class    string `json:"class"`
	Index    int    `json:"index"`
	Copy     string `json:"copy"` // URL without credentials
	Identity string `json:"identity"`
	Objects  uint64 `json:"objects"` // that it was given
	Bytes    int64  `json:"bytes"`
	Millis   int64  `json:"ms"`
}

// Joined is a star that registered.
type Joined struct {
	Location    string `json:"location,omitempty"`
	Address     string `json:"address"`
	Incarnation string `json:"incarnation"`
	Version     string `json:"version"`
}

// Left is a star that said goodbye; Leading counts the leaderships it could not certify in time.
type Left struct {
	Leading int `json:"leading"`
}

// Refused is a star that may lead nothing new, or not register at all, and why.
type Refused struct {
	Reason string `json:"reason"`
}

// Limbo is a leadership in trouble: a departure that has not landed, a deposition, a gap.
type Limbo struct {
	Reason string `json:"reason"`
	Error  string `json:"error,omitempty"`
}

// Bound is the explicit bound that refused new work.
type Bound struct {
	Name string `json:"bound"`
}
