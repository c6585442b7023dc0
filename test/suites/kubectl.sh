# Runs one group of upstream's test/cmd, the tests of kubectl, against one cluster: in a
# copy of k8s.io/kubernetes whose test/cmd has the token of that cluster. Sourced by a
# bash of its own (hack/suites.sh), which sets:
#   copy   the copy, and the working directory
#   group  the function to run
#   server the URL of the cluster without "https://": the suite puts that in front
#   token  of an admin
#   scratch  a directory for everything else, the home directory among it
export HOME=$scratch TMPDIR=$scratch KUBE_JUNIT_REPORT_DIR=$scratch/junit TERM=${TERM:-xterm}
[ "$TERM" != dumb ] || TERM=xterm # it colours what it says
KUBE_TEMP=$scratch SECURE_API_PORT=${server#*:} CONTEXT=test SUPPORTED_RESOURCES=("*") WHAT=$group
source hack/lib/init.sh
source hack/lib/test.sh
source test/cmd/legacy-script.sh
kube::util::ensure-gnu-sed
kubectl config set-credentials test-admin --token "$token" >/dev/null
kubectl config set-cluster local --insecure-skip-tls-verify --server "https://$server" >/dev/null
kubectl config set-context test --user test-admin --cluster local >/dev/null
kubectl config use-context test >/dev/null
# What upstream makes before the first group.
kubectl create -f - <<<'{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "127.0.0.1", "annotations": {"save-managers": "true"}}, "status": {"capacity": {"memory": "1Gi"}}}' || true
trap stop-proxy EXIT
runTests
