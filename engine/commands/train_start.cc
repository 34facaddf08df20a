#include "engine/commands/train_start.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <string_view>

#include <fmt/format.h>

#include "base/log.h"
#include "base/rng.h"
#include "engine/data/content_hash.h"
#include "engine/data/objects.h"
#include "engine/inference/description.h"
#include "engine/optim/optimizer.h"
#include "engine/snapshot/resume_point.h"
#include "engine/snapshot/retention.h"
#include "engine/strategy/strategy_table.h"
#include "engine/trainer/held_out.h"

namespace paddle::commands {
namespace {

// Longer than a pserver that was killed takes to listen again, which restores its tables later.
constexpr std::uint32_t kOverWithinSeconds = 5;
constexpr const char* kNoFileHint =
    "patterns are relative to that folder; a template's ./prepare makes its data";

// The trainer finishes its batch and the job is saved.
std::atomic<bool> g_stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void end_early(int) {
  constexpr std::string_view kText =
      "paddle: interrupted before it had joined the job: there is nothing to save\n";
  [[maybe_unused]] const ssize_t put = ::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(static_cast<int>(Errc::kInterrupted));
}

void request_stop(int) {
  g_stop_requested = true;
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGINT, SIG_DFL);
}

void handle(void (*handler)(int)) {
  if (g_stop_requested) return;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
}

const char* uneven_name(config::Uneven uneven) {
  switch (uneven) {
    case config::Uneven::kDrop:
      return "drop";
    case config::Uneven::kPad:
      return "pad";
    case config::Uneven::kJoin:
      break;
  }
  return "join";
}

snapshot::DataOrder order_of(const config::JobConfig& job) {
  return {.batch_size = job.train.batch_size,
          .shuffle_records = job.train.shuffle_records,
          .files_at_once = job.data.files_at_once,
          .global_shuffle = job.data.global_shuffle,
          .uneven = uneven_name(job.uneven),
          .reader = data::reader_key(job.data)};
}

// The first setting with which a snapshot's pass cannot be gone on with: "key=value", as it was,
// and as it is. A batch may have another size, but where a trainer repeats whole batches.
std::optional<std::pair<std::string, std::string>> changed_order(const snapshot::SnapshotInfo& info,
                                                                 const trainer::LoopOptions& loop) {
  const snapshot::DataOrder& was = info.place->order;
  const snapshot::DataOrder& is = loop.order;
  const auto setting = [](const char* key, const auto& before, const auto& now) {
    return std::pair(fmt::format("{}={}", key, before), fmt::format("{}", now));
  };
  if (info.seed != loop.seed) return setting("seed", info.seed, loop.seed);
  if (was.shuffle_records != is.shuffle_records)
    return setting("train.shuffle_records", was.shuffle_records, is.shuffle_records);
  if (was.files_at_once != is.files_at_once)
    return setting("data.files_at_once", was.files_at_once, is.files_at_once);
  if (was.global_shuffle != is.global_shuffle)
    return setting("data.global_shuffle", was.global_shuffle, is.global_shuffle);
  const bool repeats = was.uneven == "pad" || is.uneven == "pad";
  if (repeats && was.uneven != is.uneven) return setting("strategy.uneven", was.uneven, is.uneven);
  if (repeats && was.batch_size != is.batch_size)
    return setting("train.batch_size", was.batch_size, is.batch_size);
  return {};
}

Status check_order(const snapshot::SnapshotReader& snapshot, const trainer::LoopOptions& loop) {
  const snapshot::SnapshotInfo& info = snapshot.info();
  if (info.pass_batches.empty() || !info.place) return {};
  const std::string from =
      fmt::format("snapshot {} is from the middle of pass {}", snapshot.directory(), info.pass);
  if (const auto changed = changed_order(info, loop)) {
    return Error{
        Errc::kUsage,
        fmt::format("{}, which began with {}, not {}: records would be left out, or "
                    "trained twice",
                    from, changed->first, changed->second),
        fmt::format("go on with --set {}, and change it between two passes", changed->first)};
  }
  if (info.place->order.reader != loop.order.reader) {
    return Error{Errc::kUsage,
                 fmt::format("{}, which began with another [data] section: records would be left "
                             "out, or trained twice",
                             from),
                 "go on with the one in its model/job.toml, and change it between two passes"};
  }
  if (info.place->order.batch_size != loop.order.batch_size) {
    log_info("pass {} goes on with batches of {} records, after those of {}", info.pass,
             loop.order.batch_size, info.place->order.batch_size);
  }
  return {};
}

bool has_group(const wire::ParameterSet& parameters) {
  return parameters.dense_strategy() == wire::STRATEGY_COLLECTIVE;
}

}  // namespace

