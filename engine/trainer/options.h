// Options of `paddle train`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paddle::trainer {

struct TrainOptions {
  std::string config = "job.toml";
  std::vector<std::string> overrides;  // --set
  std::uint32_t trainer_id = 0;
  std::uint32_t num_gradient_servers = 1;
  std::vector<std::string> pservers{"127.0.0.1"};  // "host" or "host:port", in pserver order
  std::uint32_t port = 7164;
  std::uint32_t ports_num = 1;
  std::uint32_t ports_num_for_sparse = 1;
  bool local = false;
  std::string save_dir;          // "": no snapshots
  std::uint32_t start_pass = 0;  // > 0: continues after pass start_pass - 1 in save_dir
  bool resume = false;           // continues after the newest snapshot in save_dir, if there is one
  std::string init_model_path;   // a snapshot to start from
  std::string metrics;           // metrics.jsonl, "": none
  std::string key_file;
  std::string job_tag;
  std::uint32_t incarnation = 0;
  std::uint32_t connect_timeout = 20;  // seconds, for all pservers together
};

}  // namespace paddle::trainer
