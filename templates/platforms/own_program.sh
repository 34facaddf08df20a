# Trainer number $rank of {{trainers}}: some of the variables of docs/trainer.md, then the program.
set -- $(echo "$trainers" | awk -F, -v rank="$rank" '
  function host(endpoint) { sub(/:[0-9]+$/, "", endpoint); return endpoint }
  { for (i = 1; i <= NF; ++i) if (host($i) == host($(rank + 1))) { ++count; before += i <= rank }
    print before + 0, count, $(rank + 1) }')
export PADDLE_TRAINER_ID="$rank" PADDLE_INIT_TRAINER_ID="$rank" RANK="$rank" TRAINING_ROLE=TRAINER
export PADDLE_TRAINERS_NUM={{trainers}} PADDLE_INIT_NUM_GRADIENT_SERVERS={{trainers}} WORLD_SIZE={{trainers}}
export PADDLE_RANK_IN_NODE="$1" LOCAL_RANK="$1" LOCAL_WORLD_SIZE="$2"
export PADDLE_TRAINER_ENDPOINTS="$trainers" PADDLE_CURRENT_ENDPOINT="$3" PADDLE_PSERVERS_IP_PORT_LIST="$pservers"
export MASTER_ADDR="${master%:*}" MASTER_PORT="${master##*:}"
export PADDLE_INIT_SAVE_DIR="$run" PADDLE_INIT_METRICS="${metrics:-$run/metrics-$rank.jsonl}" PADDLE_INIT_RESUME="${resume:-false}"
{{if pservers}}
# By these the Python module and the engine that it starts reach the pservers.
export PADDLE_PROGRAM="$engine" PADDLE_INIT_CONFIG=job.toml PADDLE_INIT_CONNECT_TIMEOUT=60
export PADDLE_INIT_PSERVERS="$pservers" PADDLE_INIT_PORTS_NUM="$ports_num" PADDLE_INIT_PORTS_NUM_FOR_SPARSE="$ports_num_for_sparse"
export PADDLE_INIT_JOB_TAG="$tag" PADDLE_INIT_KEY_FILE="$key_file" PADDLE_INIT_TRANSPORT={{transport}}
PADDLE_INIT_SET=$(printf '%s\n'{{set_items}})
[ -z "$PADDLE_INIT_SET" ] || export PADDLE_INIT_SET
{{end}}
mkdir -p "$run"
exec {{command}}
