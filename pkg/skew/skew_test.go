package skew

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhoIsTooOldIsSaidWithBothVersionsAndTheWayOut(t *testing.T) {
	unsaid := Side{Revision: Unsaid, Oldest: Unsaid}
	for _, c := range []struct {
		name           string
		syncer, server Side
		want           Verdict
		says           []string
	}{
		{"the same build", Side{"v1", 2, 1}, Side{"v1", 2, 1}, Compatible, nil},
		{"a syncer from before the handshake", unsaid, Side{"v1", 2, 1}, Compatible, nil},
		{"a server from before the handshake", Side{"v1", 2, 1}, unsaid, Compatible, nil},
		{"a syncer of the oldest revision", Side{"v1", 2, 1}, Side{"v3", 4, 2}, Compatible, nil},
		{"a syncer of one before it", Side{"v1", 2, 1}, Side{"v4", 5, 3}, SyncerTooOld, []string{"v1 (revision 2)", "v4 (revision 5)", "revision 3 or later", "Upgrade the syncer"}},
		{"a syncer that says nothing", unsaid, Side{"v4", 5, 2}, SyncerTooOld, []string{"does not say its version (revision 1)", "v4 (revision 5)", "takes the header Atoll-Syncer off"}},
		{"a newer syncer that works with the server", Side{"v4", 5, 2}, Side{"v1", 2, 1}, Compatible, nil},
		{"a newer syncer that does not", Side{"v4", 5, 3}, Side{"v1", 2, 1}, ServerTooOld, []string{"v1 (revision 2)", "v4 (revision 5)", "revision 3 or later", "Upgrade all servers"}},
		{"a newer syncer and a server that says nothing", Side{"v4", 5, 2}, unsaid, ServerTooOld, []string{"does not say its version (revision 1)", "v4 (revision 5)"}},
		{"a claim of the latest revision that there can be", Side{"v9", 1<<31 - 1, 1}, Side{"v1", 2, 1}, Compatible, nil},
		{"a build that was never released", Side{"dev", 0, 0}, Side{"v1", 2, 1}, SyncerTooOld, []string{"dev (revision 0)"}},
		{"each refuses the other", Side{"v1", 2, 9}, Side{"v4", 5, 3}, SyncerTooOld, []string{"revision 3 or later"}},
	} {
		got, message := Between(c.syncer, c.server)
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if (got == Compatible) != (message == "") {
			t.Errorf("%s: %s says %q", c.name, got, message)
		}
		for _, part := range c.says {
			if !strings.Contains(message, part) {
				t.Errorf("%s: %q is not in %q", c.name, part, message)
			}
		}
	}
}

func TestWhatASideSaysIsReadAsItWasMeant(t *testing.T) {
	for _, s := range []Side{Current(), {"v0.3.1+abc_d", 7, 0}, {"dev", 1<<31 - 1, 1<<31 - 1}} {
		got, err := Read([]string{s.Header()})
		if diff := cmp.Diff(s, got); err != nil || diff != "" {
			t.Errorf("%+v (error %v): %s", s, err, diff)
		}
	}
	if got, err := Read(nil); err != nil || got != (Side{Revision: Unsaid, Oldest: Unsaid}) {
		t.Errorf("a build that says nothing: %+v, %v", got, err)
	}
	if got, err := Read([]string{"later=yes, build=v2,revision=3,oldest=2"}); err != nil || got != (Side{"v2", 3, 2}) {
		t.Errorf("one that says more: %+v, %v", got, err)
	}
}

func TestWhatMakesNoSenseIsReadAsNothingAndNotRepeated(t *testing.T) {
	const good = ", oldest=1, build=v1"
	for name, values := range map[string][]string{
		"empty":            {""},
		"twice":            {"revision=2" + good, "revision=2" + good},
		"no pairs":         {"hello"},
		"a key twice":      {"revision=2, revision=3" + good},
		"no revision":      {"oldest=1, build=v1"},
		"no oldest":        {"revision=2, build=v1"},
		"no build":         {"revision=2, oldest=1"},
		"negative":         {"revision=-1" + good},
		"signed":           {"revision=+2" + good},
		"no number":        {"revision=secret" + good},
		"a fraction":       {"revision=2.5" + good},
		"too large":        {"revision=2147483648" + good},
		"far too large":    {"revision=" + strings.Repeat("9", 100) + good},
		"oldest is later":  {"revision=2, oldest=3, build=v1"},
		"an empty build":   {"revision=2, oldest=1, build="},
		"an escape":        {"revision=2, oldest=1, build=v1\x1b[31m"},
		"a blank":          {"revision=2, oldest=1, build=v1 secret"},
		"a long build":     {"revision=2, oldest=1, build=" + strings.Repeat("v", 65)},
		"a long header":    {"revision=2" + good + ", x=" + strings.Repeat("v", 300)},
		"a megabyte of it": {strings.Repeat("revision=2,", 100_000)},
	} {
		got, err := Read(values)
		if err == nil || got.Revision > 3 {
			t.Errorf("%s: %+v, %v", name, got, err)
			continue
		}
		if len(err.Error()) > 200 || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: the error repeats it: %q", name, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(Current().Header())
	f.Add("revision=,oldest==,build")
	f.Fuzz(func(t *testing.T, value string) {
		s, err := Read([]string{value})
		if err != nil {
			return
		}
		again, err := Read([]string{s.Header()})
		if err != nil || again != s {
			t.Errorf("%q is read as %+v, and that as %+v (error %v)", value, s, again, err)
		}
		if verdict, message := Between(s, Current()); strings.ContainsAny(message, "\n\x1b") {
			t.Errorf("%s: %q", verdict, message)
		}
	})
}
