#include "engine/commands/train.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/text.h"
#include "engine/commands/command.h"
#include "engine/commands/job_heartbeat.h"
#include "engine/commands/supervision.h"
#include "engine/config/data_check.h"
#include "engine/config/platform_rank.h"
#include "engine/data/content_hash.h"
#include "engine/data/objects.h"
#include "engine/data/statistics.h"
#include "engine/gpu/card_group.h"
#include "engine/math/allocator.h"
#include "engine/math/optimizer.h"
#include "engine/model/description.h"
#include "engine/pserver/shard.h"
#include "engine/snapshot/info.h"
#include "engine/snapshot/retention.h"
#include "engine/table/parameter_set.h"
#include "engine/trainer/connection.h"
#include "engine/trainer/held_out.h"
#include "engine/trainer/loop.h"
#include "engine/trainer/loop_options.h"
#include "engine/trainer/pass_snapshots.h"
#include "engine/trainer/replay_log.h"
#include "engine/trainer/start.h"
#include "engine/trainer/stepping.h"

namespace paddle::commands {
namespace {

// Start of a trainer in its job: from the beginning, from a snapshot, or where an earlier process
// of this trainer was lost.

constexpr const char* kNoFileHint =
    "patterns are relative to that folder; a template's ./prepare makes its data";

// Set by a stop signal: the trainer finishes its batch, and the job is saved.
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

// The first setting that differs from the snapshot's, so that its pass cannot be continued:
// "key=value" in the snapshot, and this job's value. The batch size may differ, except where a
// trainer repeats whole batches.
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
  const std::string from = fmt::format("snapshot {} is from the middle of {}", snapshot.directory(),
                                       pass_words(info.pass));
  if (const auto changed = changed_order(info, loop)) {
    return Error{
        Errc::kUsage,
        fmt::format("{}, which began with {}, not {}: records would be left out, or "
                    "trained twice",
                    from, changed->first, changed->second),
        fmt::format("continue with --set {}, and change it only between passes", changed->first)};
  }
  if (info.place->order.reader != loop.order.reader) {
    return Error{Errc::kUsage,
                 fmt::format("{}, which began with another [data] section: records would be left "
                             "out, or trained twice",
                             from),
                 "continue with the one in its model/job.toml, and change it only between passes"};
  }
  if (info.place->order.batch_size != loop.order.batch_size) {
    log_info("{} continues with batches of {} records, after batches of {}", pass_words(info.pass),
             loop.order.batch_size, info.place->order.batch_size);
  }
  return {};
}

// A line of progress that a training alone shows too.
void say(const trainer::TrainOptions& options, const std::string& note) {
  options.local && !options.verbose ? log_plain(note) : log_info("{}", note);
}

// The statistics of a job that needs some and names none.
struct OwnStatistics {
  std::string path;
  std::string name;      // for messages
  std::string way_out;   // the hint if they do not fit the job's slots; "": that of the misfit
  UniqueFd memory = {};  // contains the file, unless a snapshot has it
};

// The absolute path of a snapshot's statistics; "" if it has none. kUsage: it has only their hash.
Result<std::string> statistics_in(const std::string& snapshot) {
  const std::string path =
      std::filesystem::absolute(snapshot + "/" + inference::kStatisticsFile).string();
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return path;
  if (!std::filesystem::is_regular_file(path + ".sha256", ignored)) return std::string();
  return Error{
      Errc::kUsage,
      fmt::format("{} has only the hash of its statistics, which were too large", snapshot),
      "name the file that its training used: --set=data.statistics=FILE"};
}

// The statistics in the snapshot that the training continues from or begins with, since its
// parameters belong to these; an empty path if there are none.
Result<OwnStatistics> statistics_of_snapshot(const trainer::TrainOptions& options) {
  std::vector<std::string> snapshots;
  if (options.start_pass > 0)
    snapshots = {trainer::pass_directory(options.save_dir, options.start_pass - 1)};
  if (options.resume && !options.save_dir.empty()) {
    PADDLE_TRY(const auto names, snapshot::snapshot_names(options.save_dir));
    for (const std::string& name : names) snapshots.push_back(options.save_dir + "/" + name);
    std::ranges::reverse(snapshots);  // the newest first
  }
  for (const std::string& snapshot : snapshots) {
    PADDLE_TRY(const std::string path, statistics_in(snapshot));
    if (path.empty()) continue;
    return OwnStatistics{path, path,
                         "a training that resumes keeps its statistics: undo the change of the "
                         "slot's keys, or start a new training in another --save_dir"};
  }
  if (!snapshots.empty() || options.init_model_path.empty()) return OwnStatistics();
  PADDLE_TRY(const std::string path, statistics_in(options.init_model_path));
  if (path.empty()) return OwnStatistics();
  say(options, fmt::format("statistics are those of {}, to which its parameters belong",
                           options.init_model_path));
  return OwnStatistics{path, path,
                       "parameters belong to their statistics: undo the change of the slot's keys, "
                       "start without --init_model_path, or name other statistics: "
                       "--set=data.statistics=FILE"};
}

// kUsage, kData: they are not for the job's slots.
Status check_fit(const OwnStatistics& statistics, const config::DataConfig& data) {
  PADDLE_TRY(const std::string text, read_file(statistics.path, config::kStatisticsBytesMax));
  Status fits = config::check_statistics(text, data);
  if (fits) return {};
  Error error = std::move(fits).error().with(statistics.name);
  if (!statistics.way_out.empty()) error.hint = statistics.way_out;
  return error;
}

// kUsage: other trainers need the same statistics. kData: as a pass over the training data.
Result<OwnStatistics> own_statistics(const trainer::TrainOptions& options,
                                     const config::JobConfig& job) {
  if (options.num_gradient_servers > 1) {
    return Error{Errc::kUsage,
                 fmt::format("{} names no [data] statistics, which all {} trainers must share",
                             options.config, options.num_gradient_servers),
                 fmt::format("paddle statistics --config={} --output=FILE makes them, and each "
                             "snapshot has those of its parameters, {}; add "
                             "--set=data.statistics=FILE to each trainer",
                             options.config, inference::kStatisticsFile)};
  }
  // Makes the folder; one that this training may not use is an error before the data is read.
  if (!options.from_scratch) PADDLE_TRY_STATUS(trainer::prepare_save_folder(options));
  PADDLE_TRY(OwnStatistics found, statistics_of_snapshot(options));
  if (!found.path.empty()) return found;
  PADDLE_TRY(const data::Statistics observed,
             data::observe_training(job, config::folder_of(options.config), 0, 1));
  PADDLE_TRY(const config::DataStatistics result, observed.result());
  say(options, fmt::format("statistics of {} training records", result.records));
  const std::string text = config::statistics_text(result);
  UniqueFd memory(::memfd_create("statistics.json", MFD_CLOEXEC));
  if (!memory || !write_at(memory.get(), as_bytes(text), 0))
    return system_error(Errc::kResource, "keep statistics in memory");
  return OwnStatistics{fmt::format("/proc/self/fd/{}", memory.get()),
                       "the statistics of the training data", "", std::move(memory)};
}

// The model's description for the snapshots that this trainer saves; null: it saves none.
using Description = std::shared_ptr<const std::vector<snapshot::ModelFile>>;

Result<Description> describe_saved(const trainer::TrainOptions& options,
                                   const config::ResolvedJob& job) {
  if (options.save_dir.empty() || (options.trainer_id != 0 && !options.saves_copy))
    return Description();
  PADDLE_TRY(auto files, inference::describe_model(job, options.config));
  return std::make_shared<const std::vector<snapshot::ModelFile>>(std::move(files));
}

// kUsage: the job asks for a figure that tests of its network do not have.
Status check_figures(const config::JobConfig& job, const trainer::Model& model) {
  return trainer::EarlyStop::check(job.train, trainer::figures_of(model.read(trainer::Score())));
}

// Options of a trainer that starts from the beginning; trainer::continue_from_servers() changes
// them for one that does not. kUsage, kData: its data files.
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
    log_warning("no file of '{}' belongs to trainer {}: it joins the rounds without data",
                job.data.train, options.trainer_id);
  }
  std::vector<std::string> files = loop.train_data.share.files;
  if (!job.data.dictionary.empty()) files.push_back(config::in_folder(folder, job.data.dictionary));
  const auto content =
      std::make_shared<data::ContentHash>(std::move(files), loop.train_data.share.names_hash);
  loop.data_hash = [content] { return content->value(); };
  const bool is_tested = !job.data.test.empty() || job.data.test_fraction > 0;
  if (!is_tested || options.trainer_id != 0) return loop;
  auto held_out = trainer::held_out_data(job, folder, "");
  if (!held_out) {
    Error error =
        std::move(held_out).error().with(job.data.test.empty() ? "[data] train" : "[data] test");
    if (error.hint.empty()) error.hint = kNoFileHint;
    return error;
  }
  loop.test_data = *std::move(held_out);
  return loop;
}

