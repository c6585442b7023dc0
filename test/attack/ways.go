package attack

import (
	"context"
	"errors"
)

// way is how hostile objects come.
type way struct {
	// begin is before the first of them, and send has one come.
	begin func(*site, context.Context, []down) error
	send  func(*site, context.Context, down) error
}

var (
	// made are hostile from the beginning.
	made = way{func(s *site, ctx context.Context, _ []down) error { return s.create(ctx, users) }, (*site).create}
	// changed were harmless before.
	changed = way{(*site).begin, (*site).update}
)

// sendsDown is the attack with hostile objects that come in some way to where known has made
// their kinds known. Where its control looks the fence is open, as an admin permits it; what
// nobody can permit, the admin of the physical cluster writes himself.
func sendsDown(name string, all func() []down, comes way, known func(*site, context.Context) error) Attack {
	at := func(ctx context.Context, w *World, physical string) (context.Context, *site, error) {
		ctx, s, err := w.siteAt(ctx, physical)
		if err == nil {
			err = known(s, ctx)
		}
		return ctx, s, err
	}
	return Attack{
		Name: name,
		Real: true,
		Fence: func(ctx context.Context, w *World) error {
			ctx, s, err := at(ctx, w, "east")
			if err != nil {
				return err
			}
			if err := comes.begin(s, ctx, all()); err != nil {
				return err
			}
			return s.keepsOut(ctx, all(), comes.send)
		},
		Control: func(ctx context.Context, w *World) (err error) {
			if err := w.trust(ctx, "west"); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, w.distrust(ctx, "west")) }()
			ctx, s, err := at(ctx, w, "west")
			if err != nil {
				return err
			}
			direct, err := s.directly(ctx)
			if err != nil {
				return err
			}
			permitted, never := byPermit(all())
			defer func() { err = errors.Join(err, direct.remove(ctx, never)) }()
			if err := errors.Join(comes.begin(s, ctx, permitted), comes.begin(direct, ctx, never)); err != nil {
				return err
			}
			return errors.Join(s.receives(ctx, permitted, comes.send), direct.receives(ctx, never, comes.send))
		},
	}
}

// knownAlready is of kinds of Kubernetes.
func knownAlready(*site, context.Context) error { return nil }
