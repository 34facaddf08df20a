// The engine: parameter servers and trainers in one self-contained program.
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "base/text.h"
#include "engine/commands/build_options.h"
#include "engine/commands/flags.h"
#include "engine/commands/plan.h"
#include "engine/commands/pserver.h"
#include "engine/commands/train.h"
#include "engine/config/platform_rank.h"
#include "engine/memory/allocator.h"
#include "engine/pserver/shard.h"
#include "engine/snapshot/export_text.h"
#include "engine/trainer/connection.h"

extern char** environ;  // NOLINT: POSIX's name

namespace paddle {
namespace {

constexpr std::uint32_t kPortMax = 65535;
constexpr std::uint32_t kPortsMax = 1024;
constexpr std::uint32_t kCountMax = 1U << 20U;

constexpr const char* kUsage = R"(usage: paddle <command> [flags]

commands:
  version   this program's version and how it was built
  pserver   serve parameters: one shard on each port
  train     train the network that job.toml describes
  plan      print which block of which parameter a port would hold
  export    write a snapshot's parameter as text: "<row id> <value> ..." a line

`paddle <command> --help` lists its flags. Every flag may also come from the environment:
PADDLE_INIT_TRAINER_ID=1 is --trainer_id=1; flags win.

examples:
  paddle train --local --config=job.toml --save_dir=output
  paddle pserver --port=7164 --ports_num=1 --ports_num_for_sparse=1 --num_gradient_servers=2
  paddle train --config=job.toml --trainer_id=0 --num_gradient_servers=2 --pservers=127.0.0.1
)";

constexpr const char* kPserverUsage = R"(usage: paddle pserver [flags]

example: paddle pserver --port=7164 --ports_num=2 --ports_num_for_sparse=2 \
           --num_gradient_servers=4 --bind=10.0.0.1 --key_file=job.key
)";

constexpr const char* kTrainUsage = R"(usage: paddle train [flags]

examples: paddle train --local --config=job.toml --save_dir=output --num_passes=3
          paddle train --config=job.toml --trainer_id=1 --num_gradient_servers=4 \
            --pservers=10.0.0.1,10.0.0.2 --key_file=job.key
)";

constexpr const char* kPlanUsage = R"(usage: paddle plan [the flags of paddle train]

example: paddle plan --config=job.toml --pservers=10.0.0.1,10.0.0.2 --ports_num=2
)";

int finish(const Status& status) {
  if (status) return 0;
  std::cerr << "paddle: " << status.error().message << '\n';
  if (!status.error().hint.empty()) std::cerr << "hint: " << status.error().hint << '\n';
  return static_cast<int>(status.error().code);
}

bool wants_help(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--help" || argument == "-h") return true;
  }
  return false;
}

// PADDLE_INIT_<FLAG>, as v0.10's paddle.init() read them. Names this command does not have are
// another command's.
Status apply_environment(FlagSet& flags) {
  constexpr std::string_view kPrefix = "PADDLE_INIT_";
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const std::size_t equals = variable.find('=');
    if (!variable.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    std::string name(variable.substr(kPrefix.size(), equals - kPrefix.size()));
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (!flags.has(name)) continue;
    PADDLE_TRY_STATUS(flags.set(name, std::string(variable.substr(equals + 1)),
                                std::string(variable.substr(0, equals))));
  }
  return {};
}

