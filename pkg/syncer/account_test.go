package syncer

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var onePodSpec = map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "a"}}}}}

// podsOf is an object of a kind that makes pods, and its copy as it was made for an account
// and a server; without an account there is no copy yet.
func podsOf(kind string, madeFor *Account, server Server) Input {
	in := situation{kind: kind, logical: "live", copy: "Synced"}.input()
	in.Logical.Object["spec"] = deepCopy(onePodSpec)
	in.Copy.Status.PhysicalUID = ""
	if madeFor != nil {
		in.Copy.Status.PhysicalUID = "p1"
		in.Physical = below(transformed(in.Logical, Placing{Ref: in.Ref, ControlPlane: controlPlane, Namespace: "shop-web-1", Account: madeFor, Server: server}))
		in.Physical.SetUID("p1")
	}
	return in
}

func TestPodsWaitForTheirAccountAndForWhatTheyMount(t *testing.T) {
	server, moved := Server{Host: "10.0.0.1", Port: "6443", CA: "ca"}, Server{Host: "10.0.0.2", Port: "6443", CA: "ca"}
	first, second := &Account{UID: "a1"}, &Account{UID: "a2"}
	none := func(Supplies) Supplies { return Supplies{} }
	for _, c := range []struct {
		name, kind string
		made       *Account
		madeFor    Server
		account    *Account
		server     Server
		missing    func(Supplies) Supplies
		want       string
	}{
		{"no way to the server, nothing is needed", "Deployment", nil, Server{}, nil, Server{}, none, "Apply Absent"},
		{"no account", "Deployment", nil, Server{}, nil, server, none, "WriteCopy Pending/NoServiceAccount"},
		{"no token", "Deployment", nil, Server{}, first, server, nil, "Supply"},
		{"all there", "Deployment", nil, Server{}, first, server, none, "Apply Absent"},
		{"the account is gone", "Deployment", first, server, nil, server, none, "WriteCopy Failed/NoServiceAccount"},
		{"the account is another one, without a token", "Deployment", first, server, second, server, nil, "Supply"},
		{"the account is another one, with a token", "Deployment", first, server, second, server, none, "Apply Changed to p1"},
		{"another way to the server", "Deployment", first, server, first, moved, none, "Apply Changed to p1"},
		{"a Job is not made again for another account", "Job", first, server, second, server, nil, "WriteCopy Synced/ServiceAccountReplaced"},
		{"nor for another way to the server", "Job", first, server, first, moved, nil, "WriteCopy Synced"},
		{"nor for the first one", "Job", first, Server{}, first, server, nil, "WriteCopy Synced"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := podsOf(c.kind, c.made, c.madeFor)
			in.Account, in.Server, in.Missing = c.account, c.server, c.missing
			if diff := cmp.Diff(c.want, describe(Plan(in))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAJobThatAsksThePhysicalClusterIsNotMadeAgain(t *testing.T) {
	withField := func(in Input) Input {
		container := list(field(field(field(in.Logical.Object, "spec"), "template"), "spec"), "containers")[0]
		container["env"] = []any{map[string]any{"name": "NS", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.namespace"}}}}
		return in
	}
	for kind, want := range map[string]string{"Job": "WriteCopy Synced", "Deployment": "Apply Changed to p1"} {
		in := withField(podsOf(kind, nil, Server{}))
		in.Physical = below(transformed(in.Logical, Placing{Ref: in.Ref, ControlPlane: controlPlane, Namespace: "shop-web-1", PlainFields: true}))
		in.Physical.SetUID("p1")
		if got := describe(Plan(in)); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}

func TestThePodsOfAnObjectMountABoundedNumberOfTokens(t *testing.T) {
	for n, want := range map[int]string{maxTokens: "Apply Absent", maxTokens + 1: "WriteCopy Failed/TooManyTokens"} {
		in := podsOf("Deployment", nil, Server{})
		in.Account, in.Missing = &Account{UID: "a1"}, func(Supplies) Supplies { return Supplies{} }
		var sources []any
		for i := range n {
			// One that is named twice counts once.
			source := map[string]any{"serviceAccountToken": map[string]any{"path": "t", "audience": fmt.Sprint("vault-", i)}}
			sources = append(sources, source, deepCopy(source))
		}
		field(field(field(in.Logical.Object, "spec"), "template"), "spec")["volumes"] = []any{map[string]any{"name": "v", "projected": map[string]any{"sources": sources}}}
		if got := describe(Plan(in)); got != want {
			t.Errorf("%d tokens: %s, want %s", n, got, want)
		}
	}
}

func TestATokenThatATemplateNamesNeedsNoWayToTheServer(t *testing.T) {
	in := podsOf("Deployment", nil, Server{})
	spec := field(field(field(in.Logical.Object, "spec"), "template"), "spec")
	spec["volumes"] = []any{map[string]any{"name": "v", "projected": map[string]any{"sources": []any{
		map[string]any{"serviceAccountToken": map[string]any{"path": "t", "audience": "vault"}},
	}}}}
	if got, want := describe(Plan(in)), "WriteCopy Pending/NoServiceAccount"; got != want {
		t.Errorf("without the account: %s, want %s", got, want)
	}
	in.Account = &Account{UID: "a1"}
	actions := Plan(in)
	if len(actions) != 1 || len(actions[0].Supplies.Tokens) != 1 || actions[0].Supplies.Tokens[0].Audience != "vault" || actions[0].Supplies.CA != "" {
		t.Errorf("with it: %+v", actions)
	}
}

func TestSecretsOfTokensDoNotCollide(t *testing.T) {
	names := map[string]bool{}
	for _, token := range []Token{
		{UID: "a"}, {UID: "b"}, tokenOf("a", "vault", 600), tokenOf("a", "vault", 601), tokenOf("a", "vaul", 600), tokenOf("b", "vault", 600),
	} {
		if names[token.Secret()] {
			t.Errorf("%+v has the Secret of another one", token)
		}
		names[token.Secret()] = true
		read, ok := TokenIn(TokenSecret("cp", Space{Cluster: "shop", Namespace: "web", Physical: "p"}, token, "x", time.Unix(1, 0), time.Unix(601, 0)))
		if diff := cmp.Diff(token, read); diff != "" || !ok {
			t.Errorf("read again (-want +got)\n%s", diff)
		}
	}
}

func tokenOf(uid types.UID, audience string, seconds int64) Token {
	return Token{UID: uid, TokenUse: workload.TokenUse{Audience: audience, Seconds: seconds}}
}

func TestATokenIsDueAtHalfItsLife(t *testing.T) {
	issued := time.Unix(1_000_000, 0)
	secret := TokenSecret("cp", Space{}, Token{}, "x", issued, issued.Add(time.Hour))
	for after, want := range map[time.Duration]SupplyStanding{
		0: SupplyGood, 29 * time.Minute: SupplyGood, 31 * time.Minute: SupplyDue, 59 * time.Minute: SupplyDue, time.Hour: SupplyExpired,
		-time.Hour: SupplyDue, // somebody's clock was wrong
	} {
		if got := StandingOf(secret, issued.Add(after)); got != want {
			t.Errorf("after %s: %s, want %s", after, got, want)
		}
	}
	if got := StandingOf(&unstructured.Unstructured{}, issued); got != SupplyExpired {
		t.Errorf("without a word about it: %s", got)
	}
}

func TestAccountsAreReadAsTheAPIHasThem(t *testing.T) {
	got := AccountFrom(parse(t, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {uid: u}\nautomountServiceAccountToken: false\nimagePullSecrets: [{name: a}, {name: b}]"))
	no := false
	if diff := cmp.Diff(&Account{UID: "u", Automount: &no, PullSecrets: []string{"a", "b"}}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if Keeps(target, parse(t, `{apiVersion: v1, kind: Pod, metadata: {annotations: {`+placementv1alpha1.TargetsAnnotation+`: '{"east":{"state":"Observed"}}'}}}`)) {
		t.Error("a mirror has a say in what is kept")
	}
}
