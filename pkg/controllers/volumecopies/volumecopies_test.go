package volumecopies

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/volume/content"
)

// ends are both ends of an attempt, as their pods have them.
type ends struct {
	filler, source net.Conn
	reports        []progress
	err            chan error
}

func begin(t *testing.T, limit int64) *ends {
	t.Helper()
	e := &ends{err: make(chan error, 1)}
	filler, source := net.Conn(nil), net.Conn(nil)
	e.filler, filler = net.Pipe()
	e.source, source = net.Pipe()
	p := passing{filler: filler, limit: limit, source: func(context.Context) (net.Conn, error) { return source, nil }, report: func(p progress) { e.reports = append(e.reports, p) }}
	go func() { e.err <- p.run(t.Context()) }()
	t.Cleanup(func() { e.filler.Close(); e.source.Close() })
	return e
}

func (e *ends) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-e.err:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
		return nil
	}
}

func say(t *testing.T, to io.Writer, s content.Said) {
	t.Helper()
	if err := content.Say(to, s); err != nil {
		t.Fatal(err)
	}
}

func TestWhatOneEndSendsReachesTheOtherUntilThatHasAll(t *testing.T) {
	e := begin(t, 1<<20)
	say(t, e.filler, content.Said{State: content.Ready})
	go func() { _, _ = e.source.Write(bytes.Repeat([]byte{7}, 100_000)) }()
	got := make([]byte, 100_000)
	if _, err := io.ReadFull(e.filler, got); err != nil || got[99_999] != 7 {
		t.Fatalf("%v", err)
	}
	say(t, e.filler, content.Said{State: content.Verifying})
	say(t, e.filler, content.Said{State: content.Done})
	if err := e.end(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]progress{{begins: true}, {bytes: 100_000}}, e.reports, cmp.AllowUnexported(progress{})); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

func TestAnAttemptEndsWithEitherEndAndSaysWhy(t *testing.T) {
	for want, c := range map[string]struct {
		limit int64
		do    func(t *testing.T, e *ends)
	}{
		"disk is full": {1 << 20, func(t *testing.T, e *ends) {
			say(t, e.filler, content.Said{State: content.Ready})
			say(t, e.filler, content.Said{State: content.Failed, Message: "disk is full"})
		}},
		"listening to the pod that fills the volume: EOF": {1 << 20, func(t *testing.T, e *ends) {
			say(t, e.filler, content.Said{State: content.Ready})
			e.filler.Close()
		}},
		"the pod that reads the volume has gone": {1 << 20, func(t *testing.T, e *ends) {
			say(t, e.filler, content.Said{State: content.Ready})
			e.source.Close()
		}},
		"there is more to copy than maxBytes": {1000, func(t *testing.T, e *ends) {
			say(t, e.filler, content.Said{State: content.Ready})
			go func() { _, _ = io.Copy(io.Discard, e.filler) }()
			_, _ = e.source.Write(make([]byte, 2000))
		}},
		"a line is too long": {1 << 20, func(t *testing.T, e *ends) {
			_, _ = e.filler.Write([]byte(strings.Repeat("x", 10_000)))
		}},
		"the pod that fills the volume is Filling": {1 << 20, func(t *testing.T, e *ends) {
			say(t, e.filler, content.Said{State: content.Filling})
		}},
	} {
		e := begin(t, c.limit)
		c.do(t, e)
		err := e.end(t)
		if last := e.reports[len(e.reports)-1]; err == nil || !strings.Contains(err.Error(), want) || last.ended != bounded(err.Error()) {
			t.Errorf("%v, reported %+v; want %q", err, last, want)
		}
	}
}

