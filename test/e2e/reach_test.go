package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/atoll-dev/atoll/pkg/reach"
	"github.com/atoll-dev/atoll/test/framework/kubelet"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// TestKubectlReachesIntoPodsOfAPhysicalClusterThatTheServerConnectsTo runs with the kubelets
// of simulated nodes: all but the containers is real.
func TestKubectlReachesIntoPodsOfAPhysicalClusterThatTheServerConnectsTo(t *testing.T) {
	t.Parallel()
	giveKubelet(t, theLab.east)
	theLab.kubectlReaches(t, theLab.east)
}

// TestKubectlReachesIntoPodsBehindASyncer has a syncer that nobody can connect to.
func TestKubectlReachesIntoPodsBehindASyncer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := newLab(t)
	south, syncer := l.startPull(t, "south")
	l.setApart(t, "south")
	giveKubelet(t, south)
	r := l.kubectlReaches(t, south)
	says := func(what string) {
		t.Helper()
		eventually(t, func() error {
			out, errs, err := r.run(ctx, nil, nil, "exec", r.made, "--", "echo", "on")
			if err != nil || out != "on\n" {
				return fmt.Errorf("exec %s: %w, %q, %s", what, err, out, errs)
			}
			return nil
		})
	}
	follow := r.Command(ctx, "logs", "-f", "alone", "-c", "app")
	lines, end := started(t, follow)
	defer end()
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	syncer.Kill()
	begun := time.Now()
	if _, err := io.Copy(io.Discard, lines); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Errorf("following logs when the syncer is killed: %v", err)
	}
	eventually(t, func() error {
		if _, errs, err := r.run(ctx, nil, nil, "logs", "alone", "-c", "app"); err == nil || !strings.Contains(errs, "its syncer has no tunnel to this server") {
			return fmt.Errorf("logs without a syncer: %w, %s", err, errs)
		}
		return nil
	})
	t.Logf("without a syncer it is said so after %s", time.Since(begun))
	if err := syncer.Start(ctx); err != nil {
		t.Fatal(err)
	}
	says("after the syncer was killed")
	l.server.Kill()
	if err := l.server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	says("after the server was killed")
}

// giveKubelet lets the nodes of a physical cluster be asked.
func giveKubelet(t *testing.T, p *physicalCluster) *kubelet.Kubelet {
	t.Helper()
	ctx := context.Background()
	k := kubelet.Start(t.TempDir())
	t.Cleanup(k.Stop)
	for node := range strings.FieldsSeq(must(t)(p.Run(ctx, "get", "nodes", "-o", "name"))) {
		must(t)(p.Run(ctx, "patch", node, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(`{"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}}}}`, k.Port())))
	}
	return k
}

const twoContainers = `
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec: {containers: [{name: app, image: "nginx:1.29", resources: {requests: {cpu: 10m}}}, {name: flood, image: "nginx:1.29"}]}
`

// reached is a logical cluster with pods on one physical cluster.
type reached struct {
	process.Kubectl
	lab *lab
	// made is the name of a pod that a controller below made.
	made string
	home home
}

