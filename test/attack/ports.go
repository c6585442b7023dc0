package attack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var ports = Attack{
	Name: "the server answers at no TCP port but its own: not as etcd, nor as a member of it",
	Real: true, // of a process of its own
	Fence: func(_ context.Context, w *World) error {
		own, err := portOf(w.Config.Host)
		if err != nil {
			return err
		}
		open, err := listening(w.PID)
		if err != nil {
			return err
		}
		if !slices.Equal(open, []uint16{own}) { // no physical cluster asks about pods
			return fmt.Errorf("it listens at the ports %v, and has %d", open, own)
		}
		return nil
	},
	// Another port of a process is seen.
	Control: func(context.Context, *World) error {
		s := httptest.NewServer(http.NotFoundHandler())
		defer s.Close()
		port, err := portOf(s.URL)
		if err != nil {
			return err
		}
		open, err := listening(os.Getpid())
		if err != nil {
			return err
		}
		if !slices.Contains(open, port) {
			return fmt.Errorf("port %d is not seen among %v", port, open)
		}
		return nil
	},
}

func portOf(address string) (uint16, error) {
	u, err := url.Parse(address)
	if err != nil {
		return 0, err
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return uint16(port), err
}

// listening are the TCP ports at which a process of this machine listens, in order.
func listening(pid int) ([]uint16, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	files, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return nil, fmt.Errorf("listing the files of a process: %w", err)
	}
	own := map[string]bool{}
	for _, file := range files {
		to, err := os.Readlink(filepath.Join(dir, "fd", file.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // closed meanwhile
			return nil, fmt.Errorf("listing the files of a process: %w", err)
		}
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	var open []uint16
	for _, family := range []string{"tcp", "tcp6"} {
		of, err := listeningOf(filepath.Join(dir, "net", family), own)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // without IPv6
			return nil, err
		}
		open = append(open, of...)
	}
	slices.Sort(open)
	return slices.Compact(open), nil
}

// listeningOf reads a table of sockets (proc_pid_net(5)), of those that are own, by inode.
func listeningOf(path string, own map[string]bool) (open []uint16, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	const address, state, inode, listens = 1, 3, 9, "0A"
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) <= inode || fields[state] != listens || !own[fields[inode]] {
			continue
		}
		_, number, _ := strings.Cut(fields[address], ":")
		port, err := strconv.ParseUint(number, 16, 16)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		open = append(open, uint16(port))
	}
	return open, lines.Err()
}

var ownEnds = Attack{
	Name: "no webhook has the server call itself, by whatever address: where it listens, is asked about pods, or is found by other servers",
	Fence: func(ctx context.Context, w *World) error {
		var all []string
		for _, own := range []string{w.Config.Host, "https://" + w.Admission} {
			port, err := portOf(own)
			if err != nil {
				return err
			}
			for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"} {
				all = append(all, fmt.Sprintf("%s:%d", host, port))
			}
		}
		for _, end := range append(all, w.Advertised) {
			ctx, err := w.calling(ctx, "https://"+end)
			if err != nil {
				return err
			}
			if err := eventually(ctx, end+" is refused", func() error {
				err := w.called(ctx)
				if err == nil || !strings.Contains(err.Error(), "the control plane does not call "+end) {
					return errors.Join(errors.New("it is called, or not known yet"), err)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	},
	// Another port of this machine is called.
	Control: func(ctx context.Context, w *World) error {
		h := startHook("", nil)
		defer h.Close()
		ctx, err := w.calling(ctx, h.URL)
		if err != nil {
			return err
		}
		// By its certificate, of which the server hears from nobody else, it is known that it connects.
		return eventually(ctx, "the webhook is called", func() error {
			if err := w.called(ctx); err == nil || !strings.Contains(err.Error(), "certificate") {
				return errors.Join(errors.New("it is not connected to"), err)
			}
			return nil
		})
	},
}

// calling makes a logical cluster, and has it call an address about each ConfigMap.
func (w *World) calling(ctx context.Context, address string) (context.Context, error) {
	ctx, err := w.cluster(ctx)
	if err != nil {
		return nil, err
	}
	hook := webhookAt(address, nil)
	if _, err := w.admin.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, hook, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating a webhook: %w", err)
	}
	return ctx, nil
}

// called has a webhook asked about a ConfigMap, and returns what is answered.
func (w *World) called(ctx context.Context) error {
	_, err := w.admin.kube.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}
