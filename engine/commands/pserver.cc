#include "engine/commands/pserver.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/pool.h"
#include "engine/memory/allocator.h"
#include "engine/memory/preparer.h"
#include "engine/net/identity.h"
#include "engine/net/tcp.h"
#include "engine/pserver/shard.h"
#include "engine/strategy/strategy_table.h"
#include "engine/trainer/metrics.h"

namespace paddle::commands {
namespace {

constexpr std::uint32_t kPortMax = 65535;
// More would wait for memory beside each other, and for the one thread that sends what they read.
constexpr std::uint32_t kHelpersMax = 3;
constexpr Duration kReadyWriteDeadline = std::chrono::seconds(10);

// The shard of a port, which counts itself off when the job is over for it. Used by the port's
// thread alone; the last one off wakes the waiting thread as a signal would.
class CountedShard final : public net::FrameHandler {
 public:
  CountedShard(const pserver::ShardOptions& options, std::uint32_t port,
               Duration first_trainer_within, std::atomic<std::uint32_t>& unfinished,
               trainer::MetricsFile& metrics)
      : shard_(options),
        port_(port),
        is_sparse_(options.is_sparse),
        unfinished_(unfinished),
        metrics_(metrics),
        first_trainer_within_(first_trainer_within) {}

  void on_frame(TimePoint now, net::PeerId from, Frame&& frame,
                std::vector<net::Outgoing>& out) override {
    is_lonely_ = false;
    shard_.on_frame(now, from, std::move(frame), out);
    tell_share();
    count();
  }
  void on_disconnect(TimePoint now, net::PeerId from, std::vector<net::Outgoing>& out) override {
    shard_.on_disconnect(now, from, out);
    count();
  }
  void on_tick(TimePoint now, std::vector<net::Outgoing>& out) override {
    shard_.on_tick(now, out);
    count();
    if (now - measured_at_ >= kMetricsPeriod) measure(now);
  }
  std::string failure() const { return shard_.failure(); }
  bool is_lonely() const { return is_lonely_; }

 private:
  // Once, when the first trainer has said what there is.
  void tell_share() {
    const table::DenseTable* const table = shard_.dense();
    if (told_ || table == nullptr) return;
    told_ = true;
    log_info("port {} holds {} blocks, {} bytes with the optimizer's state", port_, table->blocks(),
             table->size() * (1 + table->state_width()) * sizeof(float));
  }
  // A full disk loses lines, never the job; it is told once.
  void measure(TimePoint now) {
    measured_at_ = now;
    const pserver::ShardStatistics all = shard_.statistics();
    JsonObject fields;
    fields.add("port", port_).add("sparse", is_sparse_ ? 1 : 0);
    fields.add("rows", all.rows).add("bytes", all.bytes);
    fields.add("pushes", all.pushes).add("batches", all.batches).add("lags", all.lags);
    const Status written = metrics_.write("pserver", fields);
    if (!written && !std::exchange(complained_, true)) {
      log_warning("metrics: {}", written.error().message);
    }
  }
  bool nobody_comes() const {
    return is_lonely_ && first_trainer_within_ > Duration() &&
           std::chrono::steady_clock::now() - begun_ > first_trainer_within_;
  }
  void count() {
    if (counted_ || !(shard_.finished() || nobody_comes())) return;
    counted_ = true;
    measure(std::chrono::steady_clock::now());  // what the whole job came to
    if (--unfinished_ == 0) ::kill(::getpid(), SIGTERM);
  }