// All that the trainers and shards must agree on.
wire::ParameterSet agreed_parameters(const config::JobConfig& job, const trainer::Model& model,
                                     const trainer::TrainOptions& options,
                                     const trainer::LoopOptions& loop) {
  return trainer::parameter_set(job, model.parameters(), options, loop.train_data.share.names_hash);
}

// Whether this is a restarted rank of a group whose trainers return. Other ranks may be restarting
// too, so a failed join is tried again.
bool returns_to_group(const trainer::TrainOptions& options, const wire::ParameterSet& parameters,
                      const UniqueFd& memory) {
  return memory && options.incarnation > 1 && parameters.trainers_return() &&
         parameter::has_group(parameters);
}

// kData: the job goes on within a pass that this trainer began with data of another content.
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
      fmt::format("trainer {}: the content of {}{} has changed since {} began: records would "
                  "be left out, or trained twice",
                  loop.trainer_id, files.empty() ? "its data" : files.front(),
                  files.size() < 2 ? "" : fmt::format(" and {} more files", files.size() - 1),
                  pass_words(progress.passes)),
      "restore the former files to finish the pass, and change them only between passes"};
}

// Until take_stop_signals(), SIGTERM and SIGINT end the process with Errc::kInterrupted. If a stop
// was requested before the process began, both keep their default action and kill it, here and
// later.
void take_early_signals(bool is_stop_asked) {
  g_stop_requested = is_stop_asked;
  handle(end_early);
}

