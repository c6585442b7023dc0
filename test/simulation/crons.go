package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

var cronJobs = schema.GroupResource{Group: "batch", Resource: "cronjobs"}

const (
	// schedule is how far apart the runs of all CronJobs are, whatever they say: minutes would be too few of them.
	schedule = 20 * time.Second
	// runTime is how long a job of theirs runs.
	runTime = 7 * time.Second
)

const (
	// RunOnce: of a CronJob that runs in one place, what was due is not begun again while it runs, or after it ran.
	RunOnce = "no run is begun twice"
	// NoneMissed: what was due since the last run is begun where a CronJob goes on.
	NoneMissed = "no run is missed"
	// JobsEnd: a CronJob leaves between two runs.
	JobsEnd = "jobs run to their end"
)

// schedule: a user has jobs begun from time to time, changes them, suspends that, or has it end.
func (w *World) schedule(h Happening) {
	h.Resource = cronJobs
	w.writeSpec(h, map[string]any{
		"schedule": "* * * * *", "concurrencyPolicy": "Allow", "suspend": h.N%9 == 0,
		"jobTemplate": map[string]any{"spec": map[string]any{"template": template(h.Name, "v"+string(rune('a'+h.N%5)), h.N)}},
	})
}

// cron is the controller of CronJobs: it begins what was due last since the last run, or since it is there. Once all is
// repaired nothing is due any more, by which a world comes to rest.
func (p *physical) cron(key kube.Key, c *unstructured.Unstructured) (time.Duration, error) {
	status := part(c.DeepCopy(), "status")
	if status == nil {
		status = map[string]any{}
	}
	var ended []*unstructured.Unstructured
	running := map[string]bool{}
	for _, job := range p.owned(c) {
		if isEnded(job) {
			ended = append(ended, job)
		} else if resourceOf(job) == jobs {
			running[string(job.GetUID())] = true
		}
	}
	active, _ := status["active"].([]any)
	active = slices.DeleteFunc(active, func(of any) bool { return !running[of.(map[string]any)["uid"].(string)] })
	slices.SortFunc(ended, func(a, b *unstructured.Unstructured) int {
		return cmp.Compare(timeOf(a, "status", "completionTime").Unix(), timeOf(b, "status", "completionTime").Unix())
	})
	if len(ended) > 0 {
		status["lastSuccessfulTime"] = text(ended[len(ended)-1], "status", "completionTime")
	}
	for _, job := range ended[:max(0, len(ended)-1)] {
		if job.GetDeletionTimestamp() == nil {
			return 0, p.api.Delete(controllers, p.api.KeyOf(jobs, job), kube.DeleteOptions{UID: job.GetUID(), Propagation: metav1.DeletePropagationBackground})
		}
	}
	due := p.world.now().Truncate(schedule)
	since := timeOf(c, "status", "lastScheduleTime")
	if since.IsZero() {
		since = c.GetCreationTimestamp().Time
	}
	suspended, _ := part(c, "spec")["suspend"].(bool)
	next := due.Add(schedule).Sub(p.world.now())
	if c.GetDeletionTimestamp() == nil && !suspended && due.After(since) && (p.world.troubled || p.isBegun(c, since)) {
		job, err := p.runAt(c, due)
		if job == nil || err != nil {
			return time.Second, err
		}
		if p.world.rng.IntN(2) == 0 && !running[string(job.GetUID())] {
			return time.Second, nil // that it began is written a moment later
		}
		status["lastScheduleTime"] = due.UTC().Format(time.RFC3339)
		if !isEnded(job) {
			active = append(active, map[string]any{"name": job.GetName(), "namespace": job.GetNamespace(), "uid": string(job.GetUID())})
		}
	}
	if delete(status, "active"); len(active) > 0 {
		status["active"] = active
	}
	if len(status) == 0 || equality.Semantic.DeepEqual(status, part(c, "status")) {
		return next, nil
	}
	u := c.DeepCopy()
	u.Object["status"] = status
	_, err := p.api.UpdateStatus(controllers, cronJobs, u) // of the version that was looked at
	return next, err
}

