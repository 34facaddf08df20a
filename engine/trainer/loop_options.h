// Options of a trainer's loop, which its parts read and none of them changes.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "base/clock.h"
#include "engine/client/parameter_client.h"
#include "engine/config/job_config.h"
#include "engine/data/dataset.h"
#include "engine/snapshot/info.h"
#include "engine/trainer/replay_log.h"
#include "proto/parameters.pb.h"
#include "proto/supervision.pb.h"

namespace paddle::trainer {

struct LoopOptions {
  config::TrainConfig train;
  wire::Optimizer optimizer;
  // With train.skips_not_finite: the limit of NotFinite.
  float gradient_limit = std::numeric_limits<float>::max();
  config::Uneven uneven = config::Uneven::kJoin;
  bool tests_shards = false;  // tests use averages or the shards' values, not the trainer's own
  std::uint64_t seed = 1;
  std::uint32_t trainer_id = 0;  // trainer 0 tests and saves for all
  data::DatasetOptions train_data;
  data::DatasetOptions test_data;                 // without files: no tests
  snapshot::DataOrder order = {};                 // of train_data, for snapshots within a pass
  std::function<std::uint64_t()> data_hash = {};  // hash of train_data's content; empty: unknown

  // The position at which this process begins, and what is known of earlier processes.
  std::uint32_t start_pass = 0;
  std::uint64_t batches_done = 0;  // of start_pass, trained by earlier runs
  // Some trainer has trained a batch of start_pass. Set on trainer 0, and on all ranks of a group.
  bool begins_within_pass = false;
  // The pass before start_pass ended while the pservers ran, perhaps while this trainer's process
  // was down, and this trainer has no batch of start_pass on all ports. barriers_done counts the
  // barriers of all trainers since that end.
  bool repeats_pass_end = false;
  std::uint64_t barriers_done = 0;
  client::TrainerPosition furthest;  // this trainer's furthest position on any port
  ReplayLog* kept = nullptr;         // null: this trainer is not restarted alone
  std::string restored_from = {};    // as restored_from in wire::Progress

  std::function<bool()> stop_requested = {};
  std::optional<TimePoint> ends_at = {};    // train.time_max; only trainer 0 checks it
  std::function<void()> before_leave = {};  // called when the job is over

  // Receives the progress for the supervisor about once a second.
  std::function<void(const wire::Progress&)> publish = {};
  bool is_brief = false;    // one line for each pass, for a user who waits for the end
  std::string save_dir;     // "": no snapshots
  bool saves_copy = false;  // saves copies of trainer 0's snapshots
};

}  // namespace paddle::trainer
