//go:build linux

package real

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-dev/atoll/test/framework/metrics"
	"github.com/atoll-dev/atoll/test/framework/process"
	"github.com/atoll-dev/atoll/test/real/lab"
)

// kubectls are the programs of all releases: the older ones are the modules of test/kubectls.
func kubectls(t *testing.T) []string {
	t.Helper()
	modules, err := filepath.Glob(filepath.Join(process.Root(), "test", "kubectls", "v*"))
	if err != nil || len(modules) == 0 {
		t.Fatalf("there are no modules of older releases: %v", err)
	}
	var programs []string
	for _, m := range modules {
		programs = append(programs, "kubectl-"+strings.TrimPrefix(filepath.Base(m), "v"))
	}
	return append(programs, "kubectl")
}

// by is the tenant with another kubectl; the test is skipped if it is not built.
func (n tenant) by(t *testing.T, program string) tenant {
	t.Helper()
	if process.Missing(program) != nil {
		t.Skipf("bin/%s is not built: run hack/build.sh kubectls", program)
	}
	n.Program = program
	var says struct{ ClientVersion, ServerVersion struct{ GitVersion string } }
	if err := json.Unmarshal([]byte(must(t)(n.Run(t.Context(), "version", "-o", "json"))), &says); err != nil {
		t.Fatal(err)
	}
	if of := strings.TrimPrefix(program, "kubectl-"); of != program && !strings.HasPrefix(says.ClientVersion.GitVersion, "v"+of+".") {
		t.Fatalf("%s says that it is %s", program, says.ClientVersion.GitVersion)
	}
	t.Logf("%s, of a server that says it is %s", says.ClientVersion.GitVersion, says.ServerVersion.GitVersion)
	return n
}

// named is a name for what a kubectl makes.
func named(prefix, program string) string {
	return prefix + "-" + strings.ReplaceAll(program, ".", "-")
}

// Each release reaches pods of all kinds. How much goes through a stream, and what happens to
// one that stalls, is the matter of TestKubectlReachesIntoRealPods, with the newest.
func TestKubectlsOfAllReleasesReachIntoRealPods(t *testing.T) {
	for _, on := range []string{"east", "west"} {
		t.Run("on "+on, func(t *testing.T) {
			metrics.Offer(t, theLab.PhysicalCluster(on).Kubectl)
			n := newReached(t, on)
			n.allKinds(t)
			for _, program := range kubectls(t) {
				t.Run(program, func(t *testing.T) { n.by(t, program).reaches(t, on) })
			}
		})
	}
}

func (n tenant) reaches(t *testing.T, on string) {
	t.Run("logs", n.logs)
	t.Run("logs with options", n.logsWithOptions)
	t.Run("logs and exec of each kind", n.reachesKinds)
	t.Run("proxy", n.proxies)
	t.Run("top", func(t *testing.T) { n.tops(t, on) })
	for _, name := range []string{"WebSocket", "SPDY"} {
		websocket := name == "WebSocket"
		env := protocol(websocket)
		t.Run("it is "+name, func(t *testing.T) { n.speaks(t, websocket) })
		t.Run("exec and attach by "+name, func(t *testing.T) { n.execs(t, env) })
		t.Run("cp by "+name, func(t *testing.T) { n.copies(t, env, 64<<10) })
		t.Run("port-forward by "+name, func(t *testing.T) { n.forwards(t, env, 5) })
		t.Run("debug by "+name, func(t *testing.T) { n.debugs(t, env, named("debug-"+strings.ToLower(name), n.Program)) })
		t.Run("run -it by "+name, func(t *testing.T) { n.runs(t, env, named("run-"+strings.ToLower(name), n.Program)) })
	}
}

// printing is a container that prints, with the program of test/real/tools.
const printing = `{terminationGracePeriodSeconds: 1, containers: [{name: tools, image: "` + lab.ToolsImage + `", args: [print, "2048"]}]}`

// kinds are those that have pods, with a container that prints, and what their names begin with.
var kinds = []struct{ object, container, hostname string }{
	{"deployment/app", "few", "app-"},
	{"service/app", "few", "app-"},
	{"replicaset/replicas", "tools", "replicas-"},
	{"replicationcontroller/controlled", "tools", "controlled-"},
	{"statefulset/ordinal", "tools", "ordinal-0"},
	{"daemonset/each", "tools", "each-"},
	{"job/once", "tools", "once-"},
	{"pod/alone", "tools", "alone"},
}