// After this call, the first of these signals only requests the stop; the second one ends the
// process.
void take_stop_signals() {
  handle(request_stop);
}

bool is_stop_requested() {
  return g_stop_requested;
}

// The sessions of a trainer.

// The most sessions of one process. Each session joins the job with its own incarnation.
constexpr std::uint32_t kSessionsMax = 1024;
constexpr int kPauseBetweenSessionsMs = 200;
constexpr auto kJoinAgainWithin = std::chrono::seconds(30);
constexpr std::size_t kBestBytesMax = 256;

Status check(const trainer::TrainOptions& options, const config::JobConfig& job) {
  PADDLE_TRY_STATUS(trainer::check_start(options));
  if (options.local && options.num_gradient_servers != 1) {
    return Error{Errc::kUsage,
                 "--local runs one trainer; --trainer_count sets its number of threads"};
  }
  if (!job.has_network()) {
    return Error{Errc::kUsage, fmt::format("{} has no [[layer]]", options.config),
                 "this job is trained by its [trainer] command, not by paddle train"};
  }
  if (trainer::joins_group(job, options) || trainer::joins_node(job, options)) {
    PADDLE_TRY_STATUS(trainer::check_group(job, options));
  }
  PADDLE_TRY_STATUS(trainer::check_pservers(job, options));
  if (options.start_pass > 0 && options.start_pass >= job.train.passes) {
    return Error{Errc::kUsage,
                 fmt::format("--start_pass is {}, but the job has {} passes: nothing to do",
                             options.start_pass, job.train.passes)};
  }
  return {};
}

void say_where_snapshots_are(const std::string& folder) {
  if (folder.empty()) return;
  const auto names = snapshot::snapshot_names(folder);
  if (!names || names->empty()) return;
  auto best = read_file(folder + "/BEST", kBestBytesMax);
  if (best && best->ends_with('\n')) best->pop_back();
  log_plain(fmt::format("saved {}/{}{}", folder, names->back(),
                        best ? fmt::format("; the best pass is {}", *best) : ""));
}