Status prepare_save_folder(const trainer::TrainOptions& options) {
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
               "--resume goes on from there; --from_scratch begins anew and keeps them in a folder "
               "of their own; or name another --save_dir"};
}

Result<Description> describe_saved(const trainer::TrainOptions& options) {
  if (options.save_dir.empty() || (options.trainer_id != 0 && !options.saves_copy))
    return Description();
  PADDLE_TRY(auto files, inference::describe_model(options.config, options.overrides));
  return std::make_shared<const std::vector<snapshot::ModelFile>>(std::move(files));
}

Status check_figures(const config::JobConfig& job, const trainer::Model& model) {
  return trainer::EarlyStop::check(job.train, trainer::figures_of(model.read(trainer::Score())));
}

Result<trainer::LoopOptions> loop_options(const trainer::TrainOptions& options,
                                          const config::JobConfig& job) {
  const std::string folder = config::folder_of(options.config);
  trainer::LoopOptions loop;
  loop.train = job.train;
  loop.optimizer = job.optimizer;
  loop.uneven = job.uneven;
  loop.tests_shards = optim::has_average(job.optimizer) || job.is_local();
  loop.seed = job.seed;
  loop.trainer_id = options.trainer_id;
  loop.start_pass = options.start_pass;
  loop.save_dir = options.save_dir;
  loop.saves_copy = options.saves_copy;
  loop.order = order_of(job);
  loop.is_brief = options.local && !options.is_alone && !options.verbose;
  loop.train_data = {.data = job.data,
                     .share = {},
                     .folder = folder,
                     .trainer_id = options.trainer_id,
                     .num_trainers = options.num_gradient_servers,
                     .seed = job.seed,
                     .shuffle_records = job.train.shuffle_records,
                     .batch_size = job.train.batch_size};
  if (job.data.cache) {
    loop.train_data.cache = std::make_shared<data::RecordCache>(job.data.cache_bytes_max);
  }
  PADDLE_TRY(loop.train_data.share,
             data::find_share(job.data, folder, job.data.train, options.trainer_id,
                              options.num_gradient_servers, job.data.global_shuffle));
  if (loop.train_data.share.files.empty()) {
    if (options.num_gradient_servers == 1) {
      return Error{Errc::kData,
                   fmt::format("no file matches [data] train = '{}' in {}", job.data.train, folder),
                   kNoFileHint};
    }
    log_warning("no file of '{}' is for trainer {}: it only takes part", job.data.train,
                options.trainer_id);
  }
  std::vector<std::string> files = loop.train_data.share.files;
  if (!job.data.dictionary.empty()) files.push_back(config::in_folder(folder, job.data.dictionary));
  const auto content =
      std::make_shared<data::ContentHash>(std::move(files), loop.train_data.share.names_hash);
  loop.data_hash = [content] { return content->value(); };
  if (job.data.test.empty() || options.trainer_id != 0) return loop;
  auto held_out = trainer::held_out_data(job, folder, job.data.test);
  if (!held_out) {
    Error error = std::move(held_out).error().with("[data] test");
    if (error.hint.empty()) error.hint = kNoFileHint;
    return error;
  }
  loop.test_data = *std::move(held_out);
  return loop;
}

wire::ParameterSet agreed_parameters(const config::JobConfig& job, const trainer::Model& model,
                                     const trainer::TrainOptions& options,
                                     const trainer::LoopOptions& loop) {
  return trainer::parameter_set(job, model.parameters(), options, loop.train_data.share.names_hash);
}

