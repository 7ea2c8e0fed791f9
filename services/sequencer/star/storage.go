package star

import (
	"context"
	"errors"
	"fmt"

	"nova.internal/libs/api/novav1"
	"nova.internal/libs/coord"
	"nova.internal/libs/epoch"
	"nova.internal/libs/flightlog"
	"nova.internal/libs/runtime"
)

// openCopies opens, identifies and probes the copies of both classes. A copy that does not answer, or is
// not the store that the fleet knows, takes no part; a class that has no quorum left does not start.
func openCopies(ctx context.Context, s *Star) (map[novav1.Class]*flightlog.Copies, map[novav1.Class]*flightlog.Reader, error) {
	copies, readers := map[novav1.Class]*flightlog.Copies{}, map[novav1.Class]*flightlog.Reader{}
	for class, urls := range map[novav1.Class][]string{novav1.Class_CLASS_STANDARD: s.cfg.Standard, novav1.Class_CLASS_EXPRESS: s.cfg.Express} {
		set := &flightlog.Copies{Class: class}
		var faults []error
		for i, url := range urls {
			known := flightlog.NewKnown("")
			c, err := OpenCopy(ctx, s.fleet.Rows(), class, i, url, known)
			if err == nil {
				err = flightlog.Probe(ctx, c)
			}
			if err != nil {
				faults = append(faults, err)
				s.log.Warn("a copy takes no part for now", "class", flightlog.ClassName(class), "copy", url, "err", err)
			}
			if c == nil {
				c = flightlog.Away(url, err)
			}
			set.List = append(set.List, c)
			s.known[class] = append(s.known[class], known)
		}
		if len(urls)-len(faults) < set.Quorum() {
			return nil, nil, runtime.ExitError(runtime.ExitUsage, fmt.Errorf("class %s has no quorum of its %d copies: %w", flightlog.ClassName(class), len(urls), errors.Join(faults...)))
		}
		copies[class] = set
		readers[class] = flightlog.NewReader(set, func(copy, key string, err error) {
			s.report.badCopy(copy, key, err)
			s.repairers[class].ReadFault(copy, key, err)
		})
	}
	return copies, readers, nil
}

// OpenCopy opens the store at url as copy index of a class, guarded by the identity under which the fleet
// knows it. A fleet that knows none yet takes the store's own, making one for a blank store; the row's
// create-if-absent decides between stars that start at once. known is set to the identity, and may be set
// anew when the fleet admits another store.
func OpenCopy(ctx context.Context, rows *coord.Rows, class novav1.Class, index int, url string, known *flightlog.Known) (flightlog.Copy, error) {
	c, err := flightlog.OpenCopy(url)
	if err != nil {
		return nil, err
	}
	key := coord.CopyKey(class, index)
	row := &novav1.CopyRow{}
	_, err = rows.Get(ctx, key, row)
	if errors.Is(err, coord.ErrNotFound) {
		id, ferr := flightlog.Format(ctx, c)
		if ferr != nil {
			return nil, ferr
		}
		_, err = rows.Put(ctx, key, &novav1.CopyRow{Identity: id}, coord.Absent)
		if errors.Is(err, coord.ErrConflict) || err == nil {
			_, err = rows.Get(ctx, key, row)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read which store is copy %d of class %s: %w", index, flightlog.ClassName(class), err)
	}
	known.Set(row.GetIdentity())
	return flightlog.AdmitAs(c, known), nil
}

// fencing lets the fence of libs/epoch ask the copies of a dead chain.
type fencing struct{ *flightlog.Graveyard }

func (f fencing) Committed(ctx context.Context, floor uint64) (uint64, error) {
	return f.Graveyard.Committed(ctx, floor), nil
}

func (f fencing) Vote(ctx context.Context, slot uint64) (epoch.Votes, error) {
	v := f.Graveyard.Vote(ctx, slot)
	return epoch.Votes{Flight: v.Flight, Poison: v.Poison, Empty: v.Empty, Away: v.Away, Quorum: f.Quorum()}, nil
}
