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
mkdir -p "$run"
exec {{command}}
