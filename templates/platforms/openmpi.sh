#!/bin/sh
# {{name}} under OpenMPI. Ranks: pservers first ({{pservers}}), then trainers ({{trainers}}).
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
{{if secret}}
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
{{endpoints}}
{{if own_program}}

cat > "$run/trainer" <<'TRAINER'
run=$1 pservers=$2 trainers=$3 master=$4 engine=$5 ports_num=$6 ports_num_for_sparse=$7
tag={{name}} key_file=$run/job.key
rank=$((OMPI_COMM_WORLD_RANK - {{pservers}}))
{{own_program}}
TRAINER
cd "$workspace"
{{end}}

{{if statistics}}
# The constants by which columns of the data are prepared, made once for all trainers.
statistics=$run/statistics.json
"$engine" statistics --config="$workspace/job.toml" --output="$statistics"{{set_flags}}

{{end}}
set -- --host "$slots" --map-by node --rank-by node "$@"
{{if pservers}}
set -- "$@" -np {{pservers}} "$engine" pserver --rank_from=openmpi --pservers="$pservers" \
  --key_file="$run/job.key" --ports_num=$ports_num --ports_num_for_sparse=$ports_num_for_sparse --job_tag={{name}} --transport={{transport}} :
{{end}}
{{if own_program}}
mpirun "$@" -np {{trainers}} sh "$run/trainer" "$run" "$pservers" "$trainers" "$master" "$engine" $ports_num $ports_num_for_sparse
{{else}}
mpirun "$@" \
  -np {{trainers}} "$engine" train --rank_from=openmpi --pservers="$pservers" --key_file="$run/job.key" \
    --ports_num=$ports_num --ports_num_for_sparse=$ports_num_for_sparse --job_tag={{name}} --transport={{transport}} \
    --connect_timeout=60 --config="$workspace/job.toml" --save_dir="$run"{{group_flag}}{{set_flags}} \
    ${statistics:+--set=data.statistics="$statistics"}
{{end}}
echo "results are in $run"
