// Package coordtest puts faults between coord and Oxia, for tests: at single calls (Faults, for
// coord.Config.Wrap) and on the wire (Proxy).
package coordtest
