// A trainer's place in its job: its lanes to the shards, over TCP or in this process, and the group
// of all trainers or of those of its node.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/pool.h"
#include "engine/client/connect.h"
#include "engine/client/shard_client.h"
#include "engine/config/job_config.h"
#include "engine/strategy/strategy_table.h"

namespace paddle::trainer {

class Model;

// Options of `paddle train`.
struct TrainOptions : client::ConnectOptions {
  std::string config = "job.toml";
  std::vector<std::string> overrides;  // --set
  std::uint32_t num_gradient_servers = 1;
  std::vector<std::string> trainers;  // "host:port" by rank, where trainers talk to each other
  bool local = false;
  bool verbose = false;          // with --local: every line of the log
  bool is_alone = false;         // in its group, and so local, though not by --local
  bool on_card = false;          // alone on a GPU, which has all parameters (keep_on_card())
  std::string save_dir;          // "": no snapshots
  std::uint32_t start_pass = 0;  // > 0: continues after pass start_pass - 1 in save_dir
  bool resume = false;           // continues after the newest snapshot in save_dir, if there is one
  bool saves_copy = false;       // saves copies of trainer 0's snapshots in save_dir
  bool from_scratch = false;     // moves snapshots in save_dir aside, unless it resumes
  std::string init_model_path;   // a snapshot to start from
  std::string metrics;           // metrics.jsonl, "": none
  bool nccl_clear = false;       // NCCL may connect cards of several hosts, though it seals nothing
};

// Whether the job has any: trainers that keep dense parameters among themselves need them for
// sparse tables alone.
bool uses_pservers(const config::JobConfig& job);
// Forgets pservers that the job does not use, and makes a group of one trainer without pservers a
// local job.
void leave_out_unused(const config::JobConfig& job, TrainOptions& options);

// Whether the job's trainers keep dense parameters among themselves. A single trainer without
// pservers has them in its process anyway, as under --local, but for a card's.
bool joins_group(const config::JobConfig& job, const TrainOptions& options);
// kUsage: no pservers where they are needed, or some where the job is for trainers alone.
Status check_pservers(const config::JobConfig& job, const TrainOptions& options);

// Whether the trainers of a node add dense gradients up before one of them pushes the sum.
bool joins_node(const config::JobConfig& job, const TrainOptions& options);

// Everything about the job that all trainers and shards must agree on; `names_hash` is that of
// config::DataShare.
wire::ParameterSet parameter_set(const config::JobConfig& job,
                                 const std::vector<wire::ParameterSpec>& parameters,
                                 const TrainOptions& options, std::uint64_t names_hash = 0);

strategy::PathOptions path_options(const config::JobConfig& job);
Result<std::unique_ptr<client::ShardChannels>> join_channels(const config::JobConfig& job,
                                                             const wire::ParameterSet& parameters,
                                                             const TrainOptions& options,
                                                             ThreadTeam& team);

// Joins all shards; errors name the pserver that cannot be reached. The client follows the job's
// strategies. Pushes use two threads of the team where it has them.
Result<std::unique_ptr<client::ShardClient>> join_shards(const config::JobConfig& job,
                                                         const wire::ParameterSet& parameters,
                                                         const TrainOptions& options,
                                                         ThreadTeam& team);

// kUsage: flags that do not go with a job whose trainers talk to each other.
Status check_group(const config::JobConfig& job, const TrainOptions& options);

// Has a local job whose dense parameters are those of a group keep all parameters in the memory of
// the model's GPU, if it computes on one: gradients that the host looks at stay there where the job
// has no tables. kUsage: a table cannot be on a card, with the way out.
Status keep_on_card(const config::JobConfig& job, const Model& model, TrainOptions& options);

// Trainers that this one waits for in the group, and for how long it has.
using OnWaiting = std::function<void(std::span<const std::uint32_t> trainers, Duration waited)>;

// Connects to all pservers, and to the trainers of its group if it joins one. Errors name the one
// that cannot be reached. on_waiting is called about once a second of waiting. `memory` is that of
// all lives of this trainer, or empty.
Result<std::unique_ptr<client::ParameterClient>> join_job(const config::JobConfig& job,
                                                          const wire::ParameterSet& parameters,
                                                          const TrainOptions& options, Model& model,
                                                          const OnWaiting& on_waiting,
                                                          const UniqueFd& memory);

}  // namespace paddle::trainer