// State that all sessions of a trainer share.
struct TrainerProcess {
  trainer::TrainOptions options;
  const config::JobConfig& job;
  const data::Dictionary& dictionary;
  const wire::ParameterSet& parameters;
  const trainer::LoopOptions& loop;
  const UniqueFd& memory;  // empty: this process is not restarted alone
  trainer::Model& model;
  trainer::MetricsFile& metrics;
  trainer::Stepping& stepping;
  Description description;
  bool has_joined = false;         // in this session
  bool joins_again = false;        // after the loss of a pserver, or of a rank of its group
  std::string restored_from = {};  // as in LoopOptions
};

UniqueFd memory_of(const TrainerProcess& process) {
  return process.memory ? UniqueFd(::fcntl(process.memory.get(), F_DUPFD_CLOEXEC, 0)) : UniqueFd();
}

Status run_loop(TrainerProcess& process, trainer::LoopOptions loop,
                client::ParameterClient& client) {
  const auto noted = trainer::note_steps(client, process.stepping);
  trainer::Loop training(std::move(loop), process.dictionary, process.model, *noted,
                         process.metrics);
  Status ended = training.run();
  if (ended || ended.error().code == Errc::kResumable || ended.error().code == Errc::kInterrupted) {
    return ended;
  }
  Error why = ended.error();
  // A stop of all processes also ends the programs that deliver data. What they leave out is no
  // fault of the data, and the others lose this trainer.
  const bool is_ordered = why.code == Errc::kData && is_stop_requested();
  if (is_ordered) why.code = Errc::kUnreachable;
  // A trainer that would fail again ends the job for all. One that lost another process joins
  // again, and finds out then whether the job goes on. At a stop the others have left, and do not
  // return.
  const bool comes_back = !is_ordered && why.code == Errc::kUnreachable &&
                          !training.has_lost_push() && !client.stop_asked();
  if (!comes_back) {
    client.abandon(why);
    process.joins_again = false;
  }
  client.interrupt(why);
  if (!is_ordered) return ended;
  why.code = Errc::kInterrupted;
  return std::move(why).with("stopped");
}

// Runs from joining the job to its end, or to the loss of a pserver.
Status run_session(TrainerProcess& process) {
  const trainer::TrainOptions& options = process.options;
  const auto tell_awaited = [](std::span<const std::uint32_t> trainers, Duration waited) {
    notify_awaited(trainers, std::chrono::duration_cast<std::chrono::milliseconds>(waited));
  };
  auto joined =
      trainer::join_job(process.job, process.parameters,
                        trainer::options_to_join(options, process.parameters, process.memory),
                        process.model, tell_awaited, process.memory);
  if (!joined) {
    if (!trainer::ReplayLog::was_leaving(process.memory)) return std::move(joined).error();
    log_info("the job had already ended: {}", joined.error().message);
    return {};
  }
  client::ParameterClient& client = **joined;
  if (client.progress().is_over) return trainer::leave_over(client);
  client.snapshots().describe(process.description);
  const bool comes_back = process.memory && process.parameters.trainers_return();
  process.has_joined = true;
  process.joins_again = comes_back;
  trainer::LoopOptions loop = process.loop;
  const auto on_resume = [&loop](const snapshot::SnapshotReader& snapshot) -> Status {
    loop.begins_within_pass = !snapshot.info().pass_batches.empty();
    return check_order(snapshot, loop);
  };
  Status started = trainer::start_training(options, client, process.restored_from, on_resume);
  if (!started) {
    // Otherwise the other ranks of a group would learn that this one has ended, but not why.
    if (trainer::joins_group(process.job, options)) client.abandon(started.error());
    return started;
  }
  loop.restored_from = process.restored_from;
  loop.gradient_limit = parameter::gradient_limit(process.parameters);
  trainer::continue_from_servers(client, loop);
  if (Status same = check_data(client, loop); !same) {
    client.abandon(same.error());
    return same;
  }
  const auto heartbeats = start_heartbeats(options, client, comes_back);
  const auto kept = trainer::open_replay_log(memory_of(process), process.parameters, client,
                                             process.model.empty_tally(), process.model.dense());
  // Without this memory, a loss sends the job back to its last snapshot.
  if (!kept) log_warning("{}", kept.error().message);
  loop.kept = kept ? kept->get() : nullptr;
  if (loop.kept == nullptr) trainer::ReplayLog::note_leaving(process.memory, false);
  loop.before_leave = [&memory = process.memory, push = loop.kept] {
    push == nullptr ? trainer::ReplayLog::note_leaving(memory, true) : push->begin_leave();
  };
  loop.publish = [&](wire::Progress progress) {
    process.stepping.set_activity(progress.activity());
    note_silences(heartbeats.get(), progress);
    notify_progress(std::move(progress));
  };
  take_stop_signals();
  notify_ready();
  return run_loop(process, std::move(loop), client);
}

