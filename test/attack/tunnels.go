package attack

import (
	"context"
	"fmt"
	"net/http"

	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/tunnel"
)

// tunnels lead to whoever opened them.
var tunnels = Attack{
	Name: "a syncer opens no tunnel but its own, gets no stream through that of another one, and reaches into no pod through the server",
	Fence: func(ctx context.Context, w *World) error {
		ctx, err := w.placed(ctx)
		if err != nil {
			return err
		}
		shop, _ := scope.ClusterFrom(ctx)
		east, mine := scope.Scope{Cluster: scope.Root, Target: "east"}.Path(), scope.Scope{Cluster: shop, Target: Mallory}.Path()
		const pod = "/api/v1/namespaces/default/pods/a"
		for method, paths := range map[string][]string{
			http.MethodGet: {
				"/clusters/root" + tunnel.PeerPath + "east", "/clusters/root" + tunnel.PeerPath + Mallory, east + tunnel.PeerPath + "east", "/clusters/" + shop.String() + tunnel.PeerPath + "east",
				east + tunnel.Path, mine + tunnel.Path, "/clusters/root" + tunnel.Path, "/targets/" + Mallory + "/clusters/*" + tunnel.Path,
				mine + pod + "/log", mine + pod + "/exec?command=id", mine + pod + "/proxy/", mine + "/api/v1/namespaces/default/services/a/proxy/", "/clusters/" + shop.String() + pod + "/log",
			},
			http.MethodPost: {mine + pod + "/exec?command=id", mine + pod + "/attach", mine + pod + "/portforward"},
		} {
			for _, path := range paths {
				got, err := ask(ctx, w.mallory.config, method, path, "")
				if err != nil {
					return err
				}
				if got.code != http.StatusForbidden {
					return fmt.Errorf("%s %s is answered %d", method, path, got.code)
				}
			}
		}
		return nil
	},
	Control: func(ctx context.Context, w *World) error {
		path := scope.Scope{Cluster: scope.Root, Target: Mallory}.Path() + tunnel.Path
		got, err := ask(ctx, w.mallory.config, http.MethodGet, path, "")
		if err != nil {
			return err
		}
		if got.code == http.StatusForbidden || got.code == http.StatusUnauthorized {
			return fmt.Errorf("%s is answered %d: it may not open its own tunnel either", path, got.code)
		}
		return nil
	},
}