Status read_flags(FlagSet& flags, const std::vector<std::string>& arguments) {
  PADDLE_TRY_STATUS(apply_environment(flags));
  return flags.parse(arguments);
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

constexpr const char* kRankFromHelp =
    "kubernetes, slurm or openmpi: ids come from its environment, the first ranks are the pservers";

// Place and address of the pserver that `platform` started with this environment.
Status take_place(const std::string& platform, const std::vector<std::string>& pservers,
                  commands::PserverOptions& options) {
  const auto count = static_cast<std::uint32_t>(pservers.size());
  PADDLE_TRY(const auto place, config::platform_rank(platform, ::getenv));
  PADDLE_TRY(options.pserver_id, config::id_in_role(place, true, count));
  PADDLE_TRY(options.num_gradient_servers,
             config::trainers_of(place, count, options.num_gradient_servers));
  PADDLE_TRY(const auto address,
             trainer::parse_host_port(pservers[options.pserver_id], options.port));
  options.bind = address.host;
  options.port = address.port;
  return {};
}

Status take_place(const std::string& platform, trainer::TrainOptions& options) {
  const auto count = static_cast<std::uint32_t>(options.pservers.size());
  PADDLE_TRY(const auto place, config::platform_rank(platform, ::getenv));
  PADDLE_TRY(options.trainer_id, config::id_in_role(place, false, count));
  PADDLE_TRY(options.num_gradient_servers,
             config::trainers_of(place, count, options.num_gradient_servers));
  return {};
}

int pserver_command(const std::vector<std::string>& arguments) {
  commands::PserverOptions options;
  std::string rank_from;
  std::string pservers = "127.0.0.1";
  FlagSet flags;
  flags.number("port", "the first port", options.port, 1, kPortMax);
  flags.number("ports_num", "ports for dense parameters", options.ports_num, 0, kPortsMax);
  flags.number("ports_num_for_sparse", "ports for sparse tables, after them",
               options.ports_num_for_sparse, 0, kPortsMax);
  flags.number("num_gradient_servers", "trainers of the job", options.num_gradient_servers, 1,
               pserver::kTrainersMax);
  flags.text("bind", "address to listen on", options.bind);
  flags.text("nics", "the same as --bind, or the name of an interface", options.bind);
  flags.number("pserver_id", "place of this pserver in the trainers' --pservers",
               options.pserver_id, 0, kCountMax);
  flags.text("job_tag", "name of the job; the same for all of its processes", options.job_tag);
  flags.text("key_file", "file of the job's secret; only loopback works without", options.key_file);
  flags.number("epoch", "number of this server's life, rising", options.epoch);
  flags.number("first_trainer_within", "seconds until one must have come; 0: it waits for ever",
               options.first_trainer_within, 0, kCountMax);
  flags.boolean("lost_trainer_ends_job", "in asynchronous jobs too", options.lost_trainer_ends_job);
  flags.text("metrics", "file of one JSON object a port every 10 seconds", options.metrics);
  flags.text("rank_from", kRankFromHelp, rank_from);
  flags.text("pservers", "with --rank_from: HOST[:PORT],... by rank, this one's among them",
             pservers);
  if (wants_help(arguments)) {
    std::cout << kPserverUsage << "\nflags:\n" << flags.help();
    return 0;
  }
  if (const Status status = read_flags(flags, arguments); !status) return finish(status);
  if (!rank_from.empty()) {
    if (const Status placed = take_place(rank_from, split_list(pservers), options); !placed)
      return finish(placed);
  }
  static const std::string name = fmt::format("pserver-{}", options.pserver_id);
  set_log_name(name);
  end_when_out_of_memory(name.c_str(),
                         "use more pservers, or give a table bytes_max or an entry policy, see "
                         "docs/job.md");
  return finish(commands::run_pserver(options));
}

// Flags that are another spelling of a key in job.toml.
struct JobFlags {
  std::string num_passes, log_period, seed, trainer_count, rank_from, pservers = "127.0.0.1";
  bool use_gpu = false;

  void add_overrides(std::vector<std::string>& overrides) const {
    const auto add = [&overrides](const char* key, const std::string& value) {
      if (!value.empty()) overrides.push_back(fmt::format("{}={}", key, value));
    };
    add("train.passes", num_passes);
    add("train.log_period", log_period);
    add("train.trainer_count", trainer_count);
    add("seed", seed);
  }
};

void add_train_flags(FlagSet& flags, trainer::TrainOptions& options, JobFlags& job) {
  flags.text("config", "the job", options.config);
  flags.repeated("set", "KEY=VALUE in place of job.toml's, e.g. train.batch_size=64; repeatable",
                 options.overrides);
  flags.number("trainer_id", "0 to num_gradient_servers - 1", options.trainer_id, 0, kCountMax);
  flags.number("num_gradient_servers", "trainers of the job", options.num_gradient_servers, 1,
               pserver::kTrainersMax);
  flags.text("pservers", "HOST[:PORT],... in the same order for all trainers", job.pservers);
  flags.number("port", "first port of a pserver without its own", options.port, 1, kPortMax);
  flags.number("ports_num", "ports for dense parameters of a pserver", options.ports_num, 0,
               kPortsMax);
  flags.number("ports_num_for_sparse", "ports for sparse tables of a pserver",
               options.ports_num_for_sparse, 0, kPortsMax);
  flags.text("trainer_count", "threads of this trainer", job.trainer_count);
  flags.boolean("use_gpu", "train on GPUs", job.use_gpu);
  flags.boolean("local", "no pservers: all in this process", options.local);
  flags.text("save_dir", "folder of the snapshots pass-00000 ...", options.save_dir);
  flags.text("num_passes", "passes over the data", job.num_passes);
  flags.number("start_pass", "continue after pass start_pass - 1 of --save_dir", options.start_pass,
               0, kCountMax);
  flags.boolean("resume", "continue from the newest snapshot in --save_dir, if there is one",
                options.resume);
  flags.text("init_model_path", "snapshot to start from", options.init_model_path);
  flags.text("log_period", "batches between progress lines", job.log_period);
  flags.text("seed", "of initial values, shuffling and dropout", job.seed);
  flags.text("metrics", "file of one JSON object a log point", options.metrics);
  flags.text("job_tag", "name of the job; the same for all of its processes", options.job_tag);
  flags.text("key_file", "file of the job's secret; only loopback works without", options.key_file);
  flags.number("connect_timeout", "seconds to wait for the pservers to listen",
               options.connect_timeout, 1, 3600);
  flags.text("rank_from", kRankFromHelp, job.rank_from);
  flags.number("incarnation", "number of this trainer's life, rising", options.incarnation, 0,
               UINT32_MAX);
}

int train_command(const std::vector<std::string>& arguments) {
  trainer::TrainOptions options;
  JobFlags job;
  FlagSet flags;
  add_train_flags(flags, options, job);
  if (wants_help(arguments)) {
    std::cout << kTrainUsage << "\nflags:\n" << flags.help();
    return 0;
  }
  if (const Status status = read_flags(flags, arguments); !status) return finish(status);
  if (job.use_gpu) {
    return finish(Error{Errc::kUsage, "--use_gpu: this program was built without GPU support",
                        "leave the flag out, or see `paddle version`"});
  }
  options.pservers = split_list(job.pservers);
  job.add_overrides(options.overrides);
  if (!job.rank_from.empty()) {
    if (const Status placed = take_place(job.rank_from, options); !placed) return finish(placed);
  }
  static const std::string name = fmt::format("trainer-{}", options.trainer_id);
  set_log_name(name);
  end_when_out_of_memory(name.c_str(),
                         "lower train.batch_size or train.trainer_count, or run fewer trainers on "
                         "a node");
  return finish(commands::run_train(options));
}

int plan_command(const std::vector<std::string>& arguments) {
  commands::PlanOptions options;
  JobFlags job;
  std::string names;
  FlagSet flags;
  add_train_flags(flags, options.train, job);
  flags.text("pserver_names", "NAME,... of the pservers, to print", names);
  flags.boolean("json", "print one JSON object", options.json);
  if (wants_help(arguments)) {
    std::cout << kPlanUsage << "\nflags:\n" << flags.help();
    return 0;
  }
  if (const Status status = read_flags(flags, arguments); !status) return finish(status);
  options.train.pservers = split_list(job.pservers);
  options.names = split_list(names);
  job.add_overrides(options.train.overrides);
  const auto plan = commands::describe_plan(options);
  if (!plan) return finish(plan.error());
  std::cout << *plan;
  return 0;
}

int export_command(const std::vector<std::string>& arguments) {
  std::string snapshot;
  std::string parameter;
  FlagSet flags;
  flags.text("snapshot", "a pass-0000N folder", snapshot);
  flags.text("parameter", "its name, as in the snapshot's MANIFEST", parameter);
  if (wants_help(arguments)) {
    std::cout << "usage: paddle export --snapshot=DIR --parameter=NAME\n\nflags:\n" << flags.help();
    return 0;
  }
  if (const Status status = read_flags(flags, arguments); !status) return finish(status);
  if (snapshot.empty() || parameter.empty()) {
    return finish(Error{Errc::kUsage, "export needs --snapshot and --parameter",
                        "paddle export --snapshot=output/pass-00000 --parameter=_proj"});
  }
  return finish(snapshot::export_text(snapshot, parameter, stdout));
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    (arguments.empty() ? std::cerr : std::cout) << kUsage;
    return arguments.empty() ? static_cast<int>(Errc::kUsage) : 0;
  }
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (arguments[0] == "version" || arguments[0] == "--version") {
    std::cout << build_options();
    return 0;
  }
  if (arguments[0] == "pserver") return pserver_command(rest);
  if (arguments[0] == "train") return train_command(rest);
  if (arguments[0] == "plan") return plan_command(rest);
  if (arguments[0] == "export") return export_command(rest);
  const std::vector<std::string_view> commands{"version", "pserver", "train", "plan", "export"};
  const std::string near = nearest(arguments[0], commands);
  return finish(
      Error{Errc::kUsage, fmt::format("unknown command '{}'", escape_control(arguments[0])),
            near.empty() ? "see paddle --help" : fmt::format("did you mean '{}'?", near)});
}

}  // namespace
}  // namespace paddle

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  paddle::keep_freed_memory();
  return paddle::run(std::vector<std::string>(argv + 1, argv + argc));
}
