package auth

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/server/options/authenticationconfig/metrics"
	"k8s.io/apiserver/pkg/util/filesystem"
	"k8s.io/klog/v2"
)

const (
	// configPollInterval is how often the configuration file is read, if nothing notifies of changes.
	configPollInterval = time.Minute
	// providersTimeout is how long new providers may take to fetch their keys, and how long
	// requests that came before them may take.
	providersTimeout = time.Minute
)

// configured accepts the tokens of the identity providers of the configuration
// file, which may change while the server runs. A file that is wrong, or whose
// providers do not answer, leaves those in use that are.
type configured struct {
	options  Options
	serverID string
	timeout  time.Duration
	inUse    atomic.Pointer[providers]

	// seen is the content of the file that was tried last, anonymous what it said
	// about anonymous requests at first: that does not change. Only reload uses them.
	seen      string
	anonymous *apiserver.AnonymousAuthConfig
}

// newConfigured reads the file, if there is one, and follows it until ctx ends.
func newConfigured(ctx context.Context, o Options, serverID string) (*configured, error) {
	c := &configured{options: o, serverID: serverID, timeout: providersTimeout}
	if o.ConfigFile == "" {
		c.inUse.Store(&providers{end: func() {}})
		return c, nil
	}
	data, config, err := o.load()
	if err != nil {
		return nil, err
	}
	p, err := newProviders(ctx, config.JWT, o.Issuers)
	if err != nil {
		return nil, err
	}
	c.seen, c.anonymous = data, config.Anonymous
	c.inUse.Store(p)
	return c, nil
}

// AuthenticateToken implements authenticator.Token.
func (c *configured) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	return c.inUse.Load().AuthenticateToken(ctx, token)
}

// follow takes over what the file says until ctx ends.
func (c *configured) follow(ctx context.Context) {
	if c.options.ConfigFile == "" {
		return
	}
	metrics.RegisterMetrics()
	metrics.RecordAuthenticationConfigLastConfigInfo(c.serverID, c.seen)
	logger := klog.FromContext(ctx).WithValues("file", c.options.ConfigFile)
	filesystem.WatchUntil(ctx, configPollInterval, c.options.ConfigFile, func() {
		changed, err := c.reload(ctx)
		switch {
		case err != nil:
			metrics.RecordAuthenticationConfigAutomaticReloadFailure(c.serverID)
			logger.Error(err, "The configuration of authentication stays as it was")
		case changed:
			metrics.RecordAuthenticationConfigAutomaticReloadSuccess(c.serverID, c.seen)
			logger.Info("The configuration of authentication was reloaded")
		}
	}, func(err error) { logger.Error(err, "Watching the configuration of authentication failed") })
}

// reload reads the file once. What is wrong with a file is said once; one that
// cannot be read, or whose providers do not answer, is tried again.
func (c *configured) reload(ctx context.Context) (changed bool, err error) {
	content, err := os.ReadFile(c.options.ConfigFile)
	if err != nil {
		return false, fmt.Errorf("reading --authentication-config: %w", err)
	}
	data := string(content)
	if data == c.seen {
		return false, nil
	}
	config, err := c.options.parse(content)
	if err == nil && !reflect.DeepEqual(config.Anonymous, c.anonymous) {
		err = errors.New("reading --authentication-config: anonymous cannot change while the server runs")
	}
	var next *providers
	if err == nil {
		next, err = newProviders(ctx, config.JWT, c.options.Issuers)
	}
	if err != nil {
		c.seen = data
		return false, err
	}
	if err := next.wait(ctx, c.timeout); err != nil {
		next.end()
		return false, err
	}
	c.seen = data
	time.AfterFunc(c.timeout, c.inUse.Swap(next).end)
	return true, nil
}

// wait returns when all providers have answered.
func (p *providers) wait(ctx context.Context, timeout time.Duration) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, timeout/60, timeout, true, func(context.Context) (bool, error) {
		last = nil
		for _, healthy := range p.healthy {
			last = errors.Join(last, healthy())
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the keys of identity providers: %w", errors.Join(last, err))
	}
	return nil
}