// Ends the process at once. A library that does not end its sums between cards has threads in the
// midst of a call; what the end of a process does otherwise may wait for them.
[[noreturn]] void end_stuck(const Status& ended) {
  log_error("sums between GPUs have not ended, and this process cannot begin others: it ends");
  const int code = exit_code(ended);
  std::cout.flush();
  std::_Exit(code);
}

// A process that lost a pserver, or a rank of its group, joins again with the next incarnation. If
// it cannot join for a while, it ends, and its supervisor starts a new process.
Status run_sessions(TrainerProcess& process) {
  const std::uint64_t first = std::uint64_t{process.options.incarnation} * kSessionsMax;
  process.joins_again = returns_to_group(process.options, process.parameters, process.memory);
  TimePoint lost_at = std::chrono::steady_clock::now();
  for (std::uint32_t session = 0;; ++session) {
    process.options.incarnation = static_cast<std::uint32_t>(first + session);
    process.has_joined = false;
    Status ended = run_session(process);
    if (device::CardGroup::is_stuck()) end_stuck(ended);
    if (ended || !process.joins_again || ended.error().code != Errc::kUnreachable) return ended;
    const TimePoint now = std::chrono::steady_clock::now();
    if (process.has_joined) lost_at = now;
    if (now - lost_at > kJoinAgainWithin || session + 1 == kSessionsMax) return ended;
    log_warning("{}: joining the job again", ended.error().message);
    // Pservers that were restarted too continue from the newest snapshot.
    process.options.resume = !process.options.save_dir.empty();
    ::poll(nullptr, 0, kPauseBetweenSessionsMs);  // a stop signal interrupts it
  }
}

