# PID 1 of every pod. It finds the other pods, runs this pod's processes, and runs them again when a peer was lost.
set -u
index=$JOB_COMPLETION_INDEX
# docs/platforms.md explains these variables, which are those of earlier manifests.
volume=${JOB_PATH:-/workspace}
job=${JOB_NAME:-{{name}}}
first_port=${CONF_PADDLE_PORT:-{{first_port}}}
ports_num=${CONF_PADDLE_PORTS_NUM:-{{ports_num}}}
ports_num_for_sparse=${CONF_PADDLE_PORTS_NUM_SPARSE:-{{ports_num_for_sparse}}}
trainers_num=${CONF_PADDLE_GRADIENT_NUM:-{{trainers}}}
if [ -n "${TRAIN_CONFIG_DIR:-}" ]; then
  workspace=$volume/$job/$TRAIN_CONFIG_DIR output=$volume/$job/output
else
  workspace=$volume output=$volume/output/$job
fi
node=$output/node_$index
stopping= server= trainer= asked= awaited= statistics=

# SIGTERM to one trainer stops the whole job; a second one would end the trainer at once. The snapshot needs all
# pservers, which end when all trainers have left.
stop() {
  stopping=yes
  if [ -z "$trainer" ]; then
    [ -z "$server" ] || end_server 20
  elif [ "$asked" != "$trainer" ]; then
    asked=$trainer
    kill -TERM "$trainer"
  fi
}
end_server() {
  (sleep "$1"; kill -TERM "$server") >/dev/null 2>&1 &
}
trap stop TERM INT

# Waits a second for what a pod needs. After half an hour the Job makes a new pod, which waits again.
wait_for() {
  [ -z "$stopping" ] || exit 75
  [ "$awaited" = "$1" ] || { awaited=$1 wait_until=$(($(date +%s) + 1800)); echo "paddlectl: waiting for $1"; }
  [ "$(date +%s)" -lt "$wait_until" ] || { echo "paddlectl: there is no $1 after 30 minutes" >&2; exit 75; }
  sleep 1
}

# The addresses of all pods, by number. DNS knows a pod once it has started, and one made anew by its new address.
resolve() {
  addresses= pservers= trainers= master=
  for number in $(seq 0 {{last_pod}}); do
    host={{name}}-$number.{{name}}
    until address=$(getent ahostsv4 "$host" | awk '{ print $1; exit }') && [ -n "$address" ]; do
      # The last pods of a job that has ended are made anew if they are lost in that moment.
      [ -z "${JOB_UID:-}" ] || [ "$(cat "$output/.ended" 2>/dev/null)" != "$JOB_UID" ] || exit 0
      wait_for "the address of $host"
    done
    addresses=$addresses${addresses:+,}$address
    [ "$number" -ne "$index" ] || own_address=$address
    [ "$number" -ge {{pservers}} ] || pservers=$pservers${pservers:+,}$address:$first_port
    [ "$number" -ge {{trainers}} ] || trainers=$trainers${trainers:+,}$address:$trainer_port
    [ "$number" -ne 0 ] || master=$address:$((trainer_port + 1))
  done
}

# Runs a command in the background, with its output in the pod's log and in node_i/ on the volume. Sets `pid`.
start() {
  role=$1 log=$2
  shift 2
  [ "$starts" -eq 1 ] || echo "paddlectl: start $starts" >> "$node/$log.log"
  record "$role" "$log" running 0 0
  rm -f "/run/paddle/$log"
  mkfifo "/run/paddle/$log"
  tee -a "$node/$log.log" < "/run/paddle/$log" &
  writers="$writers $!"
  "$@" > "/run/paddle/$log" 2>&1 &
  pid=$!
}

# A line about a process for `paddlectl fetch --from`: role, log, state, whether it failed, and the end in seconds.
record() {
  times="\"started_unix_ms\":$((began * 1000)),\"ended_unix_ms\":$(($5 * 1000)),\"incarnation\":$starts"
  printf '{"node":"%s","role":"%s","state":"%s","failed":%s,%s,"log":"%s"}\n' \
    "{{name}}-$index" "$1" "$3" "$4" "$times" "node_$index/$2.log" >> "$node/processes.jsonl"
}

# The exit code of a process, even if a signal interrupts the wait.
wait_end() {
  while :; do
    wait "$1"
    ended=$?
    kill -0 "$1" 2>/dev/null || break
  done
  if [ "$ended" -eq 0 ]; then
    record "$2" "$3" done 0 "$(date +%s)"
  else
    record "$2" "$3" "exited with code $ended" 1 "$(date +%s)"
  fi
  return "$ended"
}
{{if own_program}}

run_trainer() {
  rank=$index run=$output metrics=$node/metrics.jsonl engine=$volume/bin/paddle key_file=/run/paddle/job.key
  {{own_program}}
}
{{end}}

