# The lab: two physical clusters and one server on this machine, all state in one
# folder. Source it after lib.sh; used by quickstart.sh, smoke.sh and soak.sh.
#
#   $lab/east $lab/west   data directories of the physical clusters
#   $lab/atoll            data directory of the server
#   $lab/run              process numbers, logs and the server's port
#   $lab/demo.kubeconfig  the way into the logical cluster "demo"
# The server listens at 127.0.0.1, or at $lab_host, and has the flags of $server_flags.
physical_clusters=(east west)
server_flags=()
export KUBECACHEDIR=$lab/run/cache # kubectl leaves nothing in the home directory
command -v ps >/dev/null || fail "ps is needed (Debian package procps)"

pid_of() { cat "$lab/run/$1.pid" 2>/dev/null || true; }

# running NAME: the process is there and is the one that we started.
running() {
  local pid; pid=$(pid_of "$1")
  [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null && ps -o args= -p "$pid" | grep -qF "$lab"
}

# start NAME COMMAND...: runs a command beside this script, in a process group of
# its own, so that Ctrl-C reaches the script alone and it can stop them in order.
start() {
  local name=$1; shift
  set -m
  "$@" >"$lab/run/$name.log" 2>&1 </dev/null &
  printf '%s\n' $! >"$lab/run/$name.pid"
  set +m
}

# stop NAME: asks a process to end, and insists after a while.
stop() {
  local name=$1 pid; pid=$(pid_of "$name")
  if running "$name"; then
    kill -TERM "$pid" 2>/dev/null || true
    until_true 20 not_running "$name" || kill -KILL "$pid" 2>/dev/null || true
    until_true 5 not_running "$name" || true
  fi
  rm -f "$lab/run/$name.pid"
}
not_running() { ! running "$1"; }

# await NAME SECONDS COMMAND...: waits for a command to succeed while the process lives.
await() {
  local name=$1 deadline=$((SECONDS + $2)); shift 2
  until "$@" >/dev/null 2>&1; do
    if ! running "$name"; then
      tail -n 5 "$lab/run/$name.log" >&2
      fail "$name did not start; the whole log is $lab/run/$name.log"
    fi
    if ((SECONDS >= deadline)); then
      tail -n 5 "$lab/run/$name.log" >&2
      fail "$name is not ready in time; the whole log is $lab/run/$name.log"
    fi
    sleep 0.2
  done
}

port_taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# choose_port keeps the server's port over restarts: kubeconfigs name it.
choose_port() {
  local file=$lab/run/port
  if [ -s "$file" ]; then
    port=$(<"$file")
    port_taken "$port" && fail "port $port, which the server used before, is taken by another program; stop that, or start afresh with: make quickstart-down"
    return 0
  fi
  for _ in $(seq 50); do
    port=$((20000 + RANDOM % 10000))
    port_taken "$port" || { printf '%s\n' "$port" >"$file"; return 0; }
  done
  fail "no free port found between 20000 and 30000"
}

enough_disk() {
  local free; free=$(df -Pk "$lab" | awk 'NR == 2 { print int($4 / 1024) }')
  ((free >= 1024)) || fail "the disk that holds $lab has $free MiB left; 1024 MiB are needed"
}

as_admin() { "$kubectl" --kubeconfig "$lab/atoll/admin.kubeconfig" --context root "$@"; }
as_user() { "$kubectl" --kubeconfig "$lab/demo.kubeconfig" "$@"; }
on() { local name=$1; shift; "$kubectl" --kubeconfig "$lab/$name/admin.kubeconfig" "$@"; }

server_ready() { grep -q '^atoll serves at ' "$lab/run/atoll.log"; }

# lab_prepare makes $lab and finds out early what would stop lab_start.
lab_prepare() {
  mkdir -p "$lab/run"
  enough_disk
  choose_port
}

# lab_start runs everything, resuming from $lab.
lab_start() {
  for name in "${physical_clusters[@]}"; do
    start "$name" "$root/bin/localcluster" up --name "$name" --data-dir "$lab/$name" --nodes 5 # some applications spread over four
  done
  start atoll "$root/bin/atoll" start --data-dir "$lab/atoll" --listen "${lab_host:-127.0.0.1}:$port" --logical-cluster demo "${server_flags[@]}"
  for name in "${physical_clusters[@]}"; do
    await "$name" 120 grep -q ' is ready ' "$lab/run/$name.log"
  done
  await atoll 120 server_ready
  (umask 077 && "$root/bin/atoll" kubeconfig demo --data-dir "$lab/atoll" >"$lab/demo.kubeconfig") ||
    fail "no kubeconfig for the logical cluster demo"
}

# lab_register tells the server about the physical clusters and waits until they are Ready.
lab_register() {
  for name in "${physical_clusters[@]}"; do
    as_admin -n atoll-system create secret generic "$name-kubeconfig" --from-file=kubeconfig="$lab/$name/admin.kubeconfig" \
      --dry-run=client -o yaml | as_admin apply -f - >/dev/null
    sed "s/NAME/$name/g" "$root/config/samples/physicalcluster.yaml" | as_admin apply -f - >/dev/null
  done
  for name in "${physical_clusters[@]}"; do
    as_admin wait --for=condition=Ready --timeout=60s "physicalcluster/$name" >/dev/null || {
      as_admin get "physicalcluster/$name" -o jsonpath='{range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}' >&2
      fail "the physical cluster $name did not become Ready"
    }
  done
}

# lab_stop stops what runs: the server first, so that it sees no cluster vanish.
lab_stop() {
  for name in atoll "${physical_clusters[@]}"; do stop "$name"; done
}

# lab_throw_away NAME: makes the lab afresh and has it removed when the script ends. One
# that fails shows the ends of all logs and says so, with the step that $current names.
lab_throw_away() {
  lab_of=$1 current=
  trap 'exit 130' INT TERM
  trap lab_end EXIT
  lab_stop; rm -rf "$lab"; mkdir -p "$lab/run"
}
lab_end() {
  local code=$?
  trap - EXIT
  if ((code != 0)); then
    for log in "$lab"/run/*.log; do [ -s "$log" ] && { say "--- $log"; tail -15 "$log"; }; done
    say "$lab_of FAILED${current:+ at: $current}"
  fi
  lab_stop
  rm -rf "$lab"
  exit "$code"
}