Status train(trainer::TrainOptions options) {
  const UniqueFd memory = take_trainer_memory();
  // The process before this one failed when the job was asked to stop: this one joins to be saved
  // with the others.
  take_early_signals(take_mark("PADDLECTL_STOP_ASKED"));
  trainer::Stepping stepping;
  const PulseThread pulse([&stepping] { return stepping.pulse(); });
  PADDLE_TRY(config::ResolvedJob resolved, config::resolve_job(options.config, options.overrides));
  OwnStatistics statistics;  // as long as the file is read
  if (config::lacks_statistics(resolved.config.data)) {
    PADDLE_TRY(statistics, own_statistics(options, resolved.config));
    PADDLE_TRY_STATUS(check_fit(statistics, resolved.config.data));
    options.overrides.push_back("data.statistics=" + statistics.path);
    PADDLE_TRY(resolved, config::resolve_job(options.config, options.overrides));
  }
  config::JobConfig& job = resolved.config;
  PADDLE_TRY(job.train.batch_size,
             job.train.batch_size_of(options.trainer_id, options.num_gradient_servers));
  trainer::leave_out_unused(job, options);
  PADDLE_TRY_STATUS(check(options, job));
  data::Dictionary dictionary;
  if (!job.data.dictionary.empty()) {
    PADDLE_TRY_STATUS(config::check_dictionary(job.data, config::folder_of(options.config)));
    PADDLE_TRY(dictionary, data::Dictionary::read(config::in_folder(
                               config::folder_of(options.config), job.data.dictionary)));
  }
  PADDLE_TRY(trainer::Model model, trainer::Model::build(job));
  PADDLE_TRY_STATUS(check_figures(job, model));
  PADDLE_TRY_STATUS(trainer::keep_on_card(job, model, options));
  PADDLE_TRY(trainer::LoopOptions loop, loop_options(options, job));
  loop.train_data.rules = loop.test_data.rules = model.rules();
  const TimePoint begun = trainer::ReplayLog::first_begin(memory, SteadyClock().now());
  if (job.train.time_max) loop.ends_at = begun + *job.train.time_max;
  PADDLE_TRY_STATUS(trainer::prepare_save_folder(options));
  PADDLE_TRY(Description description, describe_saved(options, resolved));
  PADDLE_TRY(trainer::MetricsFile metrics, trainer::MetricsFile::open(options.metrics));
  if (options.trainer_id == 0) {
    loop.train_data.warn = [&metrics](const std::string& warning) {
      log_warning("{}", warning);
      metrics.write("warning", JsonObject().add("message", warning));
    };
  }
  const wire::ParameterSet parameters = agreed_parameters(job, model, options, loop);
  loop.stop_requested = [] {
    if (is_stop_requested()) notify_stopping();
    return is_stop_requested();
  };
  if (!loop.is_brief) {
    log_info("trainer {} of {}: {}, batches of {}", options.trainer_id,
             options.num_gradient_servers, model.computes_on(), job.train.batch_size);
  } else if (job.train.compute != kernels::Compute::kFloat32) {
    log_plain(model.computes_on());
  }
  TrainerProcess process{options, job,   dictionary, parameters, loop,
                         memory,  model, metrics,    stepping,   std::move(description)};
  Status ended = run_sessions(process);
  if (ended && loop.is_brief) say_where_snapshots_are(options.save_dir);
  const bool may_be_alone =
      options.pservers == trainer::TrainOptions().pservers && options.num_gradient_servers == 1;
  if (ended || ended.error().code != Errc::kUnreachable || options.local || !may_be_alone)
    return ended;
  Error lonely = std::move(ended).error();
  if (lonely.hint.empty())
    lonely.hint = "--local trains in this process alone; --pservers names the pservers of a job";
  return lonely;
}

Status apply_platform_rank(const std::string& platform, trainer::TrainOptions& options) {
  PADDLE_TRY(const config::JobConfig job, config::read_job(options.config, options.overrides));
  const auto count =
      trainer::uses_pservers(job) ? static_cast<std::uint32_t>(options.pservers.size()) : 0;
  PADDLE_TRY(const auto rank, config::platform_rank(platform, ::getenv));
  PADDLE_TRY(options.trainer_id, config::id_in_role(rank, false, count));
  PADDLE_TRY(options.num_gradient_servers,
             config::trainers_of(rank, count, options.num_gradient_servers));
  return {};
}

Status run_train(const TrainFlags& flags) {
  if (flags.use_gpu.value_or(false)) PADDLE_TRY_STATUS(trainer::check_has_driver("--use_gpu"));
  trainer::TrainOptions options = flags.resolve();
  if (!flags.rank_from.empty()) PADDLE_TRY_STATUS(apply_platform_rank(flags.rank_from, options));
  if (!options.key_file.empty()) turn_off_cores();
  static const std::string name = fmt::format("trainer-{}", options.trainer_id);
  set_log_name(name);
  end_when_out_of_memory(name.c_str(),
                         "lower train.batch_size or train.trainer_count, or run fewer trainers on "
                         "a node");
  const bool is_by_hand = options.key_file.empty() && !options.local;
  Status done = train(std::move(options));
  if (done || done.error().code != Errc::kUnreachable || !is_by_hand) return done;
  Error error = std::move(done).error();
  if (error.hint.empty()) error.hint = "start its pservers first, and name them with --pservers";
  return error;
}

std::function<Status()> declare_train(FlagSet& flags) {
  const auto options = std::make_shared<TrainFlags>();
  options->declare(flags);
  return [options] { return run_train(*options); };
}

}  // namespace

