package runtime

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Listen binds a TCP address, HOST:PORT; port 0 picks one, and the listener says which. A missing host is
// loopback: nova's connections are plaintext and ask nobody who calls, so to be heard by other machines
// takes a host that says so, such as 0.0.0.0. An address that cannot be bound is ExitUsage.
func Listen(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, ExitError(ExitUsage, fmt.Errorf("listen on %q: want HOST:PORT", address))
	}
	if host == "" {
		host = "127.0.0.1"
	}
	lis, err := net.Listen("tcp", net.JoinHostPort(host, port))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		err = fmt.Errorf("listen on %s: another process has it; stop that one, or give this one another address (port 0 picks a free one)", address)
	case err != nil:
		err = fmt.Errorf("listen on %s: %w", address, err)
	}
	if err != nil {
		return nil, ExitError(ExitUsage, err)
	}
	return lis, nil
}