func (l *lab) kubectlReaches(t *testing.T, target *physicalCluster) reached {
	ctx := context.Background()
	k := l.newCluster(t)
	must(t)(k.Run(ctx, "annotate", "namespace", "default", "placement.atoll.dev/cluster="+target.name))
	must(t)(k.Apply(ctx, strings.Replace(deployment("web", 1), `"nginx:1.29"`, `"nginx:1.29", resources: {requests: {cpu: 10m}}`, 1)))
	must(t)(k.Apply(ctx, twoContainers))
	must(t)(k.Run(ctx, "wait", "--for=condition=Ready", "pod/alone", "--timeout=3m"))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	r := reached{Kubectl: k, lab: l, made: must(t)(k.Run(ctx, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}"))}
	r.home = l.homeOf(t, k, "default", target)
	t.Run("logs", r.logs)
	t.Run("a terminal by WebSocket", r.terminal)
	for _, protocol := range []string{"WebSocket", "SPDY"} {
		env := []string{"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=" + strconv.FormatBool(protocol == "WebSocket"), "KUBECTL_PORT_FORWARD_WEBSOCKETS=" + strconv.FormatBool(protocol == "WebSocket")}
		t.Run("exec by "+protocol, func(t *testing.T) { r.exec(t, env) })
		t.Run("attach by "+protocol, func(t *testing.T) { r.attach(t, env) })
		t.Run("cp by "+protocol, func(t *testing.T) { r.copies(t, env) })
		t.Run("port-forward by "+protocol, func(t *testing.T) { r.forwards(t, env) })
	}
	t.Run("debug", r.debugs)
	t.Run("resize", r.resizes)
	t.Run("a reader that stalls stops nobody", r.stalls)
	t.Run("who may not is told so", r.refuses)
	t.Run("nothing of the physical cluster is in errors", r.explains)
	t.Run("admission sees it", r.admits)
	return r
}

// run runs kubectl with an environment and an input.
func (r reached) run(ctx context.Context, env []string, in io.Reader, args ...string) (stdout, stderr string, err error) {
	cmd := r.Command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), in, &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func (r reached) logs(t *testing.T) {
	ctx := context.Background()
	for _, pod := range []string{"alone", r.made} {
		out := must(t)(r.Run(ctx, "logs", pod, "-c", containerOf(pod)))
		if !strings.HasPrefix(out, "options \n") || strings.Count(out, "line ") != 10 {
			t.Errorf("logs of %s are %q", pod, out)
		}
	}
	out := must(t)(r.Run(ctx, "logs", "alone", "-c", "app", "--previous", "--since=5m", "--tail=3", "--timestamps", "--limit-bytes=100000"))
	if want := "options limitBytes=100000&previous=true&sinceSeconds=300&tailLines=3&timestamps=true\nline 8 of app\nline 9 of app\nline 10 of app\n"; out != want {
		t.Errorf("logs with options are %q, want %q", out, want)
	}
	out = must(t)(r.Run(ctx, "logs", "alone", "--all-containers", "--prefix", "--tail=1"))
	for _, line := range []string{"[pod/alone/app] line 10 of app", "[pod/alone/flood] line 10 of flood"} {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("logs of all containers with prefixes are %q, without %q", out, line)
		}
	}
	out = must(t)(r.Run(ctx, "logs", "deployment/web", "--tail=1"))
	if !strings.Contains(out, "line 10 of ") {
		t.Errorf("logs of a Deployment are %q", out)
	}
	follow := r.Command(ctx, "logs", "-f", "alone", "-c", "app")
	lines, end := started(t, follow)
	defer end()
	for want := 1; want <= 14; { // four of these are written while it is read
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("following: %v", err)
		}
		if line == fmt.Sprintf("line %d of app\n", want) {
			want++
		}
	}
}

func containerOf(pod string) string {
	if pod == "alone" {
		return "app"
	}
	return ""
}

// started starts a command whose output is read; end ends it.
func started(t *testing.T, cmd *exec.Cmd) (*bufio.Reader, func()) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(out), func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

func (r reached) exec(t *testing.T, env []string) {
	ctx := context.Background()
	out, errs, err := r.run(ctx, env, nil, "exec", r.made, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 || out != "out\n" || !strings.HasPrefix(errs, "err\n") {
		t.Errorf("a command that fails: %v, printed %q and %q", err, out, errs)
	}
	data := make([]byte, 3<<20)
	_, _ = rand.Read(data)
	out, errs, err = r.run(ctx, env, bytes.NewReader(data), "exec", "-i", "alone", "-c", "app", "--", "cat")
	if err != nil || !bytes.Equal([]byte(out), data) {
		t.Errorf("3 MiB through cat: %v, %d bytes came back, %s", err, len(out), errs)
	}
	if out, errs, err = r.run(ctx, env, nil, "exec", "deployment/web", "--", "echo", "a b", "c&d=e?#%"); err != nil || out != "a b c&d=e?#%\n" {
		t.Errorf("arguments: %v, %q, %s", err, out, errs)
	}
}

// terminal is a WebSocket client that falls back to nothing: kubectl does, to SPDY.
func (r reached) terminal(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	query := url.Values{"container": {"app"}, "command": {"size"}, "stdin": {"true"}, "stdout": {"true"}, "tty": {"true"}}
	executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, config.Host+"/api/v1/namespaces/default/pods/alone/exec?"+query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	var out bytes.Buffer
	sizes := &sizes{{Width: 80, Height: 24}, {Width: 132, Height: 50}, {Width: 1, Height: 1}}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: strings.NewReader(""), Stdout: &out, Tty: true, TerminalSizeQueue: sizes})
	if want := "tty true 80x24\r\ntty true 132x50\r\ntty true 1x1\r\n"; err != nil || out.String() != want {
		t.Errorf("a terminal: %v, %q, want %q", err, out.String(), want)
	}
}

