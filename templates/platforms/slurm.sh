#!/bin/bash
# {{name}} under Slurm. Tasks: pservers first ({{pservers}}), then trainers ({{trainers}}).
# Made by `paddlectl render slurm`; edit it as you like, then: sbatch this-file
#
# Nodes share the workspace's folder and reach each other at the ports below.
#SBATCH --job-name={{name}}
#SBATCH --ntasks={{processes}}
#SBATCH --output={{name}}-%j.log
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
run=$(mktemp -d "$workspace/output/slurm-$SLURM_JOB_ID-XXXXXX")
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
run=$1 pservers=$2 trainers=$3 master=$4
rank=$((SLURM_PROCID - {{pservers}}))
{{own_program}}
TRAINER
cd "$workspace"
{{end}}

# Cyclic: task i is on node i modulo their number, as the addresses are.
export PADDLE_ENGINE="$engine" PADDLE_WORKSPACE="$workspace" PADDLE_RUN="$run"
export PADDLE_PSERVERS="$pservers" PADDLE_TRAINERS="$trainers" PADDLE_MASTER="$master"
cat > "$run/task" <<'TASK'
[ "$SLURM_PROCID" -ge {{pservers}} ] || exec "$PADDLE_ENGINE" pserver "$@"
{{if own_program}}
exec sh "$PADDLE_RUN/trainer" "$PADDLE_RUN" "$PADDLE_PSERVERS" "$PADDLE_TRAINERS" "$PADDLE_MASTER"
{{else}}
trainers=$PADDLE_TRAINERS
exec "$PADDLE_ENGINE" train "$@" --connect_timeout=60 --config="$PADDLE_WORKSPACE/job.toml" \
  --save_dir="$PADDLE_RUN"{{group_flag}}{{set_flags}}
{{end}}
TASK
srun --ntasks={{processes}} --distribution=cyclic --kill-on-bad-exit=1 sh "$run/task" \
  --rank_from=slurm --pservers="$pservers" --key_file="$run/job.key" --job_tag={{name}} --transport={{transport}} \
  --ports_num=$ports_num --ports_num_for_sparse=$ports_num_for_sparse
echo "results are in $run"
