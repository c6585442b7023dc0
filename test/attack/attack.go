package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"
)

// Attack is one thing that somebody hostile tries.
type Attack struct {
	// Name is a sentence of what holds.
	Name string
	// Fence fails if the attack succeeds.
	Fence func(context.Context, *World) error
	// Control fails if the attack does not bite without the fence. It runs after Fence,
	// and is nil where there is no way to do without.
	Control func(context.Context, *World) error
	// Real says that it is for processes only: it needs physical clusters to look at, see
	// World.Physical, or a server with file descriptors of its own, or takes too long for a test.
	Real bool
}

// timeout bounds each half of an attack.
const timeout = 3 * time.Minute

// All are the attacks.
func All() []Attack {
	return []Attack{
		documents, names, endpoints, backends, metadata, tunnels, tokens, certificates, former,
		endlessWebhook, redirectingWebhook, endlessConversion, endlessAggregated, redirectingPhysicalCluster, inventedObjects, endlessList,
		elsewhere, longSelector, privileged, hoard, history, nobodysHistory, schemas, expressions, matchConditions, schemaRules, schemaPatterns,
		overrides, patches, permits, podReviews, injected, variables, operations, grown, floods,
		handles, reportedVolumes, secretAttributes, reports, lingers, rings, tenantsManifests, carriedElsewhere,
		boundaries, later, clashes, plantedMarks, declaredKinds, declaredLater, hostNames, writtenEndpoints, neighbours, ports, ownEnds, headers, idle, slow, hanging, watches, crowd,
		claims, hides, // the last: what they draw takes the room for a minute, of processors and of memory
	}
}

// Try runs one attack and its control.
func (a Attack) Try(ctx context.Context, w *World) error {
	if err := bounded(ctx, w, a.Fence); err != nil {
		return err
	}
	if a.Control == nil {
		return nil
	}
	if err := bounded(ctx, w, a.Control); err != nil {
		return fmt.Errorf("without the fence: %w", err)
	}
	return nil
}

func bounded(ctx context.Context, w *World, half func(context.Context, *World) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return half(ctx, w)
}

// Run tries the attacks whose names match, says of each how it went, and in one closing line
// how many held.
func Run(ctx context.Context, w *World, only *regexp.Regexp, out io.Writer) error {
	all := slices.DeleteFunc(All(), func(a Attack) bool { return !only.MatchString(a.Name) })
	if len(all) == 0 {
		return fmt.Errorf("no attack is named like %q", only)
	}
	held := 0
	for _, a := range all {
		if err := a.Try(ctx, w); err != nil {
			fmt.Fprintf(out, "BROKEN %s: %v\n", a.Name, err)
			continue
		}
		held++
		fmt.Fprintf(out, "held   %s\n", a.Name)
	}
	fmt.Fprintf(out, "%d of %d attacks held\n", held, len(all))
	if held < len(all) {
		return errors.New("not all attacks held")
	}
	return nil
}

// eventually polls until check returns no error, or until ctx ends.
func eventually(ctx context.Context, what string, check func() error) error {
	var last error // of a check that had the time to end
	for {
		err := check()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil && last != nil {
			return fmt.Errorf("%s: %w (%w)", what, last, err)
		}
		last = err
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
