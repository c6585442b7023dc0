package names_test

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/names"
)

// step changes a zone.
type step func(*names.Zone)

// here sets a Service of the namespace web that is on this physical cluster, and elsewhere one
// that is imported.
func here(s *corev1.Service, slices ...*discoveryv1.EndpointSlice) step {
	return func(z *names.Zone) { z.SetService(names.ServiceFrom("web", s, slices)) }
}

func elsewhere(retired bool, s *corev1.Service, slices ...*discoveryv1.EndpointSlice) step {
	return func(z *names.Zone) { z.SetImport(names.ServiceFrom("web", s, slices), retired) }
}

const imported, retired = false, true

func TestAnImportGoesBeforeTheServiceThatIsThereUntilItIsRetired(t *testing.T) {
	const (
		api, pets, pod = "api.web.svc.cluster.local. A", "pets.web.svc.cluster.local. A", "pet-0.pets.web.svc.cluster.local. A"
		server         = "kubernetes.default.svc.cluster.local. A"
		none           = "NXDOMAIN"
	)
	var (
		apiHere, apiElsewhere   = service("api", "10.96.0.10", "http/tcp/80"), service("api", "10.97.0.10", "http/tcp/80")
		petsHere, petsElsewhere = service("pets", "None", "http/tcp/80"), service("pets", "None", "http/tcp/80")
		podHere, podElsewhere   = slice("http/tcp/80", "10.1.0.1 pet-0"), slice("http/tcp/80", "10.2.0.1 pet-0")
		noApiHere               = func(z *names.Zone) { z.DeleteService("web", "api") }
		noApiElsewhere          = func(z *names.Zone) { z.DeleteImport("web", "api") }
		noWeb                   = func(z *names.Zone) { z.DeleteNamespace("web") }
		theServer               = func(z *names.Zone) { z.SetServer(names.Server{Host: "192.168.9.9", Port: 6443}) }
		serversName             = func(retired bool) step {
			return func(z *names.Zone) {
				z.SetImport(names.ServiceFrom("default", service("kubernetes", "10.96.6.6", "https/tcp/443"), nil), retired)
			}
		}
	)
	for name, c := range map[string]struct {
		steps    []step
		question string
		want     string
	}{
		"an import":        {[]step{elsewhere(imported, apiElsewhere)}, api, "10.97.0.10"},
		"a retired import": {[]step{elsewhere(retired, apiElsewhere)}, api, "10.97.0.10"},
		"the import is made before the copy goes":       {[]step{here(apiHere), elsewhere(imported, apiElsewhere)}, api, "10.97.0.10"},
		"and stays when it has gone":                    {[]step{here(apiHere), elsewhere(imported, apiElsewhere), noApiHere}, api, "10.97.0.10"},
		"the copy comes before the import is retired":   {[]step{elsewhere(imported, apiElsewhere), here(apiHere)}, api, "10.97.0.10"},
		"the import is retired":                         {[]step{elsewhere(imported, apiElsewhere), here(apiHere), elsewhere(retired, apiElsewhere)}, api, "10.96.0.10"},
		"and gone":                                      {[]step{elsewhere(retired, apiElsewhere), here(apiHere), noApiElsewhere}, api, "10.96.0.10"},
		"the copy goes again":                           {[]step{here(apiHere), elsewhere(retired, apiElsewhere), noApiHere}, api, "10.97.0.10"},
		"the import is wanted again":                    {[]step{here(apiHere), elsewhere(retired, apiElsewhere), elsewhere(imported, apiElsewhere)}, api, "10.97.0.10"},
		"the physical namespace goes":                   {[]step{here(apiHere), elsewhere(retired, apiElsewhere), noWeb}, api, "10.97.0.10"},
		"all have gone":                                 {[]step{here(apiHere), elsewhere(imported, apiElsewhere), noApiHere, noApiElsewhere}, api, none},
		"an import that never was is removed":           {[]step{here(apiHere), noApiElsewhere}, api, "10.96.0.10"},
		"headless: the pods of the import":              {[]step{here(petsHere, podHere), elsewhere(imported, petsElsewhere, podElsewhere)}, pets, "10.2.0.1"},
		"headless: a pod of the import":                 {[]step{here(petsHere, podHere), elsewhere(imported, petsElsewhere, podElsewhere)}, pod, "10.2.0.1"},
		"headless: the pods that are here":              {[]step{here(petsHere, podHere), elsewhere(retired, petsElsewhere, podElsewhere)}, pets, "10.1.0.1"},
		"headless: a pod that is here":                  {[]step{here(petsHere, podHere), elsewhere(retired, petsElsewhere, podElsewhere)}, pod, "10.1.0.1"},
		"headless: an import without pods":              {[]step{here(petsHere, podHere), elsewhere(imported, petsElsewhere)}, pets, none},
		"no import replaces the server":                 {[]step{theServer, serversName(imported)}, server, "192.168.9.9"},
		"no retired import replaces the server":         {[]step{theServer, serversName(retired)}, server, "192.168.9.9"},
		"an import of another namespace is no obstacle": {[]step{serversName(imported), here(apiHere)}, api, "10.96.0.10"},
	} {
		z := names.NewZone()
		for _, s := range c.steps {
			s(z)
		}
		want := []string{c.question + " " + c.want}
		if c.want == none {
			want = []string{none}
		}
		if diff := cmp.Diff(want, said(ask(z, c.question))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestAnAddressHasItsNameUntilNeitherServiceNorImportGivesIt(t *testing.T) {
	const (
		shared, here1, elsewhere1 = "1.0.1.10.in-addr.arpa. PTR", "2.0.1.10.in-addr.arpa. PTR", "3.0.1.10.in-addr.arpa. PTR"
		address, theirs           = "10.0.96.10.in-addr.arpa. PTR", "10.0.97.10.in-addr.arpa. PTR"
		pet0, pet1, api           = " pet-0.pets.web.svc.cluster.local.", " pet-1.pets.web.svc.cluster.local.", " api.web.svc.cluster.local."
		none                      = "NXDOMAIN"
	)
	pets := service("pets", "None", "http/tcp/80")
	both := func(retired bool) []step {
		return []step{
			here(pets, slice("http/tcp/80", "10.1.0.1 pet-0", "10.1.0.2 pet-1")),
			elsewhere(retired, pets, slice("http/tcp/80", "10.1.0.1 pet-0", "10.1.0.3 pet-1")),
			here(service("api", "10.96.0.10", "http/tcp/80")),
			elsewhere(retired, service("api", "10.97.0.10", "http/tcp/80")),
		}
	}
	for name, c := range map[string]struct {
		then []step
		want map[string]string
	}{
		"both": {nil, map[string]string{shared: pet0, here1: pet1, elsewhere1: pet1, address: api, theirs: api}},
		"the Service goes": {
			[]step{func(z *names.Zone) { z.DeleteService("web", "pets"); z.DeleteService("web", "api") }},
			map[string]string{shared: pet0, here1: none, elsewhere1: pet1, address: none, theirs: api},
		},
		"the namespace goes": {
			[]step{func(z *names.Zone) { z.DeleteNamespace("web") }},
			map[string]string{shared: pet0, here1: none, elsewhere1: pet1, address: none, theirs: api},
		},
		"the import goes": {
			[]step{func(z *names.Zone) { z.DeleteImport("web", "pets"); z.DeleteImport("web", "api") }},
			map[string]string{shared: pet0, here1: pet1, elsewhere1: none, address: api, theirs: none},
		},
		"the import loses a pod": {
			[]step{elsewhere(imported, pets, slice("http/tcp/80", "10.1.0.3 pet-1"))},
			map[string]string{shared: pet0, here1: pet1, elsewhere1: pet1, address: api, theirs: api},
		},
		"both lose it": {
			[]step{elsewhere(imported, pets), here(pets)},
			map[string]string{shared: none, here1: none, elsewhere1: none, address: api, theirs: api},
		},
		"both go, the import twice": {
			[]step{func(z *names.Zone) {
				z.DeleteImport("web", "pets")
				z.DeleteNamespace("web")
				z.DeleteImport("web", "pets")
			}},
			map[string]string{shared: none, here1: none, elsewhere1: none, address: none, theirs: api},
		},
		"both, again and again": {
			append(both(imported), append(both(retired), func(z *names.Zone) { z.DeleteNamespace("web"); z.DeleteImport("web", "pets") })...),
			map[string]string{shared: none, here1: none, elsewhere1: none, address: none, theirs: api},
		},
	} {
		for _, retired := range []bool{imported, retired} {
			z := names.NewZone()
			for _, s := range append(both(retired), c.then...) {
				s(z)
			}
			got, want := map[string][]string{}, map[string][]string{}
			for question, answer := range c.want {
				got[question] = said(ask(z, question))
				want[question] = []string{question + answer}
				if answer == none {
					want[question] = []string{none}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, retired %v (-want +got)\n%s", name, retired, diff)
			}
		}
	}
}

func TestANamespaceExistsByItsImports(t *testing.T) {
	const namespace, pod, nobody = "web.svc.cluster.local. A", "10-1-2-3.web.pod.cluster.local. A", "nobody.web.svc.cluster.local. A"
	api := service("api", "10.97.0.10", "http/tcp/80")
	none := []string{"NXDOMAIN"}
	for _, c := range []struct {
		steps  []step
		exists bool
		empty  bool
	}{
		{nil, false, true},
		{[]step{elsewhere(imported, api)}, true, false},
		{[]step{elsewhere(retired, api)}, true, false},
		{[]step{elsewhere(imported, api), func(z *names.Zone) { z.DeleteNamespace("web") }}, true, false},
		{[]step{elsewhere(imported, api), func(z *names.Zone) { z.DeleteImport("web", "other") }}, true, false},
		{[]step{elsewhere(imported, api), func(z *names.Zone) { z.DeleteImport("web", "api") }}, false, true},
		{[]step{elsewhere(imported, api), here(api), func(z *names.Zone) { z.DeleteImport("web", "api") }}, true, false},
	} {
		z := names.NewZone()
		for _, s := range c.steps {
			s(z)
		}
		got := map[string][]string{namespace: said(ask(z, namespace)), pod: said(ask(z, pod)), nobody: said(ask(z, nobody))}
		want := map[string][]string{namespace: none, pod: none, nobody: none}
		if c.exists {
			want[namespace], want[pod] = nil, []string{pod + " 10.1.2.3"}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d steps (-want +got)\n%s", len(c.steps), diff)
		}
		if z.Empty() != c.empty {
			t.Errorf("%d steps: empty is %v", len(c.steps), z.Empty())
		}
	}
}

// api is an import.
func api() names.Imported {
	return names.Imported{Tenant: names.Tenant{ControlPlane: "cp", Cluster: "shop"}, Namespace: "web", Name: "api"}
}

func TestAnImportIsReadAsItWasMarked(t *testing.T) {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: api().ServiceName(), Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}}}
	for _, retired := range []bool{false, true, false} {
		want := api()
		want.Retired = retired
		want.Mark(s)
		if got, ok := names.ImportOf(s); !ok || got != want {
			t.Errorf("%+v %v, want %+v", got, ok, want)
		}
	}
	want := metav1.ObjectMeta{
		Name:   api().ServiceName(),
		Labels: map[string]string{"a": "b", "atoll.dev/import": "cp", "atoll.dev/managed-by": "cp"},
		Annotations: map[string]string{
			"c": "d", "atoll.dev/logical-cluster": "shop", "atoll.dev/namespace": "web", "atoll.dev/service": "api",
		},
	}
	if diff := cmp.Diff(want, s.ObjectMeta); diff != "" {
		t.Error(diff)
	}
	if !regexp.MustCompile(`^atoll-import-[0-9a-f]{20}$`).MatchString(api().ServiceName()) {
		t.Error(api().ServiceName())
	}
	kept := map[string]bool{}
	for _, key := range names.Annotations() {
		kept[key] = true
	}
	retired := api()
	retired.Retired = true
	retired.Mark(s)
	for key := range s.Annotations {
		if key != "c" && !kept[key] {
			t.Errorf("%s is written, and not kept", key)
		}
	}
}

func TestMarkLeavesWhatItsMapsAreOf(t *testing.T) {
	labels, annotations := map[string]string{}, map[string]string{}
	api().Mark(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}})
	if len(labels)+len(annotations) > 0 {
		t.Errorf("%v %v", labels, annotations)
	}
}