// sizes are those that a terminal takes.
type sizes []remotecommand.TerminalSize

// Next implements remotecommand.TerminalSizeQueue.
func (s *sizes) Next() *remotecommand.TerminalSize {
	if len(*s) == 0 {
		return nil
	}
	next := (*s)[0]
	*s = (*s)[1:]
	return &next
}

func (r reached) attach(t *testing.T, env []string) {
	out, errs, err := r.run(context.Background(), env, strings.NewReader("said\n"), "attach", "-i", "alone", "-c", "app")
	if err != nil || !strings.Contains(out, "attached\nsaid\n") {
		t.Errorf("attach: %v, %q, %s", err, out, errs)
	}
}

func (r reached) copies(t *testing.T, env []string) {
	ctx := context.Background()
	dir := t.TempDir()
	data := make([]byte, 20<<20)
	_, _ = rand.Read(data)
	if err := os.WriteFile(filepath.Join(dir, "up"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"cp", filepath.Join(dir, "up"), r.made + ":stored"}, {"cp", r.made + ":stored", filepath.Join(dir, "down")}} {
		if _, errs, err := r.run(ctx, env, nil, args...); err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, errs)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "down")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("what came back is another file: %v, %d bytes", err, len(got))
	}
}

// forwards uses a port by many connections at a time; the first is given up.
func (r reached) forwards(t *testing.T, env []string) {
	there := echoServer(t)
	cmd := r.Command(context.Background(), "port-forward", "pod/"+r.made, ":"+there)
	cmd.Env = append(os.Environ(), env...)
	lines, end := started(t, cmd)
	defer end()
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("port-forward: %v", err)
	}
	address := strings.Fields(strings.TrimPrefix(line, "Forwarding from "))[0]
	given, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = given.Close()
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			if err := echoes(address, fmt.Sprintf("hello %d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func echoServer(t *testing.T) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

func echoes(address, text string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(waitTimeout))
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
		return fmt.Errorf("sent %q, got %q: %w", text, got, err)
	}
	return nil
}

// stalls has readers that do not read what is written as fast as they could, and does
// everything else meanwhile.
func (r reached) stalls(t *testing.T) {
	ctx := context.Background()
	for range 5 {
		lines, end := started(t, r.Command(ctx, "logs", "-f", "alone", "-c", "flood"))
		defer end()
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if out, errs, err := r.run(ctx, nil, nil, "exec", r.made, "--", "echo", "on"); err != nil || out != "on\n" {
			t.Errorf("exec beside readers that stall: %v, %q, %s", err, out, errs)
		}
		must(t)(r.Run(ctx, "logs", "alone", "-c", "app"))
	}
}

func (r reached) refuses(t *testing.T) {
	ctx := context.Background()
	must(t)(r.Run(ctx, "create", "role", "looks", "--verb=get", "--resource=pods,pods/exec,pods/attach,pods/portforward"))
	must(t)(r.Run(ctx, "create", "rolebinding", "looks", "--role=looks", "--user=eve"))
	for _, websocket := range []string{"true", "false"} {
		env := []string{"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=" + websocket}
		for _, args := range [][]string{{"exec", r.made, "--as=eve", "--", "id"}, {"attach", "alone", "-c", "app", "--as=eve"}} {
			if out, errs, err := r.run(ctx, env, nil, args...); err == nil || !strings.Contains(errs, "orbidden") {
				t.Errorf("kubectl %v of who may get but not create (WebSocket %s): %v, %q, %s", args, websocket, err, out, errs)
			}
		}
	}
	if _, errs, err := r.run(ctx, nil, nil, "logs", "alone", "-c", "app", "--as=eve"); err == nil || !strings.Contains(errs, "orbidden") {
		t.Errorf("logs of who may not: %v, %s", err, errs)
	}
	other := reached{Kubectl: r.lab.newCluster(t)}
	for _, args := range [][]string{{"logs", r.made}, {"exec", r.made, "--", "id"}} {
		if _, errs, err := other.run(ctx, nil, nil, args...); err == nil || !strings.Contains(errs, `pods "`+r.made+`" not found`) {
			t.Errorf("kubectl %v in another logical cluster: %v, %s", args, err, errs)
		}
	}
	if _, errs, err := r.run(ctx, nil, nil, "get", "--raw", "/api/v1/namespaces/default/pods/alone/exec?command=id&container=app&stdout=true"); err == nil || !strings.Contains(errs, "Upgrade request required") {
		t.Errorf("exec without an upgrade: %v, %s", err, errs)
	}
}

