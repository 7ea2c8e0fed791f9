package star

import "errors"

var errKilled = errors.New("killed by the test")

// kill ends the star's serving at once, without its stop.
func (s *testStar) kill() {
	s.current().end(errKilled)
	s.stop()
}