func TestImportsOfOtherServicesHaveOtherNames(t *testing.T) {
	seen := map[string]names.Imported{}
	for _, i := range []names.Imported{
		api(),
		{Tenant: names.Tenant{ControlPlane: "other", Cluster: "shop"}, Namespace: "web", Name: "api"},
		{Tenant: names.Tenant{ControlPlane: "cp", Cluster: "bank"}, Namespace: "web", Name: "api"},
		{Tenant: names.Tenant{ControlPlane: "cp", Cluster: "shop"}, Namespace: "other", Name: "api"},
		{Tenant: names.Tenant{ControlPlane: "cp", Cluster: "shop"}, Namespace: "web", Name: "other"},
		{Tenant: names.Tenant{ControlPlane: "cp", Cluster: "shop"}, Namespace: "we", Name: "bapi"},
		{Tenant: names.Tenant{ControlPlane: "cps", Cluster: "hop"}, Namespace: "web", Name: "api"},
	} {
		if other, ok := seen[i.ServiceName()]; ok {
			t.Errorf("%+v and %+v are both %s", i, other, i.ServiceName())
		}
		seen[i.ServiceName()] = i
		retired := i
		retired.Retired = true
		if retired.ServiceName() != i.ServiceName() {
			t.Errorf("%+v has another name when it is retired", i)
		}
	}
}

