// `paddle client`: the engine beside a program of the user's own, which trains the job's tables
// through it.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <csignal>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/secret.h"
#include "engine/commands/command.h"
#include "engine/commands/job_heartbeat.h"
#include "engine/commands/model_flags.h"
#include "engine/commands/supervision.h"
#include "engine/commands/train.h"
#include "engine/math/allocator.h"
#include "engine/sidecar/exchange.h"
#include "engine/sidecar/reader.h"
#include "engine/sidecar/service.h"
#include "engine/sidecar/training.h"

namespace paddle::commands {
namespace {

// A pserver that is stopped (SIGSTOP) answers no pull, and a pull waits for no trainer.
constexpr Duration kPullSilenceMax = std::chrono::seconds(60);

struct ClientFlags {
  trainer::TrainOptions trainer;
  std::uint32_t channel_fd = 0;  // 0: not given
  std::uint32_t memory_fd = 0;
  std::string snapshot;  // not "": only read its tables
  bool reads = false;    // only read rows of the job of --pservers

  bool is_reader() const { return reads || !snapshot.empty(); }
};

// The program decides when to stop; the end of the channel, or of the program, ends this process.
void live_with_program() {
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGINT, SIG_IGN);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

Status serve_reader(const ClientFlags& flags, sidecar::Channel& channel,
                    sidecar::SharedMemory& shared) {
  if (flags.reads && !flags.snapshot.empty()) {
    return Error{Errc::kUsage, "--snapshot and --read exclude each other",
                 "read a snapshot, or a running job"};
  }
  const trainer::TrainOptions& job = flags.trainer;
  const auto session = flags.reads
                           ? sidecar::read_job({.pservers = job.pservers,
                                                .port = job.port,
                                                .job_tag = job.job_tag,
                                                .key_file = job.key_file,
                                                .transport = job.transport,
                                                .connect_timeout = job.connect_timeout})
                           : sidecar::read_snapshot([&flags] {
                               return open_snapshot(flags.snapshot, "--snapshot=output/pass-00000");
                             });
  return sidecar::serve(channel, shared, *session, nullptr);
}

Status run_client(const ClientFlags& flags) {
  UniqueFd memory = take_trainer_memory();
  const bool is_stop_asked = take_mark("PADDLECTL_STOP_ASKED");
  if (flags.channel_fd == 0 || flags.memory_fd == 0) {
    return Error{Errc::kUsage, "client needs --channel_fd and --memory_fd",
                 "a program starts it, for example with the Python module paddlectl"};
  }
  PADDLE_TRY(sidecar::Channel channel,
             sidecar::Channel::open(UniqueFd(static_cast<int>(flags.channel_fd))));
  PADDLE_TRY(sidecar::SharedMemory shared,
             sidecar::SharedMemory::open(UniqueFd(static_cast<int>(flags.memory_fd))));
  if (!flags.trainer.key_file.empty()) turn_off_cores();
  static const std::string name =
      flags.is_reader() ? "reader" : fmt::format("trainer-{}", flags.trainer.trainer_id);
  set_log_name(name);
  end_when_out_of_memory(name.c_str(), "pull fewer rows at once, or run fewer trainers on a node");
  live_with_program();
  if (flags.is_reader()) return serve_reader(flags, channel, shared);
  trainer::TrainOptions options = flags.trainer;
  options.pull_silence_max = kPullSilenceMax;
  const auto heartbeats = [&options](client::ParameterClient& client,
                                     bool comes_back) -> std::shared_ptr<void> {
    return start_heartbeats(options, client, comes_back);
  };
  sidecar::Training training({.trainer = options,
                              .memory = std::move(memory),
                              .is_stop_asked = is_stop_asked,
                              .start_heartbeats = heartbeats});
  return sidecar::serve(channel, shared, training, &training);
}

std::function<Status()> declare_client(FlagSet& flags) {
  const auto options = std::make_shared<ClientFlags>();
  options->trainer.config.clear();
  flags.number("channel_fd", "descriptor of the socket to the program", options->channel_fd, 3,
               INT32_MAX);
  flags.number("memory_fd", "descriptor of the memory that it shares", options->memory_fd, 3,
               INT32_MAX);
  flags.text("snapshot", "train nothing: read the tables of this pass-0000N folder",
             options->snapshot);
  flags.boolean("read", "train nothing: read the tables of the job of --pservers", options->reads);
  trainer::TrainOptions& trainer = options->trainer;
  flags.text("config", "the job.toml of the job; default: none, the program gives the tables",
             trainer.config);
  declare_trainer(flags, trainer);
  return [options] { return run_client(*options); };
}

}  // namespace

const Command kClientCommand{"client", "serve a program that trains tables itself",
                             R"(usage: paddle client --channel_fd=N --memory_fd=M [flags]

A program starts it, and sends requests: docs/client.md, proto/PROTOCOL.md.
)",
                             declare_client};

}  // namespace paddle::commands