func (r reached) admits(t *testing.T) {
	ctx := context.Background()
	must(t)(r.Apply(ctx, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: commands}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CONNECT], resources: [pods/exec]}]}
  validations: [{expression: "!('forbidden' in object.command)", message: "not this command"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: commands}
spec: {policyName: commands, validationActions: [Deny]}
`))
	eventually(t, func() error {
		if _, errs, err := r.run(ctx, nil, nil, "exec", r.made, "--", "echo", "forbidden"); err == nil || !strings.Contains(errs, "not this command") {
			return fmt.Errorf("a command that a policy forbids: %w, %s", err, errs)
		}
		return nil
	})
	if out, errs, err := r.run(ctx, nil, nil, "exec", r.made, "--", "echo", "allowed"); err != nil || out != "allowed\n" {
		t.Errorf("a command that it does not forbid: %v, %s", err, errs)
	}
}

// TestTheSubresourcesOfPodsAreDocumentedAsThoseOfACluster compares with a stock API server.
func TestTheSubresourcesOfPodsAreDocumentedAsThoseOfACluster(t *testing.T) {
	t.Parallel()
	k := theLab.newCluster(t)
	type document struct {
		Resources []map[string]any          `json:"resources"`
		Paths     map[string]map[string]any `json:"paths"`
	}
	read := func(k process.Kubectl, path string) document {
		var d document
		if err := json.Unmarshal([]byte(must(t)(k.Run(context.Background(), "get", "--raw", path))), &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	entries := func(d document) map[string]any {
		out := map[string]any{}
		for _, subresource := range reach.Subresources {
			for _, r := range d.Resources {
				if r["name"] == "pods/"+subresource {
					out[subresource] = r
				}
			}
			if path, ok := d.Paths["/api/v1/namespaces/{namespace}/pods/{name}/"+subresource]; ok {
				out[subresource] = path
			}
		}
		return out
	}
	for _, path := range []string{"/api/v1", "/openapi/v2", "/openapi/v3/api/v1"} {
		above, below := entries(read(k, path)), entries(read(theLab.east.Kubectl, path))
		without401(below) // no operation of ours has this answer
		without401(above)
		if diff := cmp.Diff(below, above); diff != "" || len(below) != len(reach.Subresources) {
			t.Errorf("%s has %d subresources (-stock +ours)\n%s", path, len(below), diff)
		}
	}
}

func without401(v any) {
	m, ok := v.(map[string]any)
	if !ok {
		return
	}
	delete(m, "401")
	for _, inner := range m {
		without401(inner)
	}
}

func (r reached) explains(t *testing.T) {
	ctx := context.Background()
	physical := physicalNamespace(t, r.Kubectl, "default")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "--raw", "/api/v1/namespaces/default/pods/alone/log"}, "a container name must be specified for pod alone"},
		{[]string{"get", "--raw", "/api/v1/namespaces/default/pods/alone/log?container=none"}, "container none is not valid for pod alone"},
		{[]string{"get", "--raw", "/api/v1/namespaces/default/pods/none/log"}, `pods "none" not found`},
		{[]string{"exec", "alone", "-c", "app", "--", "no-such-command"}, "executable file not found"},
	} {
		_, errs, err := r.run(ctx, nil, nil, c.args...)
		if err == nil || !strings.Contains(errs, c.want) || physical == "" || strings.Contains(errs, physical) {
			t.Errorf("kubectl %v: %v, %s, want %q and nothing of %q", c.args, err, errs, c.want, physical)
		}
	}
}
