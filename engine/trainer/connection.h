// Connects a trainer to its job: lanes to the shards, over TCP or in this process, and the group of
// all trainers or of the trainers on its node.
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
  std::vector<std::string> trainers;  // "host:port" by rank, where trainers connect to each other
  bool local = false;
  bool verbose = false;          // with --local: every line of the log
  bool is_alone = false;         // the only trainer of its group: `local` is set without --local
  bool on_card = false;          // alone on a GPU, which keeps all parameters (keep_on_card())
  std::string save_dir;          // "": no snapshots
  std::uint32_t start_pass = 0;  // > 0: continues after pass start_pass - 1 in save_dir
  bool resume = false;           // continues after the newest snapshot in save_dir, if there is one
  bool saves_copy = false;       // saves copies of trainer 0's snapshots in save_dir
  bool from_scratch = false;     // moves snapshots in save_dir aside, unless it resumes
  std::string init_model_path;   // a snapshot to start from
  std::string metrics;           // metrics.jsonl, "": none
  Duration pull_silence_max = Duration::max();  // of a pserver that owes the values of rows
  bool nccl_clear = false;  // NCCL may connect cards of several hosts, though it does not encrypt
};

// Whether the job uses pservers. Trainers that keep dense parameters among themselves need pservers
// only for sparse tables.
bool uses_pservers(const config::JobConfig& job);
// Removes pservers that the job does not use, and makes a group of one trainer without pservers a
// local job.
void leave_out_unused(const config::JobConfig& job, TrainOptions& options);

// Whether the job's trainers keep dense parameters among themselves. A single trainer without
// pservers keeps them in its process, as under --local, unless its GPU keeps them (on_card).
bool joins_group(const config::JobConfig& job, const TrainOptions& options);
// kUsage: no pservers although they are needed.
Status check_pservers(const config::JobConfig& job, const TrainOptions& options);

// Whether the trainers of a node add dense gradients up before one of them pushes the sum.
bool joins_node(const config::JobConfig& job, const TrainOptions& options);

// All that the trainers and shards of the job must agree on; `names_hash` is the one of
// config::DataShare.
wire::ParameterSet parameter_set(const config::JobConfig& job,
                                 const std::vector<wire::ParameterSpec>& parameters,
                                 const TrainOptions& options, std::uint64_t names_hash = 0);

// Receives what a port waits for: "trainers 1, 3 to push step 7".
using OnShardWaiting = std::function<void(const std::string& reason)>;

strategy::PathOptions path_options(const config::JobConfig& job);
Result<std::unique_ptr<client::ShardChannels>> join_channels(const config::JobConfig& job,
                                                             const wire::ParameterSet& parameters,
                                                             const TrainOptions& options,
                                                             ThreadTeam& team,
                                                             const OnShardWaiting& on_waiting = {});

// Joins all shards; errors name the pserver that cannot be reached. The client follows the job's
// strategies. Pushes use two threads of the team if it has two.
Result<std::unique_ptr<client::ShardClient>> join_shards(const config::JobConfig& job,
                                                         const wire::ParameterSet& parameters,
                                                         const TrainOptions& options,
                                                         ThreadTeam& team,
                                                         const OnShardWaiting& on_waiting = {});

// kUsage: flags that do not fit a job whose trainers exchange gradients among themselves.
Status check_group(const config::JobConfig& job, const TrainOptions& options);

// For a local job that is a group of one trainer, on a GPU: keeps all parameters in the memory of
// the GPU. If the host must look at gradients, a job without tables stays on the host. kUsage: a
// table cannot be on the GPU; the hint names another way.
Status keep_on_card(const config::JobConfig& job, const Model& model, TrainOptions& options);

// The trainers of the group that this trainer waits for, and how long it has waited.
using OnWaiting = std::function<void(std::span<const std::uint32_t> trainers, Duration waited)>;

// Connects to all pservers, and to the trainers of its group if it joins one. Errors name the
// process that cannot be reached. on_waiting is called about once a second while it waits. `memory`
// is shared by all processes of this trainer, or empty.
Result<std::unique_ptr<client::ParameterClient>> join_job(const config::JobConfig& job,
                                                          const wire::ParameterSet& parameters,
                                                          const TrainOptions& options, Model& model,
                                                          const OnWaiting& on_waiting,
                                                          const UniqueFd& memory);

}  // namespace paddle::trainer
