// Package kubelet is a kubelet without containers, for the API servers of simulated
// nodes: everything between kubectl and it is real, and so is its streaming server, that
// of container runtimes. A container is a directory in which commands of this machine run.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

const (
	idleTimeout     = time.Hour
	creationTimeout = 30 * time.Second
	// lines is how many a container has logged.
	lines = 10
)

// Kubelet serves what an API server asks of the kubelet of a node.
type Kubelet struct {
	dir    string
	server *httptest.Server
}

// Start serves on a loopback address; dir is where the containers are.
func Start(dir string) *Kubelet {
	k := &Kubelet{dir: dir}
	mux := http.NewServeMux()
	mux.HandleFunc("/containerLogs/{namespace}/{pod}/{container}", k.logs)
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.exec)
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", k.attach)
	mux.HandleFunc("/portForward/{namespace}/{pod}", k.portForward)
	k.server = httptest.NewTLSServer(mux)
	return k
}

// Stop ends the server.
func (k *Kubelet) Stop() {
	k.server.CloseClientConnections()
	k.server.Close()
}

// Port is where it listens.
func (k *Kubelet) Port() int { return k.server.Listener.Addr().(*net.TCPAddr).Port }

// Dir is the directory of a container; namespace is the physical one.
func (k *Kubelet) Dir(namespace, pod, container string) (string, error) {
	dir := filepath.Join(k.dir, namespace, pod, container)
	return dir, os.MkdirAll(dir, 0o700)
}

// logs are the options that were asked for, and then lines. One that is followed goes on
// for ever: slowly, or, if the container is named "flood", as fast as it is read.
func (k *Kubelet) logs(w http.ResponseWriter, req *http.Request) {
	q, container := req.URL.Query(), req.PathValue("container")
	follow := q.Get("follow") == "true"
	fmt.Fprintf(w, "options %s\n", q.Encode())
	first := 1
	if n, err := strconv.Atoi(q.Get("tailLines")); err == nil {
		first = max(1, lines-n+1)
	}
	for i := first; i <= lines; i++ {
		fmt.Fprintf(w, "line %d of %s\n", i, container)
	}
	flush := func() { _ = http.NewResponseController(w).Flush() }
	flush()
	filler := strings.Repeat("x", 4<<10)
	for i := lines + 1; follow && req.Context().Err() == nil; i++ {
		if container == "flood" {
			if _, err := fmt.Fprintf(w, "line %d of %s %s\n", i, container, filler); err != nil {
				return
			}
			continue
		}
		fmt.Fprintf(w, "line %d of %s\n", i, container)
		flush()
		select {
		case <-req.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (k *Kubelet) exec(w http.ResponseWriter, req *http.Request) {
	options, err := remotecommand.NewOptions(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	dir, err := k.Dir(req.PathValue("namespace"), req.PathValue("pod"), req.PathValue("container"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	remotecommand.ServeExec(w, req, container(dir), req.PathValue("pod"), "", req.PathValue("container"), req.URL.Query()["command"],
		options, idleTimeout, creationTimeout, remotecommand.SupportedStreamingProtocols)
}

func (k *Kubelet) attach(w http.ResponseWriter, req *http.Request) {
	options, err := remotecommand.NewOptions(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeAttach(w, req, container(""), req.PathValue("pod"), "", req.PathValue("container"), options,
		idleTimeout, creationTimeout, remotecommand.SupportedStreamingProtocols)
}

func (k *Kubelet) portForward(w http.ResponseWriter, req *http.Request) {
	options, err := portforward.NewV4Options(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, req, container(""), req.PathValue("pod"), "", options, idleTimeout, creationTimeout, portforward.SupportedProtocols)
}

// container is the directory of one.
type container string

// ExecInContainer implements remotecommand.Executor. The command "size" prints the sizes
// that the terminal takes.
func (c container) ExecInContainer(ctx context.Context, _, _, _ string, command []string, in io.Reader, out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if command[0] == "size" {
		for size := range resize {
			fmt.Fprintf(out, "tty %t %dx%d\r\n", tty, size.Width, size.Height)
			if size.Width == 1 {
				return nil
			}
		}
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.WaitDelay = string(c), time.Second
	if out != nil {
		cmd.Stdout = out
	}
	if errs != nil {
		cmd.Stderr = errs
	}
	if in != nil {
		to, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		go func() { // ends with the stream
			_, _ = io.Copy(to, in)
			_ = to.Close()
		}()
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	return err
}

// AttachContainer implements remotecommand.Attacher: the container says back what it is
// told.
func (c container) AttachContainer(_ context.Context, _, _, _ string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	fmt.Fprintln(out, "attached")
	if in == nil {
		return nil
	}
	_, err := io.Copy(out, in)
	return err
}

// PortForward implements portforward.PortForwarder: ports are those of this machine.
func (c container) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer conn.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(conn, stream)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, conn)
	_ = stream.Close()
	<-done
	return err
}
