package limits

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func TestAKeySaysWhoseObjectItIs(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"/registry/configmaps/shop/default/a":                                 "shop 0",
		"/registry/namespaces/shop/web":                                       "shop 0",
		"/registry/services/specs/shop/default/a":                             "shop 0",
		"/registry/services/endpoints/shop/default/a":                         "shop 1",
		"/registry/copies/shop/web/a":                                         "shop 1",
		"/registry/events/shop/web/a":                                         "shop 1",
		"/registry/apiextensions.k8s.io/customresourcedefinitions/shop/a.b.c": "shop 2",
		"/registry/apiregistration.k8s.io/apiservices/shop/v1.b.c":            "shop 0",
		"/registry/stable.example.com/pods/shop/default/a":                    "shop 0",
		"/registry/stable.example.com/customresourcedefinitions/shop/a":       "shop 0",
		"/registry/configmaps/shop/":                                          "",
		"/registry/configmaps/shop":                                           "",
		"/registry/stable.example.com/things/shop":                            "",
		"/registry/ranges/serviceips":                                         "",
		"/registry/claims/shop/ip/10.96.0.9":                                  "",
		"compact_rev_key":                                                     "",
		"/registry/":                                                          "",
	} {
		got := ""
		if cluster, c, ok := parse(key); ok {
			got = fmt.Sprint(cluster, " ", int(c))
		}
		if got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// The dumb reference keeps everything and adds it up.
func TestTheTallyIsTheSumOfWhatIsThereHoweverOftenAnEventComes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	tally, there := newTally(), map[string]int64{}
	for range 20_000 {
		key := fmt.Sprintf("/registry/%s/c%d/ns/n%d", []string{"configmaps", "pods", "apiextensions.k8s.io/customresourcedefinitions"}[random.IntN(3)], random.IntN(4), random.IntN(200))
		bytes := int64(random.IntN(5) * 100)
		tally.set(key, bytes)
		if there[key] = bytes; bytes == 0 {
			delete(there, key)
		}
		if random.IntN(3) == 0 {
			tally.set(key, bytes) // an event after its own write
		}
	}
	want := map[string][classes]amount{}
	for key, bytes := range there {
		cluster, c, _ := parse(key)
		all := want[cluster]
		all[c].count++
		all[c].bytes += bytes
		want[cluster] = all
	}
	for cluster, use := range want {
		if got := tally.use(cluster); got != use {
			t.Errorf("%s: %v, want %v", cluster, got, use)
		}
	}
	for key := range there {
		tally.set(key, 0)
	}
	if len(tally.kept)+len(tally.sizes) != 0 {
		t.Errorf("nothing is there, and %d logical clusters and %d objects are remembered", len(tally.kept), len(tally.sizes))
	}
}

func TestWhatWasWrittenCountsForFiveToTenMinutes(t *testing.T) {
	t.Parallel()
	now, r := time.Unix(1_000_000, 0), recent{}
	key := "/registry/configmaps/shop/default/a"
	r.take(now, key, 100)
	r.take(now.Add(4*time.Minute), key, 10)
	for _, after := range []time.Duration{4 * time.Minute, 9 * time.Minute} {
		if got := r.of(now.Add(after), "shop")[objects]; got != 110 {
			t.Errorf("after %v: %d, want 110", after, got)
		}
	}
	r.take(now.Add(9*time.Minute), key, 1)
	if got := r.of(now.Add(10*time.Minute), "shop")[objects]; got != 1 {
		t.Errorf("after ten minutes: %d, want 1", got)
	}
	if got := r.of(now.Add(time.Hour), "shop")[objects]; got != 0 {
		t.Errorf("after an hour: %d", got)
	}
	if got := r.of(now.Add(time.Hour), "other")[objects]; got != 0 {
		t.Errorf("of another logical cluster: %d", got)
	}
}

func TestPagesHaveAFewMiB(t *testing.T) {
	t.Parallel()
	page := int64(minPage)
	for range 20 {
		page = nextPage(page, page*200)
	}
	if page != maxPage {
		t.Errorf("pages of small objects have %d", page)
	}
	for range 20 {
		page = nextPage(page, page*mib)
	}
	if page != minPage {
		t.Errorf("pages of large objects have %d", page)
	}
}
