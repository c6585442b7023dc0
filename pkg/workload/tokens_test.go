package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

func TestTokensThatPodsMount(t *testing.T) {
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: "
	mount := func(account string) TokenUse { return TokenUse{Account: account, Seconds: 24 * 3600} }
	for _, c := range []struct {
		name, object string
		account      *bool
		want         []TokenUse
	}{
		{"every pod has one", deployment + "{}}}", nil, []TokenUse{mount("default")}},
		{"of its account", deployment + "{serviceAccountName: robot}}}", ptr.To(true), []TokenUse{mount("robot")}},
		{"the old name of the field", deployment + "{serviceAccount: robot}}}", nil, []TokenUse{mount("robot")}},
		{"the account says no", deployment + "{}}}", ptr.To(false), nil},
		{"the pod has the last word", deployment + "{automountServiceAccountToken: true}}}", ptr.To(false), []TokenUse{mount("default")}},
		{"the pod says no", deployment + "{automountServiceAccountToken: false}}}", ptr.To(true), nil},
		{"sources, each once", deployment + `{automountServiceAccountToken: false, volumes: [{name: a, projected: {sources: [
			{serviceAccountToken: {path: a, audience: vault, expirationSeconds: 600}}, {serviceAccountToken: {path: b, audience: vault, expirationSeconds: 600}},
			{serviceAccountToken: {path: c}}, {configMap: {name: x}}]}}]}}}`, nil,
			[]TokenUse{{Account: "default", Audience: "vault", Seconds: 600}, {Account: "default", Seconds: 3600}}},
		{"the volume of admission is no source", "apiVersion: v1\nkind: Pod\nspec: {volumes: [{name: kube-api-access-x, projected: {sources: [{serviceAccountToken: {path: token, expirationSeconds: 3607}}]}}]}", nil, []TokenUse{mount("default")}},
		{"whoever writes the volume wants it, whatever the account says", deployment + `{volumes: [{name: kube-api-access-x, projected: {sources: [
			{serviceAccountToken: {path: token, expirationSeconds: 3607}}]}}]}}}`, ptr.To(false), []TokenUse{mount("default")}},
		{"not what the pod says", deployment + `{automountServiceAccountToken: false, volumes: [{name: kube-api-access-x, projected: {sources: [
			{serviceAccountToken: {path: token, expirationSeconds: 3607}}]}}]}}}`, ptr.To(false), nil},
		{"a volume of that name without a token", deployment + `{volumes: [{name: kube-api-access-x, projected: {sources: [
			{configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}}]}}]}}}`, ptr.To(false), nil},
		{"another one of that name", deployment + `{volumes: [{name: kube-api-access-x, projected: {sources: [
			{serviceAccountToken: {path: token}}, {secret: {name: mine}}]}}]}}}`, ptr.To(false), nil},
		{"no pods", "apiVersion: v1\nkind: Service\nspec: {}", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind, obj := read(t, c.object)
			if diff := cmp.Diff(c.want, Tokens(kind, obj, c.account)); diff != "" {
				t.Errorf("tokens (-want +got):\n%s", diff)
			}
		})
	}
}
