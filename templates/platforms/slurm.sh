#!/bin/bash
# {{name}} under Slurm. Tasks: pservers first ({{pservers}}), then trainers ({{trainers}}).
# Made by `paddlectl render slurm`; edit it as you like, then: sbatch this-file
#
# Nodes share the workspace's folder and reach each other at the ports below.
#
# Two minutes before the time limit, or when Slurm wants the nodes back, the job saves a snapshot and goes back to the
# queue; its next run continues from there. To continue a job that has ended: RESUME=output/slurm-... sbatch this-file
#SBATCH --job-name={{name}}
#SBATCH --ntasks={{processes}}
#SBATCH --output={{name}}-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:TERM@120
set -eu
workspace={{workspace}}
engine={{engine}}
ports_num={{ports_num}}
ports_num_for_sparse={{ports_num_for_sparse}}
{{if cluster}}
first_port=${PORT:-{{first_port}}}
{{else}}
# Jobs that share a node keep apart: blocks of 64 ports by the job's number.
first_port=${PORT:-$((20000 + SLURM_JOB_ID % 190 * 64))}
{{end}}

umask 077
mkdir -p "$workspace/output"
# A folder of this run, or that of the run before, which must be this user's own.
run=${RESUME:-}
[ -z "$run" ] || run=$(cd "$workspace" && cd "$run" && pwd)
if [ -z "$run" ] && [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
  for folder in "$workspace/output/slurm-$SLURM_JOB_ID"-??????; do
    if [ -d "$folder" ] && [ -O "$folder" ] && [ ! -L "$folder" ] && { [ -z "$run" ] || [ "$folder" -nt "$run" ]; }; then
      run=$folder
    fi
  done
fi
resume=false
if [ -n "$run" ]; then
  resume=true
  rm -f "$run/job.key" "$run/leader" "$run/stopped"
else
  run=$(mktemp -d "$workspace/output/slurm-$SLURM_JOB_ID-XXXXXX")
fi
{{if secret}}
# The job's secret: of this user, for this run, in the shared folder.
trap 'rm -f "$run/job.key"' EXIT
head -c 32 /dev/urandom > "$run/job.key"
{{end}}

# The address that each node names first (its loopback where it has no other), in the order of nodes.
addresses=$(srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 \
  sh -c 'echo "$SLURM_NODEID $(hostname -I) 127.0.0.1"' | sort -n | awk '{ printf "%s ", $2 }')
{{endpoints}}
{{if own_program}}

cat > "$run/trainer" <<'TRAINER'
run=$1 pservers=$2 trainers=$3 master=$4 resume=$5
engine=$PADDLE_ENGINE ports_num=$PADDLE_DENSE_PORTS ports_num_for_sparse=$PADDLE_SPARSE_PORTS
tag={{name}} key_file=$run/job.key
rank=$((SLURM_PROCID - {{pservers}}))
{{own_program}}
TRAINER
cd "$workspace"
{{end}}

{{if statistics}}
# The constants by which columns of the data are prepared, made once for all trainers.
statistics=$run/statistics.json
[ -e "$statistics" ] || srun --nodes=1 --ntasks=1 "$engine" statistics --config="$workspace/job.toml" \
  --output="$statistics"{{set_flags}}

{{end}}
# Cyclic: task i is on node i modulo their number, as the addresses are.
export PADDLE_ENGINE="$engine" PADDLE_WORKSPACE="$workspace" PADDLE_RUN="$run" PADDLE_RESUME="$resume"
export PADDLE_PSERVERS="$pservers" PADDLE_TRAINERS="$trainers" PADDLE_MASTER="$master"
export PADDLE_STATISTICS="${statistics:-}" PADDLE_DENSE_PORTS="$ports_num" PADDLE_SPARSE_PORTS="$ports_num_for_sparse"
cat > "$run/task" <<'TASK'
[ "$SLURM_PROCID" -ge {{pservers}} ] || exec "$PADDLE_ENGINE" pserver "$@"
{{if own_program}}
sh "$PADDLE_RUN/trainer" "$PADDLE_RUN" "$PADDLE_PSERVERS" "$PADDLE_TRAINERS" "$PADDLE_MASTER" "$PADDLE_RESUME" &
{{else}}
trainers=$PADDLE_TRAINERS
"$PADDLE_ENGINE" train "$@" --connect_timeout=60 --config="$PADDLE_WORKSPACE/job.toml" \
  --save_dir="$PADDLE_RUN" --resume{{group_flag}}{{set_flags}} \
  ${PADDLE_STATISTICS:+--set=data.statistics="$PADDLE_STATISTICS"} &
{{end}}
[ "$SLURM_PROCID" -ne {{pservers}} ] || echo "$SLURMD_NODENAME $!" > "$PADDLE_RUN/leader"
code=0
wait $! || code=$?
# A stop is no failure, at which Slurm would end the task that still saves.
[ "$code" -ne 75 ] || { echo stopped > "$PADDLE_RUN/stopped"; exit 0; }
exit "$code"
TASK

# A signal to trainer 0 stops the whole job.
is_asked=
stop() {
  is_asked=yes
  read -r node process < "$run/leader" || return 0
  echo "saving before the time limit, or at the wish of Slurm"
  srun --overlap --nodes=1 --ntasks=1 --nodelist="$node" kill -TERM "$process" || true
}
trap stop TERM
srun --ntasks={{processes}} --distribution=cyclic --kill-on-bad-exit=1 sh "$run/task" \
  --rank_from=slurm --pservers="$pservers" --key_file="$run/job.key" --job_tag={{name}} --transport={{transport}} \
  --ports_num=$ports_num --ports_num_for_sparse=$ports_num_for_sparse &
step=$! code=0
wait "$step" || code=$?
while kill -0 "$step" 2>/dev/null; do
  code=0
  wait "$step" || code=$?
done
trap - TERM
rm -f "$run/job.key"
echo "results are in $run"
[ "$code" -eq 0 ] && [ -e "$run/stopped" ] || exit "$code"
# Slurm ends this script when it takes the job back. If the script ended first, the job would be over.
if [ -n "$is_asked" ]; then
  scontrol requeue "$SLURM_JOB_ID" && sleep 300
  echo "cannot go back to the queue; continue with: RESUME=$run sbatch"
fi
exit 75
