package events

import "sync"

// message is an event as it goes out.
type message struct {
	id, subject string
	json        []byte
}

// outbox is the bounded queue between Publish and the sender. When it is full the oldest message makes
// room, so that what is published last, the present, survives an outage.
type outbox struct {
	mu     sync.Mutex
	queue  []message // a ring of the bound's length
	first  int
	held   int
	closed bool
	wake   chan struct{} // has a value when the sender should look again
}

func newOutbox(bound int) *outbox {
	return &outbox{queue: make([]message, bound), wake: make(chan struct{}, 1)}
}

// add appends m. It reports how many messages were dropped for it: the oldest, or m itself after close.
func (o *outbox) add(m message) (dropped int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return 1
	}
	if o.held == len(o.queue) {
		o.pop()
		dropped = 1
	}
	o.queue[(o.first+o.held)%len(o.queue)] = m
	o.held++
	o.signal()
	return dropped
}

// take removes the oldest message. The sender keeps it until it is out, beyond the bound.
func (o *outbox) take() (m message, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held == 0 {
		return message{}, false
	}
	return o.pop(), true
}

// close refuses whatever comes later.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.signal()
}

// drained says that the outbox was closed and is empty.
func (o *outbox) drained() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed && o.held == 0
}

// left counts what is held.
func (o *outbox) left() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held
}

func (o *outbox) pop() message {
	m := o.queue[o.first]
	o.queue[o.first] = message{}
	o.first = (o.first + 1) % len(o.queue)
	o.held--
	return m
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}
