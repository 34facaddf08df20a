// `paddle pserver`: one process that owns a block of ports, with a shard and a thread for each.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/control_group.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/secret.h"
#include "engine/client/connect.h"
#include "engine/commands/command.h"
#include "engine/commands/counted_shard.h"
#include "engine/commands/job_heartbeat.h"
#include "engine/commands/supervision.h"
#include "engine/config/platform_rank.h"
#include "engine/math/allocator.h"
#include "engine/math/region.h"
#include "engine/net/identity.h"
#include "engine/net/tcp.h"
#include "engine/snapshot/folder_savepoint_store.h"
#include "engine/strategy/strategy_table.h"
#include "engine/trainer/metrics.h"

namespace paddle::commands {
namespace {

// More helpers would only wait for memory, and for the one thread that sends what they read.
constexpr std::uint32_t kHelpersMax = 3;
constexpr Duration kReadyWriteDeadline = std::chrono::seconds(10);

struct PserverOptions {
  std::string bind = "127.0.0.1";
  std::uint32_t port = 7164;
  std::uint32_t ports_num = 1;             // dense: [port, port + ports_num)
  std::uint32_t ports_num_for_sparse = 1;  // sparse: after them
  std::uint32_t num_gradient_servers = 1;
  std::uint32_t pserver_id = 0;
  std::string job_tag;
  std::string key_file;
  std::string transport = "sealed";
  std::uint64_t server_generation = 1;
  std::uint32_t first_trainer_within = 600;  // seconds; 0: no limit
  bool lost_trainer_ends_job = false;
  std::uint32_t lost_trainer_grace = 0;  // seconds
  std::string savepoints;                // folder of this pserver's savepoints; "": none are made
  std::string metrics;                   // file for one line per port every ten seconds; "": none
  std::string rank_from;
  std::vector<std::string> pservers{"127.0.0.1"};
};

struct Port {
  std::unique_ptr<CountedShard> shard;
  std::unique_ptr<net::TcpServer> server;
};

// Called before any thread starts, so that only sigwait() receives them.
sigset_t block_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// Helpers serve sparse ports: one per core that no port thread needs.
std::size_t helpers_for(std::uint32_t sparse_ports) {
  const std::uint32_t cores = usable_cores();
  if (sparse_ports == 0 || cores <= sparse_ports) return 0;
  return std::min(cores - sparse_ports, kHelpersMax);
}

// Resources that all ports use; must outlive the ports.
struct Shared {
  explicit Shared(std::size_t helper_count) : helpers(helper_count) {}
  snapshot::SavepointThread savepoint_thread;
  std::unique_ptr<MemoryPreparer> preparer = make_memory_preparer();
  HelperPool helpers;
};

// Each port has a folder of its own.
std::string savepoints_of_port(const PserverOptions& options, std::uint32_t port) {
  return fmt::format("{}/port-{}", options.savepoints, port);
}

pserver::OpenSavepoints open_savepoints(const PserverOptions& options, std::uint32_t port,
                                        snapshot::SavepointThread& thread) {
  if (options.savepoints.empty()) return nullptr;
  return [folder = savepoints_of_port(options, port),
          &thread](std::uint64_t shard) -> Result<std::unique_ptr<snapshot::SavepointStore>> {
    PADDLE_TRY_STATUS(snapshot::kernel_file_system().make_directories(folder));
    PADDLE_TRY(auto store, snapshot::FolderSavepointStore::open(folder, shard, &thread));
    return std::unique_ptr<snapshot::SavepointStore>(std::move(store));
  };
}

void remove_savepoints(const std::string& folder) {
  const Status removed = snapshot::kernel_file_system().remove_all(folder);
  if (!removed) log_warning("{}", removed.error().message);
}

// Deletes savepoints of an earlier run on the first start. Otherwise a restart before any trainer
// has connected would load them.
void forget_earlier_run(const PserverOptions& options) {
  if (options.savepoints.empty() || options.server_generation > pserver::kFirstIncarnation) return;
  for (std::uint32_t i = 0; i < options.ports_num + options.ports_num_for_sparse; ++i)
    remove_savepoints(savepoints_of_port(options, i));
}

Result<std::vector<Port>> listen_all(const PserverOptions& options, Shared& shared,
                                     std::atomic<std::uint32_t>& unfinished,
                                     trainer::MetricsFile& metrics) {
  PADDLE_TRY(const std::string address, net::interface_address(options.bind));
  PADDLE_TRY(const JobKeys keys, net::job_keys(options.key_file, {&address, 1}));
  PADDLE_TRY(const net::Transport transport, net::parse_transport(options.transport));
  const std::uint64_t job_tag = net::job_tag_of(options.job_tag);
  const std::uint32_t count = options.ports_num + options.ports_num_for_sparse;
  Parallel parallel;
  if (shared.helpers.count() > 0) {
    parallel = [&shared](std::size_t parts, const auto& work) {
      shared.helpers.parallel_for(parts, work);
    };
  }
  std::vector<Port> ports;
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool is_sparse = i >= options.ports_num;
    const std::uint32_t index =
        is_sparse ? options.pserver_id * options.ports_num_for_sparse + i - options.ports_num
                  : options.pserver_id * options.ports_num + i;
    // Ports of one kind fill evenly. Few jobs fill both kinds, so each kind may use all of the
    // memory.
    const std::uint32_t alike = is_sparse ? options.ports_num_for_sparse : options.ports_num;
    Port port;
    port.shard = std::make_unique<CountedShard>(
        pserver::ShardOptions{
            .make_policy = strategy::make_update_policy,
            .index = index,
            .is_sparse = is_sparse,
            .num_gradient_servers = options.num_gradient_servers,
            .job_tag = job_tag,
            .server_generation = options.server_generation,
            .lost_trainer_grace = std::chrono::seconds(options.lost_trainer_grace),
            .needs_all_trainers = options.lost_trainer_ends_job,
            .bytes_max = parameter_memory_bytes() / alike,
            .parallel = is_sparse ? parallel : Parallel(),
            .preparer = shared.preparer.get(),
            .open_savepoints = open_savepoints(options, i, shared.savepoint_thread)},
        options.port + i, std::chrono::seconds(options.first_trainer_within), unfinished, metrics);
    net::ServerOptions server{.endpoint = {address, static_cast<std::uint16_t>(options.port + i)},
                              .keys = keys,
                              .self = {Role::kPserver, options.pserver_id},
                              .job_tag = job_tag,
                              .server_generation = options.server_generation,
                              .transport = transport};
    PADDLE_TRY(port.server, net::TcpServer::listen(std::move(server), *port.shard));
    ports.push_back(std::move(port));
  }
  return ports;
}

// If lost trainers may return to the job, the ports drop the connections of a trainer that is dead.
HeartbeatThreadPtr pserver_heartbeats(const PserverOptions& options, std::vector<Port>& ports) {
  const auto on_dead = [&ports](const heartbeat::Silence& silence) {
    const std::string text = silence_text(silence);
    for (Port& port : ports) {
      if (port.shard->takes_back_trainers())
        port.server->drop(silence.peer, static_cast<std::uint32_t>(silence.incarnation), text);
    }
  };
  const auto address = net::interface_address(options.bind);
  if (!address || ports.empty()) return nullptr;
  return start_heartbeats(options.key_file,
                          {.self = {Role::kPserver, options.pserver_id},
                           .incarnation = options.server_generation,
                           .job_tag = net::job_tag_of(options.job_tag),
                           .trainers = options.num_gradient_servers,
                           .bind = {*address, static_cast<std::uint16_t>(options.port)},
                           .on_dead = on_dead});
}

// Serves until every trainer has left. kUnreachable: a trainer was lost and the job could not go
// on, or none ever connected. kInterrupted: SIGTERM or SIGINT. Prints "READY pserver 0 ports
// 7164-7167" on stdout once all ports listen.
Status serve(const PserverOptions& options) {
  const std::uint32_t count = options.ports_num + options.ports_num_for_sparse;
  if (count == 0 || options.port + count - 1 > kPortMax) {
    return Error{
        Errc::kUsage,
        fmt::format("{} ports starting at {} exceed the largest port, 65535", count, options.port),
        "see --port, --ports_num and --ports_num_for_sparse"};
  }
  const sigset_t signals = block_stop_signals();
  std::atomic<std::uint32_t> unfinished = count;
  PADDLE_TRY(trainer::MetricsFile metrics, trainer::MetricsFile::open(options.metrics));
  Shared shared(helpers_for(options.ports_num_for_sparse));
  // An update or the end of a pass takes longer the larger its table is, so the pulse never reports
  // a step.
  const PulseThread pulse([] { return wire::Pulse(); });
  forget_earlier_run(options);
  PADDLE_TRY(std::vector<Port> ports, listen_all(options, shared, unfinished, metrics));
  HeartbeatThreadPtr heartbeats = pserver_heartbeats(options, ports);
  ports.front().shard->report_to_supervisor(heartbeats.get());
  std::vector<std::thread> threads;
  threads.reserve(ports.size());
  for (Port& port : ports) threads.emplace_back([&port] { port.server->run(); });
  const std::string ready = fmt::format("READY pserver {} ports {}-{}\n", options.pserver_id,
                                        options.port, options.port + count - 1);
  // With too few descriptors, trainers would wait for this process, and no message would say why.
  Status outcome = need_descriptors(
      std::size_t{options.num_gradient_servers} * count,
      fmt::format("{} connections of trainers", std::size_t{options.num_gradient_servers} * count));
  if (outcome)
    outcome = write_all(1, as_bytes(ready), std::chrono::steady_clock::now() + kReadyWriteDeadline);
  if (outcome) {
    notify_ready();
    log_info("serving on {} ports", count);
    int signal = 0;
    ::sigwait(&signals, &signal);
    if (unfinished == 0) {
      log_info("all trainers have left: stopping");
    } else {
      outcome = Error{Errc::kInterrupted,
                      fmt::format("received signal {} before all trainers had left", signal)};
    }
  }
  for (Port& port : ports) port.server->stop();
  for (std::thread& thread : threads) thread.join();
  if (outcome && std::ranges::all_of(ports, [](const Port& p) { return p.shard->is_lonely(); })) {
    outcome =
        Error{Errc::kUnreachable,
              fmt::format("no trainer connected within {} seconds", options.first_trainer_within),
              "check whether the start of the job was interrupted; see --first_trainer_within"};
  }
  for (const Port& port : ports) {
    const std::string failure = port.shard->failure();
    if (!outcome || failure.empty()) continue;
    outcome = Error{port.shard->exit_code(), failure};
  }
  heartbeats.reset();  // the thread drops connections of the ports
  ports.clear();
  // A job that is over never loads its savepoints again.
  if (outcome && !options.savepoints.empty()) remove_savepoints(options.savepoints);
  return outcome;
}

// Sets the id and the address of this pserver from the environment in which `rank_from` started it.
Status apply_platform_rank(PserverOptions& options) {
  const auto count = static_cast<std::uint32_t>(options.pservers.size());
  PADDLE_TRY(const auto rank, config::platform_rank(options.rank_from, ::getenv));
  PADDLE_TRY(options.pserver_id, config::id_in_role(rank, true, count));
  PADDLE_TRY(options.num_gradient_servers,
             config::trainers_of(rank, count, options.num_gradient_servers));
  PADDLE_TRY(const auto address,
             client::parse_host_port(options.pservers[options.pserver_id], options.port));
  options.bind = address.host;
  options.port = address.port;
  return {};
}

Status run_pserver(PserverOptions& options) {
  if (!options.rank_from.empty()) PADDLE_TRY_STATUS(apply_platform_rank(options));
  if (!options.key_file.empty()) turn_off_cores();
  static const std::string name = fmt::format("pserver-{}", options.pserver_id);
  set_log_name(name);
  end_when_out_of_memory(name.c_str(),
                         "use more pservers, or give a table bytes_max or an entry policy, see "
                         "docs/job.md");
  return serve(options);
}

std::function<Status()> declare_pserver(FlagSet& flags) {
  const auto options = std::make_shared<PserverOptions>();
  PserverOptions& to = *options;
  flags.number("port", "the first port", to.port, 1, kPortMax);
  flags.number("ports_num", "ports for dense parameters", to.ports_num, 0, kPortsMax);
  flags.number("ports_num_for_sparse", "ports for sparse tables, after the dense ones",
               to.ports_num_for_sparse, 0, kPortsMax);
  flags.number("num_gradient_servers", "trainers of the job", to.num_gradient_servers, 1,
               pserver::kTrainersMax);
  flags.text("bind", "address to listen on", to.bind);
  flags.text("nics", "the same as --bind, or the name of an interface", to.bind);
  flags.number("pserver_id", "index of this pserver in the trainers' --pservers", to.pserver_id, 0,
               kCountMax);
  flags.text("job_tag", "name of the job; the same for all of its processes", to.job_tag);
  flags.text("key_file", kKeyFileHelp, to.key_file);
  flags.text("transport", kTransportHelp, to.transport);
  flags.number("incarnation", "number of this start of the pserver; rises with every restart",
               to.server_generation);
  flags.number("first_trainer_within",
               "exit when no trainer connects within this many seconds; 0: wait forever",
               to.first_trainer_within, 0, kCountMax);
  flags.boolean("lost_trainer_ends_job", "fail asynchronous jobs too when a trainer is lost",
                to.lost_trainer_ends_job);
  flags.number(
      "lost_trainer_grace",
      "seconds in which a lost trainer may be restarted and continue, while the others wait for it",
      to.lost_trainer_grace, 0, kCountMax);
  flags.text("savepoints",
             "folder for savepoints of this pserver, from which it continues after a restart; the "
             "first start (--incarnation=1) removes those of earlier runs",
             to.savepoints);
  flags.text("metrics", "file for one JSON line per port every 10 seconds", to.metrics);
  flags.text("rank_from", kRankFromHelp, to.rank_from);
  flags.list("pservers", "with --rank_from: HOST[:PORT],... by rank, including this one",
             to.pservers);
  return [options] { return run_pserver(*options); };
}

}  // namespace

const Command kPserverCommand{"pserver", "serve parameters: one shard on each port",
                              R"(usage: paddle pserver [flags]

example: paddle pserver --port=7164 --ports_num=2 --ports_num_for_sparse=2 \
           --num_gradient_servers=4 --bind=10.0.0.1 --key_file=job.key
)",
                              declare_pserver};

}  // namespace paddle::commands
