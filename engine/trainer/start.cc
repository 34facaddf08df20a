#include "engine/trainer/start.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "engine/client/recovery.h"
#include "engine/snapshot/resume_point.h"
#include "engine/snapshot/retention.h"
#include "engine/table/parameter_set.h"
#include "engine/trainer/pass_snapshots.h"

namespace paddle::trainer {
namespace {

// Longer than a restarted pserver takes to listen; it restores its tables later.
constexpr std::uint32_t kOverWithinSeconds = 5;

}  // namespace

Status check_start(const TrainOptions& options) {
  if (options.trainer_id >= options.num_gradient_servers) {
    return Error{Errc::kUsage,
                 fmt::format("trainer_id {} is not below num_gradient_servers {}",
                             options.trainer_id, options.num_gradient_servers),
                 "trainers are numbered from 0"};
  }
  if (options.start_pass > 0 && options.save_dir.empty() && options.init_model_path.empty()) {
    return Error{Errc::kUsage, "--start_pass needs --save_dir",
                 "training continues after a pass in that folder"};
  }
  if (options.resume && (options.save_dir.empty() || options.start_pass > 0)) {
    return Error{Errc::kUsage, "--resume needs --save_dir, and no pass to start from",
                 "leave --start_pass out"};
  }
  return {};
}

Status prepare_save_folder(const TrainOptions& options) {
  if (options.save_dir.empty()) return {};
  PADDLE_TRY_STATUS(snapshot::kernel_file_system().make_directories(options.save_dir));
  if (options.trainer_id != 0 && !options.saves_copy) return {};
  PADDLE_TRY_STATUS(snapshot::finish_interrupted(options.save_dir));
  if (options.resume || options.start_pass > 0) return {};
  if (options.from_scratch) {
    PADDLE_TRY(const std::string aside, snapshot::set_snapshots_aside(options.save_dir));
    if (!aside.empty()) log_info("the snapshots of {} are now in {}", options.save_dir, aside);
    return {};
  }
  PADDLE_TRY(const auto names, snapshot::snapshot_names(options.save_dir));
  if (names.empty()) return {};
  return Error{Errc::kUsage,
               fmt::format("{} has snapshots of an earlier training, up to {}", options.save_dir,
                           names.back()),
               "--resume continues from there; --from_scratch starts from the beginning and moves "
               "them to a folder of their own; or choose another --save_dir"};
}

TrainOptions options_to_join(TrainOptions options, const wire::ParameterSet& parameters,
                             const UniqueFd& memory) {
  // The other trainers of a group may be restarting, which takes longer.
  if (parameters.trainers_return() && !parameter::has_group(parameters) &&
      ReplayLog::was_leaving(memory))
    options.connect_timeout = std::min(options.connect_timeout, kOverWithinSeconds);
  return options;
}

Status leave_over(client::ParameterClient& client) {
  log_info("the job is over: the other trainers have left");
  Status left = client.leave();
  return left || left.error().code != Errc::kUnreachable ? left : Status();
}

Status start_training(const TrainOptions& options, client::ParameterClient& client,
                      std::string& restored_from, const OnResume& on_resume) {
  if (options.trainer_id != 0 || client.progress().is_running) return client.ready();
  std::string snapshot = options.init_model_path;
  if (snapshot.empty() && options.start_pass > 0) {
    snapshot = pass_directory(options.save_dir, options.start_pass - 1);
  }
  std::optional<snapshot::SnapshotReader> newest;
  if (options.resume) {
    PADDLE_TRY(newest, snapshot::take_newest_whole(options.save_dir, snapshot::kernel_file_system(),
                                                   &restored_from));
    if (!newest) log_info("no snapshot to resume from in {}", options.save_dir);
  }
  if (!newest && options.start_pass > 0) {
    PADDLE_TRY(newest, snapshot::SnapshotReader::open(snapshot));
  }
  if (newest) {
    PADDLE_TRY_STATUS(on_resume(*newest));
    log_info("Loading parameters from {}", newest->directory());
    PADDLE_TRY_STATUS(client.snapshots().resume(*newest));
  } else if (!snapshot.empty()) {
    log_info("Loading parameters from {}", snapshot);
    PADDLE_TRY_STATUS(client.snapshots().load(snapshot));
  }
  return client.ready();
}

void continue_from_servers(const client::ParameterClient& client, LoopOptions& loop) {
  const client::JobProgress progress = client.progress();
  loop.start_pass = static_cast<std::uint32_t>(progress.passes);
  loop.batches_done = progress.batches;
  loop.barriers_done = progress.pauses;
  loop.furthest = progress.furthest;
  loop.begins_within_pass = loop.begins_within_pass || progress.is_within_pass;
  if (const auto& origin = progress.origin) {
    loop.train_data.origin = data::PassOrigin{static_cast<std::uint32_t>(origin->pass()),
                                              origin->batches(), origin->records()};
  }
  loop.repeats_pass_end =
      progress.passes > progress.passes_loaded && progress.batches == 0 && !progress.is_within_pass;
  if (progress.passes >= loop.train.passes) {
    const std::uint32_t passes = loop.train.passes;
    log_info("{}", passes == 0   ? "there is no pass to train: train.passes is 0"
                   : passes == 1 ? "its pass is done"
                                 : fmt::format("all {} passes are done", passes));
  } else if (progress.passes + progress.batches > 0) {
    log_info("continuing in {}, after batch {}", pass_words(progress.passes), progress.batches);
  }
}

Result<std::unique_ptr<ReplayLog>> open_replay_log(UniqueFd memory,
                                                   const wire::ParameterSet& parameters,
                                                   const client::ParameterClient& client,
                                                   Tally empty_tally,
                                                   std::span<client::DenseParameter> dense) {
  if (!memory || !parameters.trainers_return()) return std::unique_ptr<ReplayLog>();
  return ReplayLog::open({.memory = std::move(memory),
                          .job = stable_hash(parameters.SerializeAsString()),
                          .generations = client.progress().generations,
                          .empty_tally = std::move(empty_tally),
                          .keeps_dense = strategy::has_rounds(parameters, false),
                          .keeps_rows = strategy::has_rounds(parameters, true)},
                         dense);
}

Status repeat_last_push(const ReplayLog* kept, client::ParameterClient& client,
                        std::span<client::DenseParameter> dense) {
  const auto last = kept != nullptr ? kept->push() : std::nullopt;
  if (last && client::repeats_push(client.progress(), last->pass, last->batch)) {
    log_info("pushing batch {} of {} again, to the ports that lack it", last->batch,
             pass_words(last->pass));
    PADDLE_TRY(std::vector<client::SparseRows> rows, kept->rows());
    return client.repeat_push(last->batch, kept->samples(), kept->cost(), dense, rows);
  }
  return {};
}

Error lost_push(std::uint32_t trainer_id) {
  return Error{
      Errc::kUnreachable,
      fmt::format("the last push of trainer {} reached only some ports, and is lost", trainer_id),
      "the whole job resumes from its last snapshot"};
}

}  // namespace paddle::trainer
