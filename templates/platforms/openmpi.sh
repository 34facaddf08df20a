#!/bin/sh
# {{name}} under OpenMPI: {{pservers}} pservers are the first ranks, then {{trainers}} trainers.
# Made by `paddlectl render openmpi`; edit it as you like.
#
#   sh this-file                              all on this machine
#   HOSTS=node1,node2 sh this-file            process i is on host i modulo their number
#   sh this-file --oversubscribe ...          arguments go to mpirun
#
# Hosts share the workspace's folder and reach each other at the ports from PORT on.
set -eu
workspace={{workspace}}
engine={{engine}}
hosts=${HOSTS:-localhost}
first_port=${PORT:-{{first_port}}}
ports_num={{ports_num}}
ports_num_for_sparse={{ports_num_for_sparse}}

umask 077
mkdir -p "$workspace/output"
run=$(mktemp -d "$workspace/output/openmpi-XXXXXX")
{{if pservers}}
# The job's secret: of this user, for this run, in the shared folder.
trap 'rm -f "$run/job.key"' EXIT
trap 'exit 130' INT TERM
head -c 32 /dev/urandom > "$run/job.key"
{{end}}

# Names become addresses here: the engine takes nothing else.
addresses=
slots=
for host in $(echo "$hosts" | tr , ' '); do
  if [ "$host" = localhost ]; then
    address=127.0.0.1
  else
    address=$(getent ahostsv4 "$host" | awk '{ print $1; exit }')
  fi
  [ -n "$address" ] || { echo "no address of host $host" >&2; exit 4; }
  addresses="$addresses $address"
  slots="$slots${slots:+,}$host:{{processes}}"
done
pservers=$(echo "$addresses" | awk -v count={{pservers}} -v port="$first_port" -v block=$((ports_num + ports_num_for_sparse)) '{
  for (i = 0; i < count; ++i)
    printf "%s%s:%d", (i ? "," : ""), $(i % NF + 1), port + int(i / NF) * block
}')
{{if own_program}}

# A port for each trainer after those of the pservers, then one more of the first, where all meet.
trainers=$(echo "$addresses" | awk -v pservers={{pservers}} -v count={{trainers}} -v port="$first_port" \
  -v block=$((ports_num + ports_num_for_sparse)) '{
  for (i = 0; i < pservers; ++i) used[i % NF] += block
  for (i = 0; i < count; ++i) {
    at = (pservers + i) % NF
    printf "%s%s:%d", (i ? "," : ""), $(at + 1), port + used[at]++
  }
  printf " %s:%d", $(pservers % NF + 1), port + used[pservers % NF]
}')
cat > "$run/trainer" <<'TRAINER'
run=$1 pservers=$2 trainers=$3 master=$4
rank=$((OMPI_COMM_WORLD_RANK - {{pservers}}))
{{own_program}}
TRAINER
cd "$workspace"
{{end}}

set -- --host "$slots" --map-by node --rank-by node "$@"
{{if pservers}}
set -- "$@" -np {{pservers}} "$engine" pserver --rank_from=openmpi --pservers="$pservers" \
  --key_file="$run/job.key" --ports_num=$ports_num --ports_num_for_sparse=$ports_num_for_sparse --job_tag={{name}} :
{{end}}
{{if own_program}}
mpirun "$@" -np {{trainers}} sh "$run/trainer" "$run" "$pservers" "${trainers% *}" "${trainers#* }"
{{else}}
mpirun "$@" \
  -np {{trainers}} "$engine" train --rank_from=openmpi --pservers="$pservers" --key_file="$run/job.key" \
    --ports_num=$ports_num --ports_num_for_sparse=$ports_num_for_sparse --job_tag={{name}} \
    --connect_timeout=60 --config="$workspace/job.toml" --save_dir="$run"{{set_flags}}
{{end}}
echo "results are in $run"
