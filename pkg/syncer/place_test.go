package syncer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestWhereACopyGoesIsWhatWasRecorded(t *testing.T) {
	object := func(uid types.UID) *unstructured.Unstructured {
		u := thing(targeted(`{"east":{}}`))
		u.SetUID(uid)
		return u
	}
	recorded := func(uid types.UID, namespace string) *placementv1alpha1.Copy {
		c := &placementv1alpha1.Copy{Status: placementv1alpha1.CopyStatus{PhysicalNamespace: namespace}}
		c.Spec.Object.UID = uid
		return c
	}
	named, unnamed := thing(targeted("{}"), called("of-namespace")), thing(targeted("{}"))
	made := thing()
	made.SetNamespace("of-made")
	for name, c := range map[string]struct {
		in              Input
		namespace, made *unstructured.Unstructured
		want            Place
	}{
		"nothing is known":                    {Input{}, nil, nil, Place{}},
		"a new object":                        {Input{Logical: object("a")}, named, nil, Place{Name: "of-namespace", UID: "u"}},
		"its namespace has no name yet":       {Input{Logical: object("a")}, unnamed, nil, Place{UID: "u"}},
		"an object with its Copy":             {Input{Logical: object("a"), Copy: recorded("a", "of-namespace")}, named, nil, Place{Name: "of-namespace", UID: "u"}},
		"an object whose namespace has none":  {Input{Logical: object("a"), Copy: recorded("a", "of-copy")}, unnamed, nil, Place{Name: "of-copy", UID: "u"}},
		"the namespace points elsewhere":      {Input{Logical: object("a"), Copy: recorded("a", "of-copy")}, named, nil, Place{Name: "of-copy", UID: "u", Disputed: true}},
		"the Copy of one that was made again": {Input{Logical: object("b"), Copy: recorded("a", "of-copy")}, named, nil, Place{Name: "of-copy", UID: "u"}},
		"the Copy of one that is gone":        {Input{Copy: recorded("a", "of-copy")}, named, nil, Place{Name: "of-copy", UID: "u"}},
		"the same without a namespace":        {Input{Copy: recorded("a", "of-copy")}, nil, nil, Place{Name: "of-copy"}},
		"a Copy that does not know":           {Input{Logical: object("b"), Copy: recorded("a", "")}, named, nil, Place{Name: "of-namespace", UID: "u"}},
		"a Copy whose object is elsewhere":    {Input{Logical: object("a"), Copy: recorded("a", "of-copy")}, named, made, Place{Name: "of-made", UID: "u", Disputed: true}},
	} {
		if diff := cmp.Diff(c.want, PlaceOf(c.in, c.namespace, c.made)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestAPhysicalNamespaceThatIsThereMayBeSomebodyElses(t *testing.T) {
	below := func(name, uid string, options ...option) *unstructured.Unstructured {
		u := thing(options...)
		u.SetName(name)
		u.SetAnnotations(map[string]string{placementv1alpha1.UIDAnnotation: uid})
		return u
	}
	for name, c := range map[string]struct {
		place Place
		below *unstructured.Unstructured
		want  NamespaceState
	}{
		"nothing":              {Place{Name: "n", UID: "u"}, nil, NamespaceAbsent},
		"another name":         {Place{Name: "n", UID: "u"}, below("m", "u"), NamespaceAbsent},
		"ours":                 {Place{Name: "n", UID: "u"}, below("n", "u"), NamespaceReady},
		"of another UID":       {Place{Name: "n", UID: "u"}, below("n", "v"), NamespaceNotOurs},
		"of any UID":           {Place{Name: "n"}, below("n", "v"), NamespaceReady},
		"in dispute":           {Place{Name: "n", UID: "u", Disputed: true}, below("n", "u"), NamespaceDisputed},
		"it is on its way out": {Place{Name: "n", UID: "u"}, below("n", "v", being), NamespaceTerminating},
	} {
		if got := c.place.In(c.below); got != (Namespace{Name: "n", State: c.want}) {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}

func TestANamespaceThatFailedIsTheFailureOfWhatIsInIt(t *testing.T) {
	c := &placementv1alpha1.Copy{Status: placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyFailed, Reason: "Forbidden", Message: "no"}}
	want := &Failure{Reason: "NamespaceForbidden", Message: "the physical namespace: no"}
	if diff := cmp.Diff(want, NamespaceFailed(c)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	c.Status.State = placementv1alpha1.CopyPending
	if f := NamespaceFailed(c); f != nil {
		t.Errorf("one that is on its way: %+v", f)
	}
}

func TestWhatMayStillBeInAPhysicalNamespaceKeepsIt(t *testing.T) {
	for name, c := range map[string]struct {
		state placementv1alpha1.CopyState
		place string
		want  bool
	}{
		"a copy in it":                  {placementv1alpha1.CopySynced, "n", true},
		"one that is on its way":        {placementv1alpha1.CopyRemoving, "n", true},
		"one that may be made there":    {placementv1alpha1.CopyPending, "", true},
		"one in another incarnation":    {placementv1alpha1.CopyPending, "m", false},
		"one that is gone":              {placementv1alpha1.CopyRemoved, "n", false},
		"one that is gone, or was none": {placementv1alpha1.CopyRemoved, "", false},
	} {
		copied := &placementv1alpha1.Copy{Status: placementv1alpha1.CopyStatus{State: c.state, PhysicalNamespace: c.place}}
		if got := KeepsNamespace(copied, "n"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAMirrorIsLookedForWhereItsNamespaceWasWhenItWasMade(t *testing.T) {
	at := func(second int64, options ...option) *unstructured.Unstructured {
		u := thing(options...)
		u.SetCreationTimestamp(metav1.Unix(second, 0))
		return u
	}
	for name, c := range map[string]struct {
		namespace *unstructured.Unstructured
		want      string
	}{
		"no namespace":                     {nil, ""},
		"one without a name":               {at(1, targeted("{}")), ""},
		"one from before":                  {at(1, targeted("{}"), called("n")), "n"},
		"one that was made again since":    {at(3, targeted("{}"), called("n")), ""},
		"one that was made in that second": {at(2, targeted("{}"), called("n")), ""},
	} {
		if got := PlaceOfMirror(at(2), c.namespace); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
