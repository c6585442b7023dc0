package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/atoll-dev/atoll/test/framework/process"
	"github.com/atoll-dev/atoll/test/framework/slowdisk"
)

func TestADiskThatDoesNotAnswerIsSaidAndOutlived(t *testing.T) {
	t.Parallel()
	if err := slowdisk.Missing(); err != nil {
		t.Skip(err)
	}
	dir := shortDir(t)
	disk, err := slowdisk.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(disk.Close)
	d := startAlone(t, dir, func(s process.Spec) process.Spec {
		on, err := disk.Spec(s)
		if err != nil {
			t.Fatal(err)
		}
		return on
	})
	ctx := t.Context()
	for i := range 5 {
		if err := d.write(ctx, fmt.Sprintf("c%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if disk.Syncs() == 0 {
		t.Fatal("the server syncs nothing: the disk is not its own")
	}

	release := disk.Stall()
	t.Cleanup(release)
	for begin, i := time.Now(), 0; time.Since(begin) < 30*time.Second; i++ {
		err := d.writeOf(ctx, fmt.Sprintf("unknown%d", i), "small")
		if !apierrors.IsTimeout(err) || !strings.Contains(err.Error(), "its disk is slow or does not answer: whether it is stored is not known") {
			t.Errorf("a write was answered %v", err)
		}
	}
	if !d.server.Running() {
		t.Fatal("the server ended")
	}
	release()
	d.recovers(t, "after")
	d.check(t)

	disk.Delay(300 * time.Millisecond)
	begin := time.Now()
	if err := d.write(ctx, "slow"); err != nil || time.Since(begin) < 300*time.Millisecond {
		t.Errorf("a write to a slow disk took %s: %v", time.Since(begin), err)
	}
	d.server.Kill() // what was acknowledged is on the disk
	disk.Delay(0)
	if err := d.server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	d.check(t)
}