Status start_training(const trainer::TrainOptions& options, client::ParameterClient& client,
                      std::string& went_back, trainer::LoopOptions& loop) {
  if (options.trainer_id != 0 || client.progress().is_running) return client.ready();
  std::string snapshot = options.init_model_path;
  if (snapshot.empty() && options.start_pass > 0) {
    snapshot = trainer::pass_directory(options.save_dir, options.start_pass - 1);
  }
  std::optional<snapshot::SnapshotReader> newest;
  if (options.resume) {
    PADDLE_TRY(newest, snapshot::take_newest_whole(options.save_dir, snapshot::kernel_file_system(),
                                                   &went_back));
    if (!newest) log_info("no snapshot to go on from in {}", options.save_dir);
  }
  if (!newest && options.start_pass > 0) {
    PADDLE_TRY(newest, snapshot::SnapshotReader::open(snapshot));
  }
  if (newest) {
    PADDLE_TRY_STATUS(check_order(*newest, loop));
    log_info("Loading parameters from {}", newest->directory());
    PADDLE_TRY_STATUS(client.snapshots().resume(*newest));
    loop.begins_within_pass = !newest->info().pass_batches.empty();
  } else if (!snapshot.empty()) {
    log_info("Loading parameters from {}", snapshot);
    PADDLE_TRY_STATUS(client.snapshots().load(snapshot));
  }
  return client.ready();
}

trainer::TrainOptions options_to_join(trainer::TrainOptions options,
                                      const wire::ParameterSet& parameters,
                                      const UniqueFd& memory) {
  // A group's other trainers may be on their way back, and take longer.
  if (parameters.trainers_return() && !has_group(parameters) &&
      trainer::KeptPush::was_leaving(memory))
    options.connect_timeout = std::min(options.connect_timeout, kOverWithinSeconds);
  return options;
}

bool returns_to_group(const trainer::TrainOptions& options, const wire::ParameterSet& parameters,
                      const UniqueFd& memory) {
  return memory && options.incarnation > 1 && parameters.trainers_return() && has_group(parameters);
}

void continue_from_servers(const client::ParameterClient& client, trainer::LoopOptions& loop) {
  const client::JobProgress progress = client.progress();
  loop.start_pass = static_cast<std::uint32_t>(progress.passes);
  loop.batches_done = progress.batches;
  loop.meetings_done = progress.pauses;
  loop.furthest = progress.furthest;
  loop.begins_within_pass = loop.begins_within_pass || progress.is_within_pass;
  if (const auto& origin = progress.origin) {
    loop.train_data.origin = data::PassOrigin{static_cast<std::uint32_t>(origin->pass()),
                                              origin->batches(), origin->records()};
  }
  loop.repeats_pass_end =
      progress.passes > progress.passes_loaded && progress.batches == 0 && !progress.is_within_pass;
  if (progress.passes >= loop.train.passes) {
    log_info("all of the {} passes are done", loop.train.passes);
  } else if (progress.passes + progress.batches > 0) {
    log_info("going on in pass {} after batch {}", progress.passes, progress.batches);
  }
}

Status check_data(const client::ParameterClient& client, const trainer::LoopOptions& loop) {
  const client::JobProgress progress = client.progress();
  const auto& origin = progress.origin;
  const bool is_in_pass = origin && progress.passes == origin->pass() && progress.batches > 0;
  if (!is_in_pass || !loop.data_hash) return {};
  const std::uint64_t was = origin->data();
  const std::uint64_t now = loop.data_hash();
  if (was == 0 || now == 0 || was == now) return {};
  const std::vector<std::string>& files = loop.train_data.share.files;
  return Error{
      Errc::kData,
      fmt::format("trainer {}: the content of {}{} is not what pass {} began with: records "
                  "would be left out, or trained twice",
                  loop.trainer_id, files.empty() ? "its data" : files.front(),
                  files.size() < 2 ? "" : fmt::format(" and {} more files", files.size() - 1),
                  progress.passes),
      "bring the former files back to end the pass, and change them between two passes"};
}

Result<std::unique_ptr<trainer::KeptPush>> open_kept(UniqueFd memory,
                                                     const wire::ParameterSet& parameters,
                                                     const client::ParameterClient& client,
                                                     trainer::Model& model) {
  if (!memory || !parameters.trainers_return()) return std::unique_ptr<trainer::KeptPush>();
  return trainer::KeptPush::open({.memory = std::move(memory),
                                  .job = stable_hash(parameters.SerializeAsString()),
                                  .generations = client.progress().generations,
                                  .empty_tally = model.empty_tally(),
                                  .keeps_dense = strategy::has_rounds(parameters, false),
                                  .keeps_rows = strategy::has_rounds(parameters, true)},
                                 model.dense());
}

void take_early_signals(bool is_stop_asked) {
  g_stop_requested = is_stop_asked;
  handle(end_early);
}

void take_stop_signals() {
  handle(request_stop);
}

bool is_stop_requested() {
  return g_stop_requested;
}

}  // namespace paddle::commands