// allKinds adds pods of all kinds to those of newReached, and one that has started again, once:
// of one that fails again and again, the kubelet has removed what it still names for a while.
func (n tenant) allKinds(t *testing.T) {
	t.Helper()
	var manifest strings.Builder
	for _, c := range []struct{ version, kind, name, more string }{
		{"apps/v1", "ReplicaSet", "replicas", "selector: {matchLabels: {kind: replicas}}, "},
		{"v1", "ReplicationController", "controlled", ""},
		{"apps/v1", "StatefulSet", "ordinal", "serviceName: ordinal, selector: {matchLabels: {kind: ordinal}}, "},
		{"apps/v1", "DaemonSet", "each", "selector: {matchLabels: {kind: each}}, "},
		{"batch/v1", "Job", "once", ""},
	} {
		spec := printing
		if c.kind == "Job" {
			spec = "{restartPolicy: Never, " + spec[1:]
		}
		fmt.Fprintf(&manifest, "apiVersion: %s\nkind: %s\nmetadata: {name: %[3]s}\nspec: {%stemplate: {metadata: {labels: {kind: %[3]s}}, spec: %[5]s}}\n---\n", c.version, c.kind, c.name, c.more, spec)
	}
	must(t)(n.Apply(t.Context(), manifest.String()+`
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec: `+printing+`
---
apiVersion: v1
kind: Pod
metadata: {name: again}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: tools, image: "`+lab.ToolsImage+`", args: [echo], stdin: true, stdinOnce: true}]}
---
apiVersion: v1
kind: Service
metadata: {name: app}
spec: {selector: {app: app}, ports: [{port: 80, targetPort: 8080}]}
`))
	for _, wanted := range [][]string{
		{"condition=Ready", "pod/alone", "pod/again"},
		{"jsonpath={.status.readyReplicas}=1", "replicaset/replicas", "replicationcontroller/controlled", "statefulset/ordinal"},
		{"jsonpath={.status.numberReady}=1", "daemonset/each"},
		{"jsonpath={.status.ready}=1", "job/once"},
	} {
		must(t)(n.Run(t.Context(), append([]string{"wait", "--timeout=3m", "--for=" + wanted[0]}, wanted[1:]...)...))
	}
	if _, errs, err := n.kubectl(t.Context(), nil, strings.NewReader("hello\n"), "attach", "-i", "again"); err != nil {
		t.Fatalf("ending the program of the pod: %v: %s", err, errs)
	}
	must(t)(n.Run(t.Context(), "wait", "--timeout=3m", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "pod/again"))
}

func (n tenant) logsWithOptions(t *testing.T) {
	if out := must(t)(n.Run(t.Context(), "logs", "again", "--previous")); out != "heard hello\n" {
		t.Errorf("the container before printed %q", out)
	}
	// It prints ten lines a second, and has done so for longer.
	out := must(t)(n.Run(t.Context(), "logs", "deployment/app", "-c", "few", "--since=1s"))
	if lines := strings.Count(out, "\n"); lines < 1 || lines > 20 || strings.HasPrefix(out, "line 00000000") {
		t.Errorf("in the last second it printed %d lines: %.100q", lines, out)
	}
	out = must(t)(n.Run(t.Context(), "logs", "deployment/app", "--all-containers", "--prefix", "--tail=1"))
	for _, container := range []string{"few", "prints"} {
		if !regexp.MustCompile(`(?m)^\[pod/app-[^/]+/` + container + `\] line \d{8}`).MatchString(out) {
			t.Errorf("of the container %s there is nothing in %q", container, out)
		}
	}
}

func (n tenant) reachesKinds(t *testing.T) {
	for _, k := range kinds {
		if out, err := n.Run(t.Context(), "logs", k.object, "-c", k.container, "--tail=1"); err != nil || !strings.HasPrefix(out, "line ") || strings.Count(out, "\n") != 1 {
			t.Errorf("logs of %s: %v, %q", k.object, err, out)
		}
		if out, err := n.Run(t.Context(), "exec", k.object, "-c", k.container, "--", "/tools", "cat", "/etc/hostname"); err != nil || !strings.HasPrefix(out, k.hostname) {
			t.Errorf("exec in %s: %v, %q", k.object, err, out)
		}
	}
}

