// Options of `paddle train`.
#pragma once

#include "engine/client/connect.h"

namespace paddle::trainer {

struct TrainOptions : client::ConnectOptions {
  std::string config = "job.toml";
  std::vector<std::string> overrides;  // --set
  std::uint32_t num_gradient_servers = 1;
  bool local = false;
  std::string save_dir;          // "": no snapshots
  std::uint32_t start_pass = 0;  // > 0: continues after pass start_pass - 1 in save_dir
  bool resume = false;           // continues after the newest snapshot in save_dir, if there is one
  std::string init_model_path;   // a snapshot to start from
  std::string metrics;           // metrics.jsonl, "": none
};

}  // namespace paddle::trainer
