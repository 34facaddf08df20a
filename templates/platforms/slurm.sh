#!/bin/bash
# {{name}} under Slurm: {{pservers}} pservers are the first tasks, then {{trainers}} trainers.
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
{{if pservers}}
# The job's secret: of this user, for this run, in the shared folder.
trap 'rm -f "$run/job.key"' EXIT
head -c 32 /dev/urandom > "$run/job.key"
{{end}}

# The address that each node names first (its loopback where it has no other), in the order of nodes.
addresses=$(srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 \
  sh -c 'echo "$SLURM_NODEID $(hostname -I) 127.0.0.1"' | sort -n | awk '{ printf "%s ", $2 }')
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
rank=$((SLURM_PROCID - {{pservers}}))
{{own_program}}
TRAINER
cd "$workspace"
{{end}}

# Cyclic: task i is on node i modulo their number, as the addresses are.
export PADDLE_ENGINE="$engine" PADDLE_WORKSPACE="$workspace" PADDLE_RUN="$run"
{{if own_program}}
export PADDLE_PSERVERS="$pservers" PADDLE_TRAINERS="${trainers% *}" PADDLE_MASTER="${trainers#* }"
{{end}}
cat > "$run/task" <<'TASK'
[ "$SLURM_PROCID" -ge {{pservers}} ] || exec "$PADDLE_ENGINE" pserver "$@"
{{if own_program}}
exec sh "$PADDLE_RUN/trainer" "$PADDLE_RUN" "$PADDLE_PSERVERS" "$PADDLE_TRAINERS" "$PADDLE_MASTER"
{{else}}
exec "$PADDLE_ENGINE" train "$@" --connect_timeout=60 --config="$PADDLE_WORKSPACE/job.toml" \
  --save_dir="$PADDLE_RUN"{{set_flags}}
{{end}}
TASK
srun --ntasks={{processes}} --distribution=cyclic --kill-on-bad-exit=1 sh "$run/task" \
  --rank_from=slurm --pservers="$pservers" --key_file="$run/job.key" --job_tag={{name}} \
  --ports_num=$ports_num --ports_num_for_sparse=$ports_num_for_sparse
echo "results are in $run"