func TestNobodyElsesServiceIsTakenForAnImport(t *testing.T) {
	for name, change := range map[string]func(*corev1.Service){
		"another name":               func(s *corev1.Service) { s.Name = "api" },
		"the name of another import": func(s *corev1.Service) { s.Annotations["atoll.dev/service"] = "other" },
		"another namespace":          func(s *corev1.Service) { s.Annotations["atoll.dev/namespace"] = "other" },
		"another logical cluster":    func(s *corev1.Service) { s.Annotations["atoll.dev/logical-cluster"] = "bank" },
		"another control plane": func(s *corev1.Service) {
			s.Labels[names.ImportLabel], s.Labels[placementv1alpha1.ManagedByLabel] = "other", "other"
		},
		"of another control plane": func(s *corev1.Service) { s.Labels[placementv1alpha1.ManagedByLabel] = "other" },
		"no control plane":         func(s *corev1.Service) { delete(s.Labels, placementv1alpha1.ManagedByLabel) },
		"no label":                 func(s *corev1.Service) { delete(s.Labels, names.ImportLabel) },
		"nothing":                  func(s *corev1.Service) { s.Labels, s.Annotations = nil, nil },
		"a copy": func(s *corev1.Service) {
			delete(s.Labels, names.ImportLabel)
			delete(s.Annotations, "atoll.dev/service")
		},
	} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: api().ServiceName()}}
		api().Mark(s)
		change(s)
		if i, ok := names.ImportOf(s); ok || i != (names.Imported{}) {
			t.Errorf("%s: taken for %+v", name, i)
		}
	}
	// The name fits, but something is missing.
	for _, i := range []names.Imported{
		{Tenant: names.Tenant{Cluster: "shop"}, Namespace: "web", Name: "api"},
		{Tenant: names.Tenant{ControlPlane: "cp"}, Namespace: "web", Name: "api"},
		{Tenant: names.Tenant{ControlPlane: "cp", Cluster: "shop"}, Name: "api"},
		{Tenant: names.Tenant{ControlPlane: "cp", Cluster: "shop"}, Namespace: "web"},
	} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: i.ServiceName()}}
		i.Mark(s)
		if got, ok := names.ImportOf(s); ok {
			t.Errorf("%+v is taken for %+v", i, got)
		}
	}
}
