package auth

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAWrongConfigurationLeavesTheOneInUse(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: false}\n"
	const silent = head + "jwt:\n- issuer: {url: 'https://127.0.0.1:1', audiences: [a]}\n  claimMappings: {username: {claim: sub, prefix: ''}}\n"
	o := NewOptions()
	o.ConfigFile = filepath.Join(t.TempDir(), "c.yaml")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(o.ConfigFile, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(head)
	c, err := newConfigured(t.Context(), o, "test")
	if err != nil {
		t.Fatal(err)
	}
	c.timeout = 60 * time.Millisecond
	for _, step := range []struct {
		name, content, problem string
		changed                bool
	}{
		{"the same", head, "", false},
		{"no configuration", "nonsense", "couldn't get version/kind", false},
		{"no configuration, still", "nonsense", "", false}, // which was said
		{"other anonymous requests", strings.Replace(head, "false", "true", 1), "anonymous cannot change", false},
		{"an issuer of ours", head + "jwt:\n- issuer: {url: 'https://atoll.dev/clusters/shop', audiences: [a]}\n  claimMappings: {username: {claim: sub, prefix: ''}}\n", "is that of service accounts", false},
		{"a provider that does not answer", silent, "waiting for the keys", false},
		{"a provider that does not answer, still", silent, "waiting for the keys", false},
		{"a good one", head + "# changed\n", "", true},
		{"as at first", head, "", true},
	} {
		write(step.content)
		before := c.inUse.Load()
		changed, err := c.reload(t.Context())
		if (err == nil) != (step.problem == "") || err != nil && !strings.Contains(err.Error(), step.problem) {
			t.Errorf("%s: %v, want %q", step.name, err, step.problem)
		}
		if changed != step.changed || (c.inUse.Load() != before) != step.changed {
			t.Errorf("%s: changed %v, want %v", step.name, changed, step.changed)
		}
	}
	if err := os.Remove(o.ConfigFile); err != nil {
		t.Fatal(err)
	}
	if changed, err := c.reload(t.Context()); changed || err == nil {
		t.Errorf("no file: %v, %v", changed, err)
	}
}
