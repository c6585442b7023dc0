//go:build linux

package real

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/test/real/lab"
)

// verb is a call of kubectl: its words, its input, and what it prints.
type verb struct{ words, in, want string }

// deployed is a Deployment; LEVEL is a word in it.
const deployed = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: applied, labels: {level: LEVEL}}
spec:
  selector: {matchLabels: {app: applied}}
  template:
    metadata: {labels: {app: applied}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: tools, image: "` + lab.ToolsImage + `", args: [hold]}]}
`

func level(word string) string { return strings.ReplaceAll(deployed, "LEVEL", word) }

// verbs are in an order: each finds what those before it left. They are those that ask the
// server in a way that has changed from release to release, and what a user does all day.
var verbs = []verb{
	{words: "create deployment web --image=" + lab.ToolsImage + " --replicas=1", want: "deployment.apps/web created"},
	{words: "wait --for=create deployment/web --timeout=3m", want: "condition met"},
	{words: "wait --for=condition=Available deployment/web --timeout=3m", want: "condition met"},
	{words: "scale deployment/web --replicas=2", want: "scaled"},
	{words: "rollout status deployment/web --timeout=3m", want: "successfully rolled out"},
	{words: "wait --for=jsonpath={.status.readyReplicas}=2 deployment/web --timeout=3m", want: "condition met"},
	{words: "set env deployment/web COLOUR=blue", want: "env updated"},
	{words: "rollout status deployment/web --timeout=3m", want: "successfully rolled out"},
	{words: "rollout history deployment/web", want: "\n2 "},
	{words: "rollout undo deployment/web", want: "rolled back"},
	{words: "rollout restart deployment/web", want: "restarted"},
	{words: "rollout status deployment/web --timeout=3m", want: "successfully rolled out"},
	{words: "set env deployment/web --list", want: "Deployment web, container"},
	{words: "get deployment/web --subresource=scale -o jsonpath={.spec.replicas}", want: "2"},
	{words: "autoscale deployment/web --min=2 --max=3 --cpu-percent=50", want: "autoscaled"},
	{words: "get hpa/web -o jsonpath={.spec.maxReplicas}", want: "3"},
	{words: "expose deployment/web --port=80 --target-port=8080", want: "exposed"},
	{words: "describe deployment/web", want: "ReplicaSet"},
	{words: "apply -f -", in: level("low"), want: "applied created"},
	{words: "diff -f -", in: level("low")},
	{words: "diff -f -", in: level("high"), want: "+    level: high"},
	{words: "apply -f -", in: level("high"), want: "applied configured"},
	{words: "apply --server-side --force-conflicts -f -", in: level("highest"), want: "serverside-applied"},
	{words: "apply --server-side --dry-run=server -f -", in: level("none"), want: "server dry run"},
	{words: "get deployment/applied -o jsonpath={.metadata.labels.level}", want: "highest"},
	{words: "label deployment/applied level-", want: "unlabeled"},
	{words: "annotate deployment/applied note=here", want: "annotated"},
	{words: `patch deployment/applied --type=merge -p {"metadata":{"labels":{"level":"patched"}}}`, want: "patched"},
	{words: "replace -f -", in: level("replaced"), want: "replaced"},
	{words: "get deployments -l level=replaced -o custom-columns=NAME:.metadata.name --no-headers", want: "applied"},
	{words: "get deployments -o wide", want: lab.ToolsImage},
	{words: "events --for=deployment/web", want: "ScalingReplicaSet"},
	{words: "auth can-i create pods", want: "yes"},
	{words: "auth can-i --list", want: "*.*"},
	{words: "auth whoami", want: "Username"},
	{words: "explain deployment.spec.strategy", want: "RollingUpdate"},
	{words: "explain deployment --recursive --output=plaintext-openapiv2", want: "revisionHistoryLimit"},
	{words: "api-resources --api-group=apps", want: "statefulsets"},
	{words: "create token default", want: "."},
	{words: "delete deployment/applied --timeout=3m", want: "deleted"},
	{words: "wait --for=delete deployment/applied --timeout=3m"},
	{words: "delete all --all --timeout=3m", want: `deployment.apps "web" deleted`},
}

func TestVerbsOfKubectlsOfAllReleasesDoWhatTheyDo(t *testing.T) {
	n := newTenant(t, "verbs")
	for _, program := range kubectls(t) {
		t.Run(program, func(t *testing.T) {
			n.namespace(t, named("verbs", program), "east").by(t, program).verbs(t)
		})
	}
}

func (n tenant) verbs(t *testing.T) {
	for _, v := range verbs {
		out, errs, err := n.kubectl(t.Context(), nil, strings.NewReader(v.in), strings.Fields(v.words)...)
		var exit *exec.ExitError
		if differs := strings.HasPrefix(v.words, "diff") && v.want != ""; differs && errors.As(err, &exit) && exit.ExitCode() == 1 {
			err = nil
		} else if differs {
			err = errors.Join(err, errors.New("it does not say by its exit code that there is a difference"))
		}
		if err != nil || !strings.Contains(out, v.want) {
			t.Errorf("kubectl %s: %v, it prints %q, want %q, and says %q", v.words, err, out, v.want, errs)
		}
	}
}