void declare_trainer(FlagSet& flags, trainer::TrainOptions& options) {
  flags.repeated("set", "KEY=VALUE in place of job.toml's, e.g. train.batch_size=64; repeatable",
                 options.overrides);
  flags.number("trainer_id", "rank of this trainer, from 0 to num_gradient_servers - 1",
               options.trainer_id, 0, kCountMax);
  flags.number("num_gradient_servers", "number of trainers of the job",
               options.num_gradient_servers, 1, pserver::kTrainersMax);
  flags.list("pservers", "HOST[:PORT],... of the pservers, in the same order for all trainers",
             options.pservers);
  flags.number("port", "first port of a pserver that --pservers names without one", options.port, 1,
               kPortMax);
  flags.number("ports_num", "number of ports for dense parameters of each pserver",
               options.ports_num, 0, kPortsMax);
  flags.number("ports_num_for_sparse", "number of ports for sparse tables of each pserver",
               options.ports_num_for_sparse, 0, kPortsMax);
  flags.boolean("local", "train in this process alone, without pservers", options.local);
  flags.text("save_dir", "folder of the snapshots pass-00000 ...", options.save_dir);
  flags.number("start_pass", "continue after pass start_pass - 1 of --save_dir", options.start_pass,
               0, kCountMax);
  flags.boolean("resume", "continue from the newest snapshot in --save_dir, if there is one",
                options.resume);
  flags.boolean("from_scratch",
                "start from the beginning if --save_dir has snapshots; they are moved to its "
                "folder earlier-1; --resume takes precedence",
                options.from_scratch);
  flags.text("init_model_path",
             "snapshot to start from, with passes counted from 0; with --resume "
             "only where --save_dir has none",
             options.init_model_path);
  flags.text("job_tag", "name of the job; the same for all of its processes", options.job_tag);
  flags.text("key_file", kKeyFileHelp, options.key_file);
  flags.text("transport", kTransportHelp, options.transport);
  flags.number("connect_timeout", "seconds to wait for the pservers to listen",
               options.connect_timeout, 1, 3600);
  flags.number("incarnation", "number of this start of the trainer; rises with every restart",
               options.incarnation, 0, UINT32_MAX / kSessionsMax - 1);
}

void TrainFlags::declare(FlagSet& flags) {
  flags.text("config", "the job.toml of the job", options.config);
  declare_trainer(flags, options);
  flags.list("trainers",
             "with dense = 'collective' or 'local_sgd', or node_groups: HOST:PORT,... of all "
             "trainers, in the order of trainer_id; each trainer listens at its own entry",
             options.trainers);
  flags.text("trainer_count", "number of threads of this trainer", trainer_count);
  flags.boolean("use_gpu", "train on a GPU, by paddle-gpu; default: train.device", use_gpu);
  flags.boolean("verbose",
                "with --local: log all that a trainer of a larger job logs, not only a line for "
                "each pass",
                options.verbose);
  flags.boolean("saves_copy", "save a copy of each snapshot of trainer 0 in --save_dir",
                options.saves_copy);
  flags.text("num_passes", "number of passes over the data", num_passes);
  flags.text("log_period", "number of batches between two progress lines", log_period);
  flags.text("seed", "seed of initial values, shuffling and dropout", seed);
  flags.text("metrics", "file to which a JSON line is appended at each log point", options.metrics);
  flags.boolean("nccl_clear", "let NCCL connect hosts, which it does without encryption",
                options.nccl_clear);
  flags.text("rank_from", kRankFromHelp, rank_from);
}

trainer::TrainOptions TrainFlags::resolve() const {
  trainer::TrainOptions resolved = options;
  const auto add = [&resolved](const char* key, const std::string& value) {
    if (!value.empty()) resolved.overrides.push_back(fmt::format("{}={}", key, value));
  };
  add("train.passes", num_passes);
  add("train.log_period", log_period);
  add("train.trainer_count", trainer_count);
  add("seed", seed);
  if (use_gpu) add("train.device", *use_gpu ? "gpu" : "cpu");
  return resolved;
}

const Command kTrainCommand{"train", "train the network that job.toml describes",
                            R"(usage: paddle train [flags]

examples:
  paddle train --local --config=job.toml --save_dir=output --num_passes=3
  paddle train --config=job.toml --trainer_id=1 --num_gradient_servers=4 \
    --pservers=10.0.0.1,10.0.0.2 --key_file=job.key

With --local it prints a line for each pass, and with --verbose too what a
trainer of a larger job logs.
)",
                            declare_train};

}  // namespace paddle::commands
