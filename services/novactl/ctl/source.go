package ctl

import "io"

// piece is what one read of an input gave. The last one has an error, io.EOF at the end.
type piece struct {
	bytes []byte
	err   error
}

const pieceBytes = 64 << 10

// source reads an input on a goroutine of its own, because a read of a terminal or a pipe cannot be given
// up: who waits for the next piece can. bytes are valid until the next piece is received.
//
// The goroutine ends with the input, or at its first read after stop. A read that never returns ends with
// the process; whoever can close the input ends it earlier.
func source(in io.Reader, stop <-chan struct{}) <-chan piece {
	pieces := make(chan piece)
	go func() {
		// A piece has been used up when the next one is taken, so two buffers are enough.
		buffers := [2][]byte{make([]byte, pieceBytes), make([]byte, pieceBytes)}
		for i := 0; ; i++ {
			b := buffers[i%2]
			n, err := in.Read(b)
			if n == 0 && err == nil {
				continue
			}
			select {
			case pieces <- piece{b[:n], err}:
			case <-stop:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return pieces
}
