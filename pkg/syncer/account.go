package syncer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Account is a service account of the logical cluster, as far as pods depend on it.
type Account struct {
	UID types.UID
	// Automount is what it says of the token that every pod mounts; nil says nothing.
	Automount *bool
	// PullSecrets are the names of Secrets for pods that name none.
	PullSecrets []string
}

// AccountFrom reads a ServiceAccount.
func AccountFrom(obj *unstructured.Unstructured) *Account {
	a := &Account{UID: obj.GetUID()}
	if automount, ok := obj.Object["automountServiceAccountToken"].(bool); ok {
		a.Automount = &automount
	}
	for _, s := range list(obj.Object, "imagePullSecrets") {
		if name, _ := s["name"].(string); name != "" {
			a.PullSecrets = append(a.PullSecrets, name)
		}
	}
	return a
}

func (a *Account) automount() *bool {
	if a == nil {
		return nil
	}
	return a.Automount
}

// Token is one that pods mount, of an account in one of its lives.
type Token struct {
	workload.TokenUse
	UID types.UID
}

// Secret is the name of the Secret below that holds it: the same for all templates of the
// namespace that mount it.
func (t Token) Secret() string {
	b, err := json.Marshal([]string{string(t.UID), t.Audience, strconv.FormatInt(t.Seconds, 10)})
	if err != nil {
		panic(err) // strings can be encoded
	}
	sum := sha256.Sum256(b)
	return secretPrefix + hex.EncodeToString(sum[:8])
}

const secretPrefix = "atoll-token-"

// Supplies are what pods below mount that nobody wrote above: it is made for them, before
// them.
type Supplies struct {
	// Tokens, each in a Secret.
	Tokens []Token
	// CA is the certificate authority of the control plane; empty if nobody needs it.
	CA string
	// Nameserver says that who answers with names of the logical cluster is to be found.
	Nameserver bool
}

// Empty says that nothing is needed.
func (s Supplies) Empty() bool { return len(s.Tokens) == 0 && s.CA == "" && !s.Nameserver }

// AccountName is the account that has to be known before the pods of an object are made;
// empty if they need no token of it.
func AccountName(kind workload.Kind, obj *unstructured.Unstructured, server Server) string {
	content := obj.Object
	if !server.Reached() {
		content = withoutMount(kind, content)
	}
	uses := workload.Tokens(kind, content, nil)
	if len(uses) == 0 {
		return ""
	}
	return uses[0].Account
}

// withoutMount is an object whose pods have no token but those that they name.
func withoutMount(kind workload.Kind, obj map[string]any) map[string]any {
	if len(workload.PodTemplates(kind, obj)) == 0 {
		return obj
	}
	out := copyMap(obj)
	for _, t := range workload.PodTemplates(kind, out) {
		if spec := field(t, "spec"); spec != nil {
			spec["automountServiceAccountToken"] = false
		}
	}
	return out
}

// Needs are what the pods of an object need of an account, when they are on a physical
// cluster from which the control plane is reached in a way.
func Needs(kind workload.Kind, obj *unstructured.Unstructured, account *Account, server Server) Supplies {
	content := obj.Object
	if !server.Reached() {
		content = withoutMount(kind, content)
	}
	var s Supplies
	if account != nil {
		for _, use := range workload.Tokens(kind, content, account.Automount) {
			s.Tokens = append(s.Tokens, Token{TokenUse: use, UID: account.UID})
		}
	}
	if server.Reached() && slices.ContainsFunc(workload.PodTemplates(kind, content), func(t map[string]any) bool {
		return workload.Mounts(field(t, "spec"), account.automount()) || len(rootCARefs(field(t, "spec"), rootCA)) > 0
	}) {
		s.CA = server.CA
	}
	return s
}

const (
	// ReasonNoServiceAccount is the reason of a Copy whose pods need a token of an
	// account that does not exist.
	ReasonNoServiceAccount = "NoServiceAccount"
	// ReasonTooManyTokens is that of one whose pods mount more than maxTokens.
	ReasonTooManyTokens = "TooManyTokens"
	// ReasonAccountReplaced is that of one whose pods hold tokens of an account before
	// the present one of its name.
	ReasonAccountReplaced = "ServiceAccountReplaced"
)

// noAccount waits for the account: without it there is no token. What runs goes on.
func (p planner) noAccount(name string) []Action {
	if p.physical == physicalNone {
		return p.write(p.status(placementv1alpha1.CopyPending, ReasonNoServiceAccount, "waiting for the service account "+name+": pods that mount a token of it are made once it exists"), p.Logical.GetUID())
	}
	return p.fail(Failure{Reason: ReasonNoServiceAccount, Message: "the service account " + name + " does not exist any more: tokens of it that pods mount are not good, and nothing is changed before it exists"})
}

// maxTokens is how many tokens the pods of an object may mount: its template could name thousands of audiences, for each of
// which a Secret is made, and renewed.
const maxTokens = 64

// supplied has made, before an apply, what the pods mount.
func (p planner) supplied(placing Placing, apply Action) []Action {
	needs := Needs(p.Ref.Kind, p.Logical, placing.Account, placing.Server)
	if n := len(needs.Tokens); n > maxTokens {
		return p.fail(Failure{Reason: ReasonTooManyTokens, Message: fmt.Sprintf("its pods mount %d different tokens of service accounts, each of which would be a Secret on the physical cluster: %d are made for one object", n, maxTokens)})
	}
	if !needs.Empty() && p.Missing != nil {
		needs = p.Missing(needs)
	}
	if needs.Empty() {
		return []Action{apply}
	}
	return []Action{{Verb: Supply, Supplies: needs, Why: apply.Why}}
}