// speaks fails if kubectl speaks another protocol than the environment says: it falls back to SPDY by
// itself. It says which one it speaks if it speaks WebSocket.
func (n tenant) speaks(t *testing.T, websocket bool) {
	_, said, err := n.kubectl(t.Context(), protocol(websocket), nil, "exec", "pod/alone", "-v=4", "--", "/tools", "cat", "/etc/hostname")
	if err != nil || strings.Contains(said, "v5.channel.k8s.io") != websocket {
		t.Errorf("WebSocket %v: exec: %v, it says %s", websocket, err, said)
	}
	cmd := n.Command(t.Context(), "port-forward", "deployment/app", ":8080", "-v=4")
	cmd.Env = append(cmd.Env, protocol(websocket)...)
	forwards, says := io.Pipe()
	cmd.Stderr = says
	lines := make(chan string, 1)
	go func() { said, _ := until(forwards, ""); lines <- said }()
	if _, err := started(t, cmd).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	_ = says.Close()
	if said := <-lines; strings.Contains(said, "portforward.k8s.io") != websocket {
		t.Errorf("WebSocket %v: port-forward says %s", websocket, said)
	}
}

// debugs has an ephemeral container.
func (n tenant) debugs(t *testing.T, env []string, name string) {
	n.types(t, env, "debug", "alone", "-it", "--profile=baseline", "--image="+lab.ToolsImage, "--container="+name, "--", "/tools", "echo")
}

// runs has a pod of its own, which is gone afterwards.
func (n tenant) runs(t *testing.T, env []string, name string) {
	said := n.types(t, env, "run", name, "-it", "--rm", "--restart=Never", "--image="+lab.ToolsImage, "--", "echo")
	if !strings.Contains(said, `pod "`+name+`" deleted`) {
		t.Errorf("kubectl run ends with %q", said)
	}
}

// types has kubectl on a terminal, with a program that hears, and ends it as a user does: with
// the end of the input, which ends the container. It returns what is said after that.
func (n tenant) types(t *testing.T, env []string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	cmd := n.Command(ctx, args...)
	cmd.Env = append(cmd.Env, env...)
	console := terminal(t, cmd)
	for _, step := range []struct{ wait, enter string }{{"try pressing enter", "hello\r"}, {"heard hello\r\n", "\x04"}} {
		if said, err := until(console, step.wait); err != nil {
			t.Fatalf("kubectl %v says %q: %v", args, said, err)
		}
		fmt.Fprint(console, step.enter)
	}
	said, _ := until(console, "")
	if err := cmd.Wait(); err != nil {
		t.Errorf("kubectl %v: %v: it says %q", args, err, said)
	}
	return said
}

func (n tenant) proxies(t *testing.T) {
	line, err := started(t, n.Command(t.Context(), "proxy", "--port=0")).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "Starting to serve on ")
	if err != nil || !ok {
		t.Fatalf("kubectl proxy says %q: %v", line, err)
	}
	pod := must(t)(n.Run(t.Context(), "get", "pods", "-l", "app=app", "-o", "jsonpath={.items[0].metadata.name}"))
	client := &http.Client{Timeout: 30 * time.Second}
	for _, path := range []string{"pods/" + pod + ":8080", "services/app:80"} {
		resp, err := client.Get("http://" + address + "/api/v1/namespaces/web/" + path + "/proxy/")
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || strings.TrimSpace(string(body)) != pod {
			t.Errorf("%s says %q, want %s: %v", path, body, pod, err)
		}
	}
}

func (n tenant) tops(t *testing.T, on string) {
	fields := func(args ...string) map[string]string {
		found := map[string]string{}
		for line := range strings.Lines(must(t)(n.Run(t.Context(), slices.Concat([]string{"top"}, args, []string{"--no-headers"})...))) {
			words := strings.Fields(line)
			found[words[0]] = strings.Join(words[1:], " ")
		}
		return found
	}
	// A container uses as much as its name is long.
	if got := fields("pods")["alone"]; got != "50m 50Mi" {
		t.Errorf("the pod uses %q", got)
	}
	if got := fields("pods", "--containers", "-l", "kind=ordinal")["ordinal-0"]; got != "tools 50m 50Mi" {
		t.Errorf("the container uses %q", got)
	}
	if got := fields("nodes")[on]; got == "" || strings.Contains(got, "unknown") {
		t.Errorf("the physical cluster uses %q", got)
	}
}