# One run of this pod's processes. Its code is that of the process that failed by itself, or else of the trainer.
run_processes() {
  resolve
  began=$(date +%s) starts=$((starts + 1)) writers= code=0 server_code=0
  # Processes that know other addresses belong to another run: they are refused, whatever they have trained.
  tag="$job $addresses"
  set -- --job_tag="$tag" --num_gradient_servers="$trainers_num" --ports_num="$ports_num" \
    --ports_num_for_sparse="$ports_num_for_sparse" --key_file=/run/paddle/job.key --transport={{transport}}
{{if pservers}}
  if [ "$index" -lt {{pservers}} ]; then
    start "pserver-$index" server "$volume/bin/paddle" pserver "$@" --pserver_id="$index" --port="$first_port" \
      --bind="${CONF_PADDLE_NIC:-$own_address}" --metrics="$node/server-metrics.jsonl" --lost_trainer_ends_job
    server=$pid
  fi
{{end}}
  if [ "$index" -lt {{trainers}} ]; then
{{if own_program}}
    start "trainer-$index" train run_trainer
{{else}}
    start "trainer-$index" train "$volume/bin/paddle" train "$@" --trainer_id="$index" --pservers="$pservers" \
      --config=job.toml --save_dir="$output" --resume --metrics="$node/metrics.jsonl" --connect_timeout=60 \
      ${TRAINER_COUNT:+--trainer_count="$TRAINER_COUNT"}{{group_flag}}{{set_flags}} \
      ${statistics:+--set=data.statistics="$statistics"}
{{end}}
    trainer=$pid
  fi
  [ -z "$stopping" ] || stop
  if [ -n "$trainer" ]; then
    wait_end "$trainer" "trainer-$index" train
    code=$? trainer=
    # A pserver ends by itself when all trainers have left, or five seconds after the job failed.
    if [ -n "$server" ] && [ -n "$stopping" ]; then
      end_server 20
    elif [ -n "$server" ] && [ "$code" -ne 0 ] && [ "$code" -ne 75 ]; then
      end_server 8
    fi
  fi
  if [ -n "$server" ]; then
    wait_end "$server" "pserver-$index" server
    server_code=$? server=
  fi
  # The last lines. A program that was left behind may keep a pipe open for ever.
  (sleep 10; kill $writers) >/dev/null 2>&1 &
  wait $writers
  is_lost "$code" && ! is_lost "$server_code" && [ "$server_code" -ne 0 ] && code=$server_code
  [ "$code" -ne 0 ] || code=$server_code
  return "$code"
}

# 4: another process was lost. 5: it belongs to another run, because a pod was made anew. 130: SIGTERM ended a pserver,
# or a trainer that had not joined yet.
is_lost() {
  case $1 in
{{if own_program}}
    130 | 143) [ -n "$stopping" ] ;;
{{else}}
    4 | 5 | 130) true ;;
{{end}}
    *) false ;;
  esac
}

# A line for the report, with the pod's cores and memory.
describe_machine() {
  memory=$(cat /sys/fs/cgroup/memory.max 2>/dev/null)
  case $memory in
    '' | max) memory=$(awk '/^MemTotal/ { printf "%.0f", $2 * 1024 }' /proc/meminfo) ;;
  esac
  printf '{"node":"%s","processor":"%s","os":"%s","kernel":"%s","cores":%s,"memory_bytes":%s,"utc_offset_s":%s}\n' \
    "{{name}}-$index" "$(awk -F ': *' '/^model name/ { gsub(/["\\]/, "", $2); print $2; exit }' /proc/cpuinfo)" \
    "$(. /etc/os-release 2>/dev/null && echo "$PRETTY_NAME")" "$(uname -r)" "$(nproc)" "$memory" \
    "$(date +%z | awk '{ print (/^-/ ? -1 : 1) * (substr($0, 2, 2) * 3600 + substr($0, 4, 2) * 60) }')"
}

until [ -e "$workspace/job.toml" ]; do wait_for "job.toml in $workspace"; done
{{if secret}}
until [ -x "$volume/bin/paddle" ]; do wait_for "the engine, $volume/bin/paddle"; done
{{end}}
{{if prepare}}
until [ "$(cat "$workspace/.prepared" 2>/dev/null)" = "${SPLIT_COUNT:-{{trainers}}}" ]; do
  wait_for "the data: kubectl logs job/{{name}}-data"
done
{{end}}
{{if secret}}
# The engine wants a key of its own user alone; a mounted Secret is a link, and root's.
(umask 077 && cat /secret/job.key > /run/paddle/job.key) || exit 1
{{end}}
cd "$workspace" || exit 2
resume=false
[ -z "$(ls "$output" 2>/dev/null | grep -v '^node_')" ] || resume=true
mkdir -p "$node" || exit 7
{{if pservers}}
trainer_port=$((first_port + ports_num + ports_num_for_sparse))
{{else}}
trainer_port=$first_port
{{end}}
{{if statistics}}
# The constants by which columns of the data are prepared: pod 0 makes them for all trainers.
statistics=$output/node_0/statistics.json
if [ "$index" -eq 0 ] && [ ! -e "$statistics" ]; then
  "$volume/bin/paddle" statistics --config=job.toml --output="$statistics"{{set_flags}} || exit
fi
until [ -e "$statistics" ]; do wait_for "statistics of the data, which pod 0 makes"; done
{{end}}
describe_machine > "$node/machines.jsonl"
# Starts of this pod and of those before it with its number.
touch "$node/processes.jsonl"
starts=$(awk -F '"incarnation":' 'NF > 1 { count = $2 + 0 } END { print count + 0 }' "$node/processes.jsonl")
failures=0
while :; do
  run_processes
  code=$?
  [ -z "$stopping" ] || ! is_lost "$code" || exit 75
  is_lost "$code" || break
  [ $(($(date +%s) - began)) -lt 600 ] || failures=0
  failures=$((failures + 1))
  [ "$failures" -le 20 ] || exit "$code"
  echo "paddlectl: a peer was lost (code $code): starting again from the last snapshot"
  sleep 5
  [ -z "$stopping" ] || exit 75
done
[ "$code" -ne 0 ] || [ "$index" -ne 0 ] || echo "${JOB_UID:-}" > "$output/.ended"
exit "$code"