// Reading all of a large volume again takes longer than an idle connection is kept.
func TestWhoHasSentAllMayGoWhileThatIsReadAgain(t *testing.T) {
	p := passing{limit: 10}
	if err := p.pass(strings.NewReader("")); err == nil || !strings.Contains(err.Error(), "has gone") {
		t.Fatalf("VOID: who goes before that ends with %v", err)
	}
	var said bytes.Buffer
	say(t, &said, content.Said{State: content.Verifying})
	say(t, &said, content.Said{State: content.Done})
	if err := p.listen(content.NewListener(&said)); err != nil {
		t.Fatal(err)
	}
	if err := p.pass(strings.NewReader("")); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

func TestAsMuchAsIsPermittedIsPassedOnAndNoMore(t *testing.T) {
	for size, tooLong := range map[int]bool{999: false, 1000: false, 1001: true, 5000: true} {
		filler, there := net.Pipe()
		drained := make(chan int64, 1)
		go func() { n, _ := io.Copy(io.Discard, there); drained <- n }()
		p := passing{limit: 1000, filler: filler}
		err := p.pass(bytes.NewReader(make([]byte, size)))
		filler.Close()
		if got := <-drained; errors.Is(err, content.ErrTooLong) != tooLong || got > 1001 {
			t.Errorf("of %d bytes %d are passed on, and it ends with %v", size, got, err)
		}
	}
}

func TestAttemptsThatEndComeLaterAndLater(t *testing.T) {
	c := &Controller{failed: map[controller.Request]int{}}
	key := controller.Request{Cluster: "shop", Name: "data"}
	var waits []string
	for range 9 {
		waits = append(waits, c.ended(key, errors.New("a device")).String())
	}
	want := []string{"5s", "10s", "20s", "40s", "1m20s", "2m40s", "5m0s", "5m0s", "5m0s"}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if again := c.ended(key, nil); again != saidInterval || c.ended(key, errors.New("a device")) != retryInterval {
		t.Errorf("after one that came to its end: %s", again)
	}
}

// What the server itself says on a Copy is no reason to begin again.
func TestOnlyWhatIsSaidOfAPodBeginsAnAttempt(t *testing.T) {
	copy := func(bytes int64, ready bool) *placementv1alpha1.Copy {
		return &placementv1alpha1.Copy{Status: placementv1alpha1.CopyStatus{
			Volume:   &placementv1alpha1.CopyVolume{Helper: &placementv1alpha1.VolumeHelper{Name: "copier", Ready: ready}},
			Transfer: &placementv1alpha1.CopyTransfer{From: "east", Bytes: bytes},
		}}
	}
	for _, c := range []struct {
		name       string
		last, next *placementv1alpha1.Copy
		want       bool
	}{
		{"it is new", nil, copy(0, true), true},
		{"it is ready", copy(0, false), copy(0, true), true},
		{"it goes on", copy(0, true), copy(5, true), false},
		{"it is gone", copy(0, true), nil, false},
		{"no pod", nil, &placementv1alpha1.Copy{}, false},
	} {
		if got := begins(c.last, c.next); got != c.want {
			t.Errorf("%s: begins %v", c.name, got)
		}
	}
}

func TestOnePhysicalClusterLeavesRoomForOthers(t *testing.T) {
	c := &Controller{copying: map[use]int{}}
	slow := map[use]int{{physical: "slow", as: "where data go"}: maxOfPhysicalCluster}
	for i := range maxOfPhysicalCluster {
		if !c.begin(slow) {
			t.Fatalf("copy %d has no room", i)
		}
	}
	both := map[use]int{{logical: "shop"}: maxOfCluster, {physical: "slow", as: "where data go"}: maxOfPhysicalCluster}
	if c.begin(both) || len(c.copying) != 1 {
		t.Errorf("one more: %v", c.copying)
	}
	c.end(slow)
	if !c.begin(both) {
		t.Error("there is no room after one has ended")
	}
}

func TestNoSourceMeansNoAttempt(t *testing.T) {
	there, filler := net.Pipe()
	var last progress
	p := passing{filler: filler, limit: 1, source: func(context.Context) (net.Conn, error) { return nil, errors.New("no tunnel") }, report: func(p progress) { last = p }}
	go func() { _ = content.Say(there, content.Said{State: content.Ready}) }()
	if err := p.run(t.Context()); err == nil || last.begins || !strings.Contains(last.ended, "no tunnel") {
		t.Errorf("%v, %+v", err, last)
	}
}

// Each row is what the stamp of the claim says, and whether data go from east to west.
func TestDataGoOnlyWhereTheClaimSaysNow(t *testing.T) {
	record := func(on, uid string, v *placementv1alpha1.CopyVolume) placementv1alpha1.Copy {
		c := placementv1alpha1.Copy{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "data-" + on + uid, Annotations: map[string]string{logicalcluster.AnnotationKey: "shop"}}}
		c.Spec.PhysicalCluster, c.Spec.Object = on, placementv1alpha1.ObjectReference{Resource: "persistentvolumeclaims", Name: "data", UID: "uid"}
		c.Status.Volume = v
		return c
	}
	ready := &placementv1alpha1.VolumeHelper{Name: "copier", Ready: true}
	other := record("east", "", &placementv1alpha1.CopyVolume{Released: true, Helper: ready})
	other.Name, other.Spec.Object.UID = "other", "of-before"
	west := record("west", "", &placementv1alpha1.CopyVolume{Helper: ready})
	reads := record("east", "", &placementv1alpha1.CopyVolume{Released: true, Helper: ready})
	held := record("east", "", &placementv1alpha1.CopyVolume{Helper: ready})
	const copied = `{"east":{"state":"Draining"},"west":{"volume":{"from":"east","copied":true}}}`
	for _, c := range []struct {
		name, targets, uid string
		east               placementv1alpha1.Copy
		want               bool
	}{
		{"copied", copied, "uid", reads, true},
		{"another claim by now", copied, "other", reads, false},
		{"abandoned", `{"east":{},"west":{"volume":{"from":"east","copied":true},"state":"Removing"}}`, "uid", reads, false},
		{"east goes on", `{"east":{},"west":{"volume":{"from":"east","copied":true}}}`, "uid", reads, false},
		{"it counts already", `{"east":{"state":"Removing"},"west":{}}`, "uid", reads, false},
		{"handed over", `{"east":{"state":"Draining"},"west":{"volume":{"from":"east"}}}`, "uid", reads, false},
		{"from elsewhere", `{"east":{"state":"Draining"},"west":{"volume":{"from":"north","copied":true}}}`, "uid", reads, false},
		{"used as yet", copied, "uid", held, false},
		{"of a claim of before", copied, "uid", other, false},
	} {
		list := &placementv1alpha1.CopyList{Items: []placementv1alpha1.Copy{c.east, west}}
		copies := controller.NewInformer("copies", &placementv1alpha1.Copy{}, controller.ListWatch{
			List:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list, nil },
			Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
		}, controller.InformerOptions[*placementv1alpha1.Copy]{Indexers: copyindex.Indexers()})
		go copies.Run(t.Context())
		if err := copies.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		claim := &metav1.PartialObjectMetadata{}
		claim.UID = "uid"
		if c.uid != "uid" {
			claim.UID = "other"
		}
		claim.Annotations = map[string]string{placementv1alpha1.TargetsAnnotation: c.targets}
		if got := (&Controller{Config: Config{Copies: copies}}).source(claim, &west); (got != nil) != c.want {
			t.Errorf("%s: from %v", c.name, got)
		}
	}
}
