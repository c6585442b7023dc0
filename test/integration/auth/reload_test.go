package auth

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func TestTheConfigurationOfAuthenticationIsReloaded(t *testing.T) {
	first, second := newProvider(t), newProvider(t)
	t.Cleanup(func() { first.server.Close(); second.server.Close() })
	path := write(t, t.TempDir(), "authentication.yaml", first.config())
	s := server.StartWith(t, func(o *app.Options) { o.Auth.ConfigFile = path })
	bind(s.NewCluster(t, "reload"), t, s, "view", "oscar")
	inAnHour := time.Now().Add(time.Hour)
	of := func(p *identityProvider) error {
		_, err := whoAmI(t, s, "reload", p.token(t, "oscar", inAnHour))
		return err
	}
	replace := func(content string) {
		t.Helper() // as editors and the kubelet do it: by a rename
		if err := os.Rename(write(t, filepath.Dir(path), "new", content), path); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the first provider is known", func() error { return of(first) })
	if err := of(second); !apierrors.IsUnauthorized(err) {
		t.Errorf("the second: %v, want Unauthorized", err)
	}
	replace(second.config())
	eventually(t, "the second provider is known", func() error { return of(second) })
	if err := of(first); !apierrors.IsUnauthorized(err) {
		t.Errorf("the first, which is not there any more: %v, want Unauthorized", err)
	}
	replace("nonsense")
	eventually(t, "a failure is counted", func() error {
		metrics, err := client(s.Config).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(in(t, "root"))
		if err == nil && !strings.Contains(string(metrics), `apiserver_authentication_config_controller_automatic_reloads_total{apiserver_id_hash="sha256:`) {
			err = errors.New("no reload is counted")
		}
		if err == nil && !strings.Contains(string(metrics), `status="failure"} 1`) {
			err = errors.New("no failure is counted")
		}
		return err
	})
	if err := of(second); err != nil {
		t.Errorf("after a wrong file: %v", err)
	}
	replace(first.config())
	eventually(t, "the first provider is known again", func() error { return of(first) })
}
