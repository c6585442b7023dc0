package storage_test

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"k8s.io/klog/v2"
)

// parallel tests run at a time: they wait for etcd's clocks, not for a processor.
const parallel = 16

func TestMain(m *testing.M) {
	klog.InitFlags(nil)
	for name, value := range map[string]string{
		"test.parallel":   strconv.Itoa(parallel),
		"logtostderr":     "false",
		"stderrthreshold": "FATAL",
	} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}