// isBegun says that a job was begun that was due since then.
func (p *physical) isBegun(c *unstructured.Unstructured, since time.Time) bool {
	return slices.ContainsFunc(p.owned(c), func(job *unstructured.Unstructured) bool {
		due, err := time.Parse(time.RFC3339, job.GetAnnotations()[batchv1.CronJobScheduledTimestampAnnotation])
		return err == nil && due.After(since)
	})
}

// runAt is the job of what was due; nil as long as another one has its name.
func (p *physical) runAt(c *unstructured.Unstructured, due time.Time) (*unstructured.Unstructured, error) {
	job := newObject(jobs, c.GetNamespace(), fmt.Sprintf("%s-%d", c.GetName(), due.Unix()/int64(schedule.Seconds())))
	if there := cast(p.api.Find(p.api.KeyOf(jobs, job))); there != nil {
		if owner := metav1.GetControllerOfNoCopy(there); owner == nil || owner.UID != c.GetUID() || there.GetDeletionTimestamp() != nil {
			return nil, nil
		}
		return there, nil
	}
	of := &unstructured.Unstructured{Object: part(c.DeepCopy(), "spec", "jobTemplate")}
	job.SetOwnerReferences([]metav1.OwnerReference{kube.OwnerOf(c)})
	job.SetLabels(of.GetLabels())
	annotations := maps.Clone(of.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[batchv1.CronJobScheduledTimestampAnnotation] = due.UTC().Format(time.RFC3339)
	job.SetAnnotations(annotations)
	job.Object["spec"] = of.Object["spec"]
	made, err := p.api.Create(controllers, jobs, job)
	if err != nil {
		return nil, tolerate(nil, err)
	}
	return cast(made), nil
}

func isEnded(job kube.Object) bool { return text(job, "status", "completionTime") != "" }

// timeOf is a time in an object; zero if there is none.
func timeOf(obj kube.Object, path ...string) time.Time {
	t, _ := time.Parse(time.RFC3339, text(obj, path...))
	return t
}

// cronRun is a job of a CronJob that was begun.
type cronRun struct {
	due   time.Time
	on    *physical
	job   types.UID
	ended bool
}

// cronRuns is what is known of the runs of CronJobs, by the UID of these above.
type cronRuns struct {
	begun map[types.UID][]*cronRun
	// carried is since when a copy is recorded, by its UID: it knows by then what ran before it.
	carried map[types.UID]time.Time
	// meddled are those of which somebody changed a copy below.
	meddled map[types.UID]bool
}

func newRuns() cronRuns {
	return cronRuns{begun: map[types.UID][]*cronRun{}, carried: map[types.UID]time.Time{}, meddled: map[types.UID]bool{}}
}

// scheduled sees what happens to CronJobs and their jobs below.
func (l *ledger) scheduled(p *physical, e kube.Event) {
	switch {
	case !l.world.crons:
	case e.Key.Resource == cronJobs:
		l.cronChanges(p, e)
	case e.Key.Resource != jobs || e.New == nil:
	case e.Old == nil && e.By == controllers:
		l.begins(p, e)
	case isEnded(e.New):
		for _, list := range l.runs.begun {
			for _, r := range list {
				r.ended = r.ended || r.job == e.New.GetUID()
			}
		}
	}
}

// cronChanges: none goes from where it is to leave while a job of it runs.
func (l *ledger) cronChanges(p *physical, e kube.Event) {
	obj := e.Old
	if obj == nil {
		obj = e.New
	}
	m, ok := syncer.MarkOf(cronJobs, obj)
	if !ok {
		return
	}
	goes := e.New == nil || e.New.GetDeletionTimestamp() != nil
	if e.By == people || goes && e.By == controllers && obj.GetDeletionTimestamp() == nil { // with a Namespace, or by hand
		l.runs.meddled[m.UID] = true
	}
	_, above := l.world.api.ByUID(m.UID)
	if !isSyncer(e.By) || !goes || obj.GetDeletionTimestamp() != nil || above == nil || above.GetDeletionTimestamp() != nil || l.turnedBack > 0 {
		return
	}
	if list, _, _ := unstructured.NestedSlice(cast(obj).Object, "status", "active"); len(list) > 0 && targetsOf(above)[p.name].State == placementv1alpha1.TargetStateRemoving {
		l.world.fail(JobsEnd, "%s is removed from %s while %v runs", e.Key, p.name, list)
	}
}

// begins checks a run that begins.
func (l *ledger) begins(p *physical, e kube.Event) {
	owner := metav1.GetControllerOfNoCopy(e.New)
	if owner == nil {
		return
	}
	key, c := p.api.ByUID(owner.UID)
	if c == nil || key.Resource != cronJobs {
		return
	}
	m, ok := syncer.MarkOf(cronJobs, c)
	_, above := l.world.api.ByUID(m.UID)
	if !ok || above == nil {
		return
	}
	due, _ := time.Parse(time.RFC3339, e.New.GetAnnotations()[batchv1.CronJobScheduledTimestampAnnotation])
	before := l.runs.begun[m.UID]
	l.runs.begun[m.UID] = append(before, &cronRun{due: due, on: p, job: e.New.GetUID()})
	if l.isUnsure(m.UID) {
		return
	}
	last := above.GetCreationTimestamp().Time
	for _, r := range before {
		_, job := r.on.api.ByUID(r.job)
		if r.due.Equal(due) && (r.ended || job != nil && job.GetDeletionTimestamp() == nil) {
			l.world.fail(RunOnce, "%s begins %s on %s, which began on %s before", m.Name, e.Key, p.name, r.on.name)
		}
		if r.due.Before(due) && r.due.After(last) {
			last = r.due
		}
	}
	missed := due.Add(-schedule)
	carried, ok := l.runs.carried[c.GetUID()]
	if ok && carried.Add(2*time.Second).Before(due) && missed.After(last) && c.GetCreationTimestamp().After(missed) {
		l.world.fail(NoneMissed, "%s begins %s on %s, where its copy is recorded since %s: the last run was due at %s, and that of %s was not begun",
			m.Name, e.Key, p.name, carried, last, missed)
	}
}

// isUnsure says that it cannot be known, or that it was not meant, that a CronJob runs in one place without a gap.
func (l *ledger) isUnsure(uid types.UID) bool {
	if l.turnedBack > 0 || l.runs.meddled[uid] || l.world.withdraws || l.world.losesRuns {
		return true
	}
	if slices.ContainsFunc(l.world.clusters, func(p *physical) bool { return p.rewound || p.emptied || p.dead }) {
		return true
	}
	return slices.ContainsFunc(l.versions[uid], func(v *unstructured.Unstructured) bool {
		keeps := 0
		for _, t := range targetsOf(v) {
			if t.Keeps() {
				keeps++
			}
		}
		suspended, _ := part(v, "spec")["suspend"].(bool)
		return keeps > 1 || suspended
	})
}

// carriesRuns notes since when a copy of a CronJob is recorded.
func (l *ledger) carriesRuns(c *placementv1alpha1.Copy) {
	uid := c.Status.PhysicalUID
	if _, known := l.runs.carried[uid]; c.Spec.Object.Resource == cronJobs.Resource && uid != "" && !known && c.Status.Reason != syncer.ReasonRunMayBeMissed {
		l.runs.carried[uid] = l.world.now()
	}
}

// runsConverged: an object shows the last run of all.
func (w *World) runsConverged(key kube.Key, obj *unstructured.Unstructured) {
	last := time.Time{}
	for _, r := range w.ledger.runs.begun[obj.GetUID()] {
		if r.ended && r.due.After(last) {
			last = r.due
		}
	}
	if said := timeOf(obj, "status", "lastScheduleTime"); said.Before(last) && !w.ledger.isUnsure(obj.GetUID()) {
		w.fail(Converges, "the last run of %s was due at %s, and it shows %s", key, last, said)
	}
}

// losing are verbs by which a CronJob may run where nobody can stop it.
var losing = []string{"lose", "limit silence", "forget", "force"}
