package flightlog

import (
	"context"
	"fmt"
	"iter"
)

// awayCopy stands for a store that could not be opened: every call fails with the reason, so it neither
// votes nor takes puts.
type awayCopy struct {
	name string
	why  error
}

// Away returns a copy that takes no part, and why.
func Away(name string, why error) Copy { return awayCopy{name, why} }

func (a awayCopy) Name() string { return a.name }

func (a awayCopy) err() error { return fmt.Errorf("copy %s takes no part: %w", a.name, a.why) }

func (a awayCopy) Put(context.Context, string, ...[]byte) error { return a.err() }
func (a awayCopy) Overwrite(context.Context, string, ...[]byte) error {
	return a.err()
}
func (a awayCopy) Get(context.Context, string) ([]byte, error) { return nil, a.err() }
func (a awayCopy) Confirm(context.Context, string) error       { return a.err() }
func (a awayCopy) Delete(context.Context, string) error        { return a.err() }
func (a awayCopy) GetRange(context.Context, string, int64, int64) ([]byte, error) {
	return nil, a.err()
}
func (a awayCopy) List(context.Context, string, string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) { yield(Object{}, a.err()) }
}
