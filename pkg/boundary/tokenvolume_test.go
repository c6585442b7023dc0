package boundary

import (
	"fmt"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// The volume that is taken for that of a token does not go down. Nobody hears of the one that the
// server's admission puts into pods, nor of its like, which the syncer replaces by the same.
func TestAVolumeThatIsTakenForThatOfATokenIsSaid(t *testing.T) {
	const token, authority, namespace = "{serviceAccountToken: {path: token, expirationSeconds: 3607}}", "{configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}}",
		"{downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}}"
	volume := func(sources ...string) string {
		return fmt.Sprintf("volumes: [{name: data, emptyDir: {}}, {name: kube-api-access-x, projected: {defaultMode: 420, sources: [%s]}}]", strings.Join(sources, ", "))
	}
	for name, c := range map[string]struct {
		spec  string
		heard bool
	}{
		"what admission puts into a pod":  {volume(token, authority, namespace), false},
		"in any order":                    {volume(namespace, token), false},
		"without a mount in its place":    {volume(token, authority, namespace) + "\n      automountServiceAccountToken: false", true},
		"a token for somebody else":       {volume("{serviceAccountToken: {path: token, audience: vault}}"), true},
		"at another path":                 {volume("{serviceAccountToken: {path: jwt}}"), true},
		"with files of the user":          {volume(token, "{configMap: {name: mine}}"), true},
		"with a Secret":                   {volume("{secret: {name: mine}}"), true},
		"with two in one source":          {volume("{serviceAccountToken: {path: token}, configMap: {name: mine}}"), true},
		"with all of the configuration":   {volume("{configMap: {name: kube-root-ca.crt}}"), true},
		"another name":                    {strings.ReplaceAll(volume("{secret: {name: mine}}"), "kube-api-access", "api-access"), false},
		"that is not projected goes down": {"volumes: [{name: a, emptyDir: {}}, {name: kube-api-access-x, emptyDir: {}}]", false},
	} {
		for kind, at := range map[string]string{"Deployment": "spec.template.spec.volumes[1]", "Pod": "spec.volumes[1]"} {
			obj := parseObject(t, podOf(c.spec))
			if kind == "Pod" {
				template := workload.PodTemplates(kindOf(obj), obj.Object)[0]
				obj = parseObject(t, object("Pod", "v1"))
				obj.Object["spec"] = template["spec"]
			}
			heard := ""
			for _, f := range Filter(kindOf(obj), obj.Object, Passage{}) {
				if heard += f.Field; f.Verdict != Stripped {
					t.Errorf("%s of a %s: %s %s", name, kind, f.Verdict, f)
				}
			}
			if want := map[bool]string{true: at}[c.heard]; heard != want {
				t.Errorf("%s of a %s: heard is %q, want %q", name, kind, heard, want)
			}
		}
	}
}
