package limits

import (
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
)

func TestAWriteIsDecidedByWhoWritesWhat(t *testing.T) {
	t.Parallel()
	l := of(tenancy.LogicalClusterLimits{Objects: 100, Bytes: resource.NewQuantity(1000, resource.BinarySI), Definitions: 10,
		DefinitionBytes: resource.NewQuantity(500, resource.BinarySI), WrittenBytes: resource.NewQuantity(10_000, resource.BinarySI)})
	full := func(c class, count, bytes int64) (use [classes]amount) {
		use[c] = amount{count, bytes}
		return use
	}
	wrote := func(c class, bytes int64) (w [classes]int64) {
		w[c] = bytes
		return w
	}
	for name, c := range map[string]struct {
		w       write
		use     [classes]amount
		written [classes]int64
		want    string
	}{
		"the first object":                         {w: write{after: 10}},
		"the last object":                          {w: write{after: 10}, use: full(objects, 99, 10)},
		"one object more":                          {w: write{after: 10}, use: full(objects, 100, 10), want: "objects"},
		"one record beside many objects":           {w: write{class: records, after: 10}, use: full(objects, 100, 1000)},
		"one record more":                          {w: write{class: records, after: 10}, use: full(records, 100, 10), want: "objects"},
		"one definition more":                      {w: write{class: definitions, after: 10}, use: full(definitions, 10, 10), want: "definitions"},
		"a definition that is too long":            {w: write{class: definitions, after: 10}, use: full(definitions, 1, 491), want: "definitionBytes"},
		"the last bytes":                           {w: write{after: 10}, use: full(objects, 9, 990)},
		"one byte more":                            {w: write{after: 11}, use: full(objects, 9, 990), want: "bytes"},
		"growing a little at the limit":            {w: write{before: 10, after: 60}, use: full(objects, 100, 1000)},
		"growing more":                             {w: write{before: 10, after: 111}, use: full(objects, 100, 1000), want: "bytes"},
		"shrinking over the limit":                 {w: write{before: 60, after: 59}, use: full(objects, 200, 9000)},
		"the same size over the limit":             {w: write{before: 60, after: 60}, use: full(objects, 200, 9000)},
		"a deletion that waits":                    {w: write{ending: true, before: 60, after: 99}, use: full(objects, 200, 9000), written: wrote(objects, 1<<40)},
		"a record of a syncer at the limit":        {w: write{by: bySyncer, class: records, after: 10}, use: full(records, 100, 10)},
		"a record of a syncer over the reserve":    {w: write{by: bySyncer, class: records, after: 10}, use: full(records, 150, 10), want: "objects"},
		"bytes of a syncer over the reserve":       {w: write{by: bySyncer, class: records, after: 10}, use: full(records, 1, 1500), want: "bytes"},
		"a status by the system over any limit":    {w: write{by: bySystem, before: 10, after: 99}, use: full(objects, 200, 9000)},
		"an object of the system over the reserve": {w: write{by: bySystem, after: 10}, use: full(objects, 150, 10), want: "objects"},
		"much was written":                         {w: write{before: 60, after: 10}, written: wrote(objects, 9_991), want: "writtenBytes"},
		"much was written of another class":        {w: write{before: 60, after: 10}, written: wrote(records, 1<<40)},
		"much was written, by a syncer":            {w: write{by: bySyncer, class: records, before: 60, after: 10}, written: wrote(records, 14_990)},
		"too much was written, by a syncer":        {w: write{by: bySyncer, class: records, before: 60, after: 10}, written: wrote(records, 14_991), want: "writtenBytes"},
		"much was written, by the system":          {w: write{by: bySystem, before: 60, after: 10}, written: wrote(objects, 1<<40)},
	} {
		got := ""
		if e := decide(c.w, c.use, c.written, l); e != nil {
			got = e.field
		}
		if got != c.want {
			t.Errorf("%s: refused by %q, want %q", name, got, c.want)
		}
		if e := decide(c.w, c.use, c.written, unlimited()); e != nil {
			t.Errorf("%s: root is refused by %s", name, e.field)
		}
	}
}

func TestARefusalNamesTheLimitAndTheWayOut(t *testing.T) {
	t.Parallel()
	l := of(tenancy.LogicalClusterLimits{Objects: 3})
	err := decide(write{after: 1}, [classes]amount{objects: {3, 30}}, [classes]int64{}, l).refusal("shop")
	want := `logical cluster "shop" has 3 objects, and spec.limits.objects of its LogicalCluster permits 3: delete what is not needed, or ask an admin of the control plane for more`
	if err.Error() != want || !apierrors.IsForbidden(err) || err.Status().Details.Causes[0].Field != "spec.limits.objects" {
		t.Errorf("%+v", err.Status())
	}
	err = decide(write{after: 1}, [classes]amount{}, [classes]int64{objects: none}, l).refusal("shop")
	if err.Status().Details.RetryAfterSeconds != 0 || !apierrors.IsTooManyRequests(err) || err.Status().Code != http.StatusTooManyRequests || !strings.Contains(err.Error(), "spec.limits.writtenBytes") {
		t.Errorf("%+v", err.Status())
	}
}

func TestLimitsAreDefaultsUnlessAnAdminSaysMoreOrUnlimited(t *testing.T) {
	t.Parallel()
	d := of(tenancy.LogicalClusterLimits{Bytes: resource.NewQuantity(0, resource.BinarySI)})
	if d.kept[objects] != (amount{20_000, 256 << 20}) || d.kept[records] != d.kept[objects] || d.kept[definitions] != (amount{500, 64 << 20}) || d.written != 1<<30 || d.watches != 2000 {
		t.Errorf("%+v", d)
	}
	minus := resource.NewQuantity(tenancy.Unlimited, resource.BinarySI)
	if u := of(tenancy.LogicalClusterLimits{Objects: -1, Bytes: minus, Definitions: -1, DefinitionBytes: minus, WrittenBytes: minus, Watches: -1}); u != unlimited() {
		t.Errorf("%+v", u)
	}
}

func TestAStatusIsWrittenForWhatSomebodyWouldNotice(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	l := of(tenancy.LogicalClusterLimits{Objects: 100})
	at := func(age time.Duration, count int64) *tenancy.LogicalClusterUsage {
		u := usage([classes]amount{objects: {count, count * 10}}, now.Add(-age))
		return &u
	}
	for name, c := range map[string]struct {
		before *tenancy.LogicalClusterUsage
		is     int64
		want   bool
	}{
		"never written":                  {nil, 0, true},
		"the same, long ago":             {at(time.Hour, 50), 50, false},
		"a little more":                  {at(time.Minute, 50), 51, false},
		"a little more since a while":    {at(5*time.Minute, 50), 51, true},
		"much more":                      {at(time.Minute, 50), 56, true},
		"much less":                      {at(time.Minute, 50), 44, true},
		"at the limit":                   {at(time.Minute, 99), 100, true},
		"not at the limit any more":      {at(time.Minute, 100), 99, true},
		"a little more over the limit":   {at(time.Minute, 101), 102, false},
		"a status from after this clock": {&tenancy.LogicalClusterUsage{ObservedTime: metav1.NewTime(now.Add(time.Hour))}, 1, true},
	} {
		if got := worthReporting(c.before, [classes]amount{objects: {c.is, c.is * 10}}, l, now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
