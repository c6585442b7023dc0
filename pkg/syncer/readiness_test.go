package syncer_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

func TestConditionsOfAPhysicalClusterSayNoMoreThanIsKnown(t *testing.T) {
	silent := &syncer.Failure{Reason: fleetv1alpha1.ReasonUnreachable, Message: "the physical cluster cannot be reached: EOF"}
	now := time.Unix(1000, 0)
	// without has no watch of two kinds for some seconds, of the first for a second more.
	without := func(err error, seconds int) syncer.Readiness {
		since := now.Add(-time.Duration(seconds) * time.Second)
		return syncer.Readiness{Identified: true, Watching: true, Now: now, Unwatched: []syncer.Unwatched{
			{Objects: "secrets on east", Since: since, Err: err}, {Objects: "pods on east", Since: since.Add(-time.Second), Err: err},
		}}
	}
	awaiting := func(r syncer.Readiness) syncer.Readiness { r.Watching, r.Awaited = false, "pods on east"; return r }
	failing := func(r syncer.Readiness) syncer.Readiness { r.Failure = silent; return r }
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("secret"))
	for name, c := range map[string]struct {
		is   syncer.Readiness
		want string
	}{
		"all is well":                 {syncer.Readiness{Identified: true, Watching: true}, "Ready=True Heartbeat, Syncing=True Watching"},
		"it does not answer":          {syncer.Readiness{Identified: true, Watching: true, Failure: silent}, "Ready=False Unreachable, Syncing=Unknown Unreachable"},
		"no watches yet":              {syncer.Readiness{Identified: true}, "Ready=True Heartbeat, Syncing=False Starting"},
		"no watches, and no answer":   {syncer.Readiness{Identified: true, Failure: silent}, "Ready=False Unreachable, Syncing=False Starting"},
		"nobody knows who it is":      {syncer.Readiness{Failure: silent}, "Ready=False Unreachable, Syncing=False Identifying"},
		"watches on another one":      {syncer.Readiness{Watching: true}, "Ready=True Heartbeat, Syncing=False Identifying"},
		"a list that does not end":    {syncer.Readiness{Identified: true, Awaited: "pods on east"}, "Ready=True Heartbeat, Syncing=False Starting"},
		"no watch for a moment":       {without(forbidden, 28), "Ready=True Heartbeat, Syncing=True Watching"},
		"no watch, not permitted":     {without(forbidden, 30), "Ready=True Heartbeat, Syncing=False Forbidden"},
		"no watch, not accepted":      {without(apierrors.NewUnauthorized("secret"), 30), "Ready=True Heartbeat, Syncing=False Forbidden"},
		"no watch, an error":          {without(apierrors.NewInternalError(errors.New("secret")), 30), "Ready=True Heartbeat, Syncing=False NotWatching"},
		"no watch, no answer":         {without(errors.New("secret"), 30), "Ready=True Heartbeat, Syncing=False NotWatching"},
		"no watch, as of the rest":    {failing(without(errors.New("secret"), 30)), "Ready=False Unreachable, Syncing=Unknown Unreachable"},
		"no list, not permitted":      {awaiting(without(forbidden, 30)), "Ready=True Heartbeat, Syncing=False Forbidden"},
		"no list for a moment":        {awaiting(without(forbidden, 28)), "Ready=True Heartbeat, Syncing=False Starting"},
		"given up":                    {syncer.Readiness{Forgotten: true, Identified: true, Watching: true}, "Ready=True Heartbeat"},
		"given up, and it is silent":  {syncer.Readiness{Forgotten: true, Failure: silent}, "Ready=False Unreachable"},
		"orphans change no condition": {syncer.Readiness{Identified: true, Watching: true, Undecided: 3}, "Ready=True Heartbeat, Syncing=True Watching"},
	} {
		var got []string
		for _, condition := range c.is.Conditions(7) {
			got = append(got, condition.Type+"="+string(condition.Status)+" "+condition.Reason)
			if condition.ObservedGeneration != 7 || condition.Message == "" {
				t.Errorf("%s: %+v", name, condition)
			}
			counts := strings.Contains(condition.Message, "3 objects there")
			if counts != (c.is.Undecided == 3 && condition.Type == fleetv1alpha1.ConditionSyncing) {
				t.Errorf("%s: %s says %q", name, condition.Type, condition.Message)
			}
			if condition.Type == fleetv1alpha1.ConditionSyncing && !strings.Contains(condition.Message, c.is.Awaited) {
				t.Errorf("%s: it does not say what is awaited: %s", name, condition.Message)
			}
			if condition.Type == fleetv1alpha1.ConditionReady && condition.Status == metav1.ConditionTrue && c.is.Failure != nil {
				t.Errorf("%s: it is ready", name)
			}
			if says := condition.Reason == fleetv1alpha1.ReasonForbidden || condition.Reason == fleetv1alpha1.ReasonNotWatching; says != strings.Contains(condition.Message, ", as ") ||
				says && !strings.Contains(condition.Message, "pods on east") || strings.Contains(condition.Message, "secret ") {
				t.Errorf("%s: %s says %q", name, condition.Type, condition.Message)
			}
		}
		if all := strings.Join(got, ", "); all != c.want {
			t.Errorf("%s: %s, not %s", name, all, c.want)
		}
	}
}

func TestAPhysicalClusterThatCannotBeWorkedWithIsExplainedWithoutSecrets(t *testing.T) {
	nodes := corev1.Resource("nodes")
	for name, c := range map[string]struct {
		err               error
		reason            string
		message, identity string
	}{
		"credentials": {apierrors.NewUnauthorized("token abc"), fleetv1alpha1.ReasonForbidden, "does not accept the credentials", "does not accept"},
		"permissions": {apierrors.NewForbidden(nodes, "", errors.New("no")), fleetv1alpha1.ReasonForbidden, "do not permit what", "permit to get the namespace kube-system"},
		"not there":   {apierrors.NewNotFound(nodes, "a"), fleetv1alpha1.ReasonUnreachable, "answers with 404", "has no namespace kube-system"},
		"an answer":   {apierrors.NewServiceUnavailable("x"), fleetv1alpha1.ReasonUnreachable, "answers with 503", "answers with 503"},
		"no answer": {
			&url.Error{Op: "Get", URL: "https://user:secret@east", Err: errors.New("connection refused")},
			fleetv1alpha1.ReasonUnreachable, "cannot be reached: connection refused", "connection refused",
		},
	} {
		for message, got := range map[string]*syncer.Failure{c.message: syncer.ContactFailure(c.err), c.identity: syncer.IdentityFailure(c.err)} {
			if got.Reason != c.reason || !strings.Contains(got.Message, message) || strings.Contains(got.Message, "secret") || strings.Contains(got.Message, "abc") {
				t.Errorf("%s: %s: %s", name, got.Reason, got.Message)
			}
		}
	}
}
