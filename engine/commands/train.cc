#include "engine/commands/train.h"

#include <fcntl.h>
#include <poll.h>

#include <cstdlib>
#include <memory>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/secret.h"
#include "engine/commands/command.h"
#include "engine/commands/inherited.h"
#include "engine/commands/job_heartbeat.h"
#include "engine/commands/notice.h"
#include "engine/commands/pulse.h"
#include "engine/commands/train_start.h"
#include "engine/config/data_check.h"
#include "engine/config/platform_rank.h"
#include "engine/memory/allocator.h"
#include "engine/optim/optimizer.h"
#include "engine/parameter/parameter_set.h"
#include "engine/pserver/shard.h"
#include "engine/snapshot/retention.h"
#include "engine/trainer/connection.h"
#include "engine/trainer/kept_push.h"
#include "engine/trainer/loop.h"
#include "engine/trainer/stepping.h"

namespace paddle::commands {
namespace {

// Incarnations of one life: one for each time that it joins the job.
constexpr std::uint32_t kSessionsMax = 1024;
constexpr int kPauseBetweenSessionsMs = 200;
constexpr auto kJoinAgainWithin = std::chrono::seconds(30);
constexpr std::size_t kBestBytesMax = 256;

Status check(const trainer::TrainOptions& options, const config::JobConfig& job) {
  if (options.trainer_id >= options.num_gradient_servers) {
    return Error{Errc::kUsage,
                 fmt::format("trainer_id {} of num_gradient_servers {}", options.trainer_id,
                             options.num_gradient_servers),
                 "trainers are numbered from 0"};
  }
  if (options.local && options.num_gradient_servers != 1) {
    return Error{Errc::kUsage, "--local has one trainer, its threads are --trainer_count"};
  }
  if (!job.has_network()) {
    return Error{Errc::kUsage, fmt::format("{} has no [[layer]]", options.config),
                 "its [trainer] command trains, not paddle train"};
  }
  if (trainer::joins_group(job, options) || trainer::joins_node(job, options)) {
    PADDLE_TRY_STATUS(trainer::check_group(job, options));
  }
  PADDLE_TRY_STATUS(trainer::check_pservers(job, options));
  if (options.start_pass > 0 && options.save_dir.empty() && options.init_model_path.empty()) {
    return Error{Errc::kUsage, "--start_pass needs --save_dir", "it continues from a pass there"};
  }
  if (options.resume && (options.save_dir.empty() || options.start_pass > 0)) {
    return Error{Errc::kUsage, "--resume needs --save_dir, and no pass to start from",
                 "leave --start_pass out"};
  }
  if (options.start_pass > 0 && options.start_pass >= job.train.passes) {
    return Error{Errc::kUsage, fmt::format("--start_pass {} of {} passes: nothing to do",
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

// All that the sessions of a trainer share.
struct TrainerProcess {
  trainer::TrainOptions options;
  const config::JobConfig& job;
  const data::Dictionary& dictionary;
  const wire::ParameterSet& parameters;
  const trainer::LoopOptions& loop;
  const UniqueFd& memory;  // empty: this process does not come back
  trainer::Model& model;
  trainer::MetricsFile& metrics;
  trainer::Stepping& stepping;
  Description description;
  bool has_joined = false;     // in this session
  bool joins_again = false;    // after the loss of a pserver, or of a rank of its group
  std::string went_back = {};  // as in wire::Progress
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
  // Nobody waits for a trainer that will fail again. One that lost another process comes back, and
  // finds out then whether the job goes on. At a stop the others have left, and do not.
  const bool comes_back =
      ended.error().code == Errc::kUnreachable && !training.has_lost_push() && !client.stop_asked();
  if (!comes_back) {
    client.abandon(ended.error());
    process.joins_again = false;
  }
  client.interrupt(ended.error());
  return ended;
}

Status leave_over(client::ParameterClient& client) {
  log_info("the job is over: the other trainers have left");
  Status left = client.leave();
  return left || left.error().code != Errc::kUnreachable ? left : Status();
}

// From joining the job to its end, or to the loss of a pserver.
Status run_session(TrainerProcess& process) {
  const trainer::TrainOptions& options = process.options;
  const auto tell_awaited = [](std::span<const std::uint32_t> trainers, Duration waited) {
    notify_awaited(trainers, std::chrono::duration_cast<std::chrono::milliseconds>(waited));
  };
  auto joined = trainer::join_job(process.job, process.parameters,
                                  options_to_join(options, process.parameters, process.memory),
                                  process.model, tell_awaited, process.memory);
  if (!joined) {
    if (!trainer::KeptPush::was_leaving(process.memory)) return std::move(joined).error();
    log_info("the job was over: {}", joined.error().message);
    return {};
  }
  client::ParameterClient& client = **joined;
  if (client.progress().is_over) return leave_over(client);
  client.snapshots().describe(process.description);
  const bool comes_back = process.memory && process.parameters.trainers_return();
  process.has_joined = true;
  process.joins_again = comes_back;
  trainer::LoopOptions loop = process.loop;
  if (Status started = start_training(options, client, process.went_back, loop); !started) {
    // The ranks of a group would hear only that this one has ended.
    if (trainer::joins_group(process.job, options)) client.abandon(started.error());
    return started;
  }
  loop.went_back = process.went_back;
  loop.gradient_limit = parameter::gradient_limit(process.parameters);
  continue_from_servers(client, loop);
  if (Status same = check_data(client, loop); !same) {
    client.abandon(same.error());
    return same;
  }
  const auto heartbeat = start_heartbeat(options, client, comes_back);
  const auto kept = open_kept(memory_of(process), process.parameters, client, process.model);
  if (!kept) log_warning("{}", kept.error().message);  // the job would go back to its last snapshot
  loop.kept = kept ? kept->get() : nullptr;
  if (loop.kept == nullptr) trainer::KeptPush::note_leaving(process.memory, false);
  loop.before_leave = [&memory = process.memory, push = loop.kept] {
    push == nullptr ? trainer::KeptPush::note_leaving(memory, true) : push->begin_leave();
  };
  loop.report = [&](wire::Progress progress) {
    process.stepping.set_activity(progress.activity());
    note_silences(heartbeat.get(), progress);
    notify_progress(std::move(progress));
  };
  take_stop_signals();
  notify_ready();
  return run_loop(process, std::move(loop), client);
}

// A process that lost a pserver, or a rank of its group, joins again, with the next incarnation.
// When it cannot for a while, its supervisor starts it anew.
Status run_sessions(TrainerProcess& process) {
  const std::uint64_t first = std::uint64_t{process.options.incarnation} * kSessionsMax;
  process.joins_again = returns_to_group(process.options, process.parameters, process.memory);
  TimePoint lost_at = std::chrono::steady_clock::now();
  for (std::uint32_t session = 0;; ++session) {
    process.options.incarnation = static_cast<std::uint32_t>(first + session);
    process.has_joined = false;
    Status ended = run_session(process);
    if (ended || !process.joins_again || ended.error().code != Errc::kUnreachable) return ended;
    const TimePoint now = std::chrono::steady_clock::now();
    if (process.has_joined) lost_at = now;
    if (now - lost_at > kJoinAgainWithin || session + 1 == kSessionsMax) return ended;
    log_warning("{}: joining the job again", ended.error().message);
    // Pservers that have begun anew too go on from the newest snapshot.
    process.options.resume = !process.options.save_dir.empty();
    ::poll(nullptr, 0, kPauseBetweenSessionsMs);  // a stop signal ends it
  }
}

Status train(trainer::TrainOptions options) {
  const UniqueFd memory = take_inherited("PADDLECTL_MEMORY_FD", S_IFREG);
  // Its life before failed when the job was asked to stop: it is here to be saved with the others.
  take_early_signals(take_mark("PADDLECTL_STOP_ASKED"));
  trainer::Stepping stepping;
  const PulseThread pulse([&stepping] { return stepping.pulse(); });
  PADDLE_TRY(config::JobConfig job, config::read_job(options.config, options.overrides));
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
  const TimePoint begun = trainer::KeptPush::first_begin(memory, SteadyClock().now());
  if (job.train.time_max) loop.ends_at = begun + *job.train.time_max;
  PADDLE_TRY_STATUS(prepare_save_folder(options));
  PADDLE_TRY(Description description, describe_saved(options));
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
  }
  TrainerProcess process{options, job,   dictionary, parameters, loop,
                         memory,  model, metrics,    stepping,   std::move(description)};
  Status ended = run_sessions(process);
  if (ended && loop.is_brief) say_where_snapshots_are(options.save_dir);
  const bool names_no_pserver = options.pservers == trainer::TrainOptions().pservers;
  if (ended || ended.error().code != Errc::kUnreachable || options.local || !names_no_pserver)
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
  if (error.hint.empty())
    error.hint = "start its pservers first; or, to train in one process, add --local";
  return error;
}

std::function<Status()> declare_train(FlagSet& flags) {
  const auto options = std::make_shared<TrainFlags>();
  options->declare(flags);
  return [options] { return run_train(*options); };
}

}  // namespace

void TrainFlags::declare(FlagSet& flags) {
  flags.text("config", "the job.toml of the job", options.config);
  flags.repeated("set", "KEY=VALUE in place of job.toml's, e.g. train.batch_size=64; repeatable",
                 options.overrides);
  flags.number("trainer_id", "rank of this trainer, from 0 to num_gradient_servers - 1",
               options.trainer_id, 0, kCountMax);
  flags.number("num_gradient_servers", "number of trainers of the job",
               options.num_gradient_servers, 1, pserver::kTrainersMax);
  flags.list("pservers", "HOST[:PORT],... of the pservers, in the same order for all trainers",
             options.pservers);
  flags.list(
      "trainers",
      "with dense = 'collective' or node_groups: HOST:PORT,... of all trainers, in the order of "
      "trainer_id; each trainer listens at its own",
      options.trainers);
  flags.number("port", "first port of a pserver that --pservers names without one", options.port, 1,
               kPortMax);
  flags.number("ports_num", "number of ports for dense parameters of each pserver",
               options.ports_num, 0, kPortsMax);
  flags.number("ports_num_for_sparse", "number of ports for sparse tables of each pserver",
               options.ports_num_for_sparse, 0, kPortsMax);
  flags.text("trainer_count", "number of threads of this trainer", trainer_count);
  flags.boolean("use_gpu", "train on a GPU, by paddle-gpu; by default as train.device says",
                use_gpu);
  flags.boolean("local", "train in this process alone, without pservers", options.local);
  flags.boolean("verbose",
                "with --local: log all that a trainer of a larger job logs, not only a line for "
                "each pass",
                options.verbose);
  flags.text("save_dir", "folder of the snapshots pass-00000 ...", options.save_dir);
  flags.boolean("saves_copy", "save a copy of each snapshot of trainer 0 in --save_dir",
                options.saves_copy);
  flags.text("num_passes", "number of passes over the data", num_passes);
  flags.number("start_pass", "continue after pass start_pass - 1 of --save_dir", options.start_pass,
               0, kCountMax);
  flags.boolean("resume", "continue from the newest snapshot in --save_dir, if there is one",
                options.resume);
  flags.boolean("from_scratch",
                "begin anew where --save_dir has snapshots, which are moved to earlier-1 in it; "
                "--resume takes precedence",
                options.from_scratch);
  flags.text("init_model_path",
             "snapshot to start from, with passes counted from 0; with --resume "
             "only where --save_dir has none",
             options.init_model_path);
  flags.text("log_period", "number of batches between two progress lines", log_period);
  flags.text("seed", "seed of initial values, shuffling and dropout", seed);
  flags.text("metrics", "file to which a JSON line is appended at each log point", options.metrics);
  flags.text("job_tag", "name of the job; the same for all of its processes", options.job_tag);
  flags.text("key_file", kKeyFileHelp, options.key_file);
  flags.text("transport", kTransportHelp, options.transport);
  flags.boolean("nccl_clear", "let NCCL connect hosts, which it does without encryption",
                options.nccl_clear);
  flags.number("connect_timeout", "seconds to wait for the pservers to listen",
               options.connect_timeout, 1, 3600);
  flags.text("rank_from", kRankFromHelp, rank_from);
  flags.number("incarnation", "number of this start of the trainer; rises with every restart",
               options.incarnation, 0, UINT32_MAX / kSessionsMax - 1);
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
