package accounttokens

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestASyncerMayAskForWhatTemplatesOfUsersMountOnItsPhysicalCluster(t *testing.T) {
	const robot = "spec: {template: {spec: {serviceAccountName: robot, volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t, audience: vault, expirationSeconds: 600}}]}}]}}}"
	mount := workload.TokenUse{Account: "robot", Seconds: 24 * 3600}
	vault := workload.TokenUse{Account: "robot", Audience: "vault", Seconds: 600}
	for _, c := range []struct {
		name, targets string
		token         workload.TokenUse
		automount     *bool
		want          bool
	}{
		{"the mount of every pod", `{"east":{}}`, mount, nil, true},
		{"a shorter one", `{"east":{}}`, workload.TokenUse{Account: "robot", Seconds: 600}, nil, true},
		{"a longer one", `{"east":{}}`, workload.TokenUse{Account: "robot", Seconds: 48 * 3600}, nil, false},
		{"the account says no", `{"east":{}}`, mount, ptr.To(false), false},
		{"an audience that the template names", `{"east":{}}`, vault, ptr.To(false), true},
		{"for longer than it says", `{"east":{}}`, workload.TokenUse{Account: "robot", Audience: "vault", Seconds: 3600}, nil, false},
		{"an audience that it does not name", `{"east":{}}`, workload.TokenUse{Account: "robot", Audience: "cloud", Seconds: 600}, nil, false},
		{"another account", `{"east":{}}`, workload.TokenUse{Account: "admin", Seconds: 600}, nil, false},
		{"placed elsewhere", `{"west":{}}`, mount, nil, false},
		{"not placed", ``, mount, nil, false},
		{"that ends there", `{"east":{"state":"Removing"},"west":{}}`, mount, nil, true},
		{"that waits to come", `{"east":{"state":"Waiting"},"west":{}}`, mount, nil, false},
		{"that a syncer planted", `{"east":{"state":"Observed","uid":"u"}}`, mount, nil, false},
		{"that a controller adopted", `{"east":{"state":"Observed","uid":"u","adopted":true}}`, mount, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			obj := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(robot), &obj.Object); err != nil {
				t.Fatal(err)
			}
			obj.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: c.targets})
			kind, _ := workload.Builtin().ByKind(schema.GroupKind{Group: "apps", Kind: "Deployment"})
			m := newMounted()
			m.add(kind, obj, "east")
			if by, got := m.permits(c.token, c.automount); got != c.want || got && by.name != obj.GetName() {
				t.Errorf("permitted: %v", got)
			}
		})
	}
}