  pserver::Shard shard_;
  std::uint32_t port_;
  bool is_sparse_;
  std::atomic<std::uint32_t>& unfinished_;
  trainer::MetricsFile& metrics_;
  Duration first_trainer_within_;  // zero: for ever
  TimePoint begun_ = std::chrono::steady_clock::now();
  TimePoint measured_at_ = begun_;
  bool is_lonely_ = true;  // no trainer ever said anything
  bool complained_ = false;
  bool told_ = false;
  bool counted_ = false;
};

struct Port {
  std::unique_ptr<CountedShard> shard;
  std::unique_ptr<net::TcpServer> server;
};

// Blocked before any thread starts, so that only the waiting thread takes them.
sigset_t block_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// For ports with tables: cores that have none of their threads.
std::size_t helpers_for(std::uint32_t sparse_ports) {
  const std::uint32_t cores = std::thread::hardware_concurrency();
  if (sparse_ports == 0 || cores <= sparse_ports) return 0;
  return std::min(cores - sparse_ports, kHelpersMax);
}

// What ports share; outlives them.
struct Shared {
  explicit Shared(std::size_t helper_count) : helpers(helper_count) {}
  std::unique_ptr<MemoryPreparer> preparer = make_memory_preparer();
  HelperPool helpers;
};

Result<std::vector<Port>> listen_all(const PserverOptions& options, Shared& shared,
                                     std::atomic<std::uint32_t>& unfinished,
                                     trainer::MetricsFile& metrics) {
  PADDLE_TRY(const std::string address, net::interface_address(options.bind));
  PADDLE_TRY(const Secret secret, net::job_secret(options.key_file, {&address, 1}));
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
    // Ports of a kind fill alike, and a job that fills both kinds is rare.
    const std::uint32_t alike = is_sparse ? options.ports_num_for_sparse : options.ports_num;
    Port port;
    port.shard = std::make_unique<CountedShard>(
        pserver::ShardOptions{.make_policy = strategy::make_update_policy,
                              .index = index,
                              .is_sparse = is_sparse,
                              .num_gradient_servers = options.num_gradient_servers,
                              .job_tag = job_tag,
                              .epoch = options.epoch,
                              .needs_all_trainers = options.lost_trainer_ends_job,
                              .bytes_max = parameter_memory_bytes() / alike,
                              .parallel = is_sparse ? parallel : Parallel(),
                              .preparer = shared.preparer.get()},
        options.port + i, std::chrono::seconds(options.first_trainer_within), unfinished, metrics);
    net::ServerOptions server{.endpoint = {address, static_cast<std::uint16_t>(options.port + i)},
                              .secret = secret,
                              .self = {Role::kPserver, options.pserver_id},
                              .job_tag = job_tag,
                              .epoch = options.epoch};
    PADDLE_TRY(port.server, net::TcpServer::listen(std::move(server), *port.shard));
    ports.push_back(std::move(port));
  }
  return ports;
}

}  // namespace

Status run_pserver(const PserverOptions& options) {
  const std::uint32_t count = options.ports_num + options.ports_num_for_sparse;
  if (count == 0 || options.port + count - 1 > kPortMax) {
    return Error{Errc::kUsage, fmt::format("{} ports from {} on do not exist", count, options.port),
                 "see --port, --ports_num and --ports_num_for_sparse"};
  }
  const sigset_t signals = block_stop_signals();
  std::atomic<std::uint32_t> unfinished = count;
  trainer::MetricsFile metrics;
  if (!options.metrics.empty()) {
    PADDLE_TRY(metrics, trainer::MetricsFile::open(options.metrics));
  }
  Shared shared(helpers_for(options.ports_num_for_sparse));
  PADDLE_TRY(std::vector<Port> ports, listen_all(options, shared, unfinished, metrics));
  std::vector<std::thread> threads;
  for (Port& port : ports) threads.emplace_back([&port] { port.server->run(); });
  const std::string ready = fmt::format("READY pserver {} ports {}-{}\n", options.pserver_id,
                                        options.port, options.port + count - 1);
  Status outcome =
      write_all(1, as_bytes(ready), std::chrono::steady_clock::now() + kReadyWriteDeadline);
  if (outcome) {
    log_info("number of parameterServer instances: {}", count);
    int signal = 0;
    ::sigwait(&signals, &signal);
    if (unfinished == 0) {
      log_info("nobody is left to serve: stopping");
    } else {
      outcome = Error{Errc::kInterrupted,
                      fmt::format("signal {} before every trainer had left", signal), ""};
    }
  }
  for (Port& port : ports) port.server->stop();
  for (std::thread& thread : threads) thread.join();
  if (outcome && std::ranges::all_of(ports, [](const Port& p) { return p.shard->is_lonely(); })) {
    outcome = Error{Errc::kUnreachable,
                    fmt::format("no trainer came within {} seconds", options.first_trainer_within),
                    "was the job's start broken off? see --first_trainer_within"};
  }
  for (const Port& port : ports) {
    const std::string failure = port.shard->failure();
    if (outcome && !failure.empty()) outcome = Error{Errc::kUnreachable, failure, ""};
  }
  return outcome;
}

}  // namespace paddle::commands
