//go:build linux

package real

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-dev/atoll/test/real/lab"
)

// copied is the size of the file that kubectl cp takes both ways; COPY_BYTES sets another.
func copied() int64 {
	if n, err := strconv.ParseInt(os.Getenv("COPY_BYTES"), 10, 64); err == nil {
		return n
	}
	return 16 << 20
}

// newReached has a pod that a controller below made, with containers that print and that hear,
// and a server.
func newReached(t *testing.T, on string) tenant {
	t.Helper()
	n := newTenant(t, "reached-"+on).namespace(t, "web", on)
	must(t)(n.Apply(t.Context(), tools("app", "hold", "volumeMounts: [{name: tmp, mountPath: /tmp}]", `
volumes: [{name: tmp, emptyDir: {}}]
initContainers:
- {name: web, image: "`+lab.Image+`", restartPolicy: Always}
- {name: hears, image: "`+lab.ToolsImage+`", restartPolicy: Always, args: [echo], stdin: true}
- {name: prints, image: "`+lab.ToolsImage+`", restartPolicy: Always, args: [print, "33554432"]}
- {name: few, image: "`+lab.ToolsImage+`", restartPolicy: Always, args: [print, "10240"]}
`)))
	n.running(t, "app")
	return n
}

// kubectl runs it with an environment and an input.
func (n tenant) kubectl(ctx context.Context, env []string, in io.Reader, args ...string) (stdout, stderr string, err error) {
	cmd := n.Command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), in, &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// started starts a command whose output is read until the test ends.
func started(t *testing.T, cmd *exec.Cmd) *bufio.Reader {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return bufio.NewReader(out)
}

// protocol is the environment in which kubectl streams by WebSocket, or by SPDY.
func protocol(websocket bool) []string {
	return []string{"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=" + strconv.FormatBool(websocket), "KUBECTL_PORT_FORWARD_WEBSOCKETS=" + strconv.FormatBool(websocket)}
}

func TestKubectlReachesIntoRealPods(t *testing.T) {
	for _, on := range []string{"east", "west"} {
		t.Run("on "+on, func(t *testing.T) {
			n := newReached(t, on)
			t.Run("logs", n.logs)
			for _, websocket := range []bool{true, false} {
				env := protocol(websocket)
				t.Run(fmt.Sprintf("exec and attach, WebSocket %v", websocket), func(t *testing.T) { n.execs(t, env) })
				t.Run(fmt.Sprintf("cp, WebSocket %v", websocket), func(t *testing.T) { n.copies(t, env, copied()) })
				t.Run(fmt.Sprintf("port-forward, WebSocket %v", websocket), func(t *testing.T) { n.forwards(t, env, 100) })
			}
			t.Run("a reader that stalls stops nothing else", n.stalls)
		})
	}
}

func (n tenant) logs(t *testing.T) {
	out := must(t)(n.Run(t.Context(), "logs", "deployment/app", "-c", "few", "--tail=3"))
	if strings.Count(out, "\n") != 3 {
		t.Errorf("the last three lines are %q", out)
	}
	lines := started(t, n.Command(t.Context(), "logs", "-f", "deployment/app", "-c", "few"))
	for want := range 20 { // ten of them are there, the others come while it reads
		if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, fmt.Sprintf("line %08d", want)) {
			t.Fatalf("line %d is %q: %v", want, line, err)
		}
	}
}

func (n tenant) execs(t *testing.T, env []string) {
	ctx := context.Background()
	out, errs, err := n.kubectl(ctx, env, nil, "exec", "deployment/app", "-c", "tools", "--", "/tools", "exit", "7")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 || out != "out\n" || !strings.HasPrefix(errs, "err\n") {
		t.Errorf("a command that fails: %v, printed %q and %q", err, out, errs)
	}
	if out, errs, err = n.kubectl(ctx, env, strings.NewReader("a\nb\n"), "exec", "-i", "deployment/app", "-c", "tools", "--", "/tools", "echo"); err != nil || out != "heard a\nheard b\n" {
		t.Errorf("a command that hears: %v, %q, %s", err, out, errs)
	}
	// The program of the container goes on after the input ended: what attaches is ended.
	cmd := n.Command(ctx, "attach", "-i", "deployment/app", "-c", "hears")
	cmd.Env = append(os.Environ(), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	lines := started(t, cmd)
	fmt.Fprintln(in, "hello")
	if line, err := lines.ReadString('\n'); err != nil || line != "heard hello\n" {
		t.Errorf("the program hears %q: %v", line, err)
	}
}

func (n tenant) copies(t *testing.T, env []string, size int64) {
	dir := t.TempDir()
	up, down := filepath.Join(dir, "up"), filepath.Join(dir, "down")
	file, err := os.Create(up)
	if err == nil {
		_, err = io.CopyN(file, rand.Reader, size)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	pod := must(t)(n.Run(t.Context(), "get", "pods", "-l", "app=app", "-o", "jsonpath={.items[0].metadata.name}"))
	for _, args := range [][]string{{up, pod + ":/tmp/stored"}, {pod + ":/tmp/stored", down}} {
		if _, errs, err := n.kubectl(t.Context(), env, nil, append([]string{"cp", "-c", "tools"}, args...)...); err != nil {
			t.Fatalf("kubectl cp %v: %v\n%s", args, err, errs)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "cmp", up, down).CombinedOutput(); err != nil {
		t.Errorf("what came back is another file: %v %s", err, out)
	}
}

func (n tenant) forwards(t *testing.T, env []string, connections int) {
	cmd := n.Command(t.Context(), "port-forward", "deployment/app", ":8080")
	cmd.Env = append(os.Environ(), env...)
	line, err := started(t, cmd).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + strings.Fields(strings.TrimPrefix(line, "Forwarding from "))[0] + "/"
	client := &http.Client{Timeout: waitTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			resp, err := client.Get(url)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); err != nil || !strings.HasPrefix(string(body), "app-") {
				t.Errorf("the pod says %q: %v", body, err)
			}
		})
	}
	all.Wait()
}

// stalls has readers that read one line of 32 MiB, and does all else meanwhile.
func (n tenant) stalls(t *testing.T) {
	var readers []*bufio.Reader
	for range 5 {
		readers = append(readers, started(t, n.Command(t.Context(), "logs", "-f", "deployment/app", "-c", "prints")))
	}
	for _, r := range readers {
		if _, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		n.logs(t)
		n.execs(t, nil)
	}
	n.forwards(t, nil, 100)
	n.copies(t, nil, copied())
	// They were stalled, and go on: one to the end, as that is slow.
	for i, r := range readers {
		last := 1 << 10
		if i == 0 {
			last = 33 << 10
		}
		for want := 1; want < last; want++ {
			if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, fmt.Sprintf("line %08d", want)) {
				t.Fatalf("line %d of a reader that stalled is %.20q: %v", want, line, err)
			}
		}
	}
}
