#include "engine/trainer/pserver_main.h"

#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "engine/base/fd.h"
#include "engine/base/log.h"
#include "engine/net/tcp.h"
#include "engine/pserver/shard.h"
#include "engine/trainer/identity.h"

namespace paddle::trainer {
namespace {

constexpr std::uint32_t kPortMax = 65535;
constexpr Duration kReadyWriteDeadline = std::chrono::seconds(10);

// A port with its shard; the shard is used by the port's thread alone.
struct Port {
  std::unique_ptr<pserver::Shard> shard;
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

Result<std::vector<Port>> listen_all(const PserverOptions& options) {
  PADDLE_TRY(const std::string address, interface_address(options.bind));
  PADDLE_TRY(const Secret secret, job_secret(options.key_file, {&address, 1}));
  const std::uint64_t job_tag = job_tag_of(options.job_tag);
  const std::uint32_t count = options.ports_num + options.ports_num_for_sparse;
  std::vector<Port> ports;
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool is_sparse = i >= options.ports_num;
    const std::uint32_t index =
        is_sparse ? options.pserver_id * options.ports_num_for_sparse + i - options.ports_num
                  : options.pserver_id * options.ports_num + i;
    Port port;
    port.shard = std::make_unique<pserver::Shard>(
        pserver::ShardOptions{.index = index,
                              .is_sparse = is_sparse,
                              .num_gradient_servers = options.num_gradient_servers,
                              .job_tag = job_tag,
                              .epoch = options.epoch});
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
  PADDLE_TRY(std::vector<Port> ports, listen_all(options));
  std::vector<std::thread> threads;
  for (Port& port : ports) threads.emplace_back([&port] { port.server->run(); });
  const std::string ready = fmt::format("READY pserver {} ports {}-{}\n", options.pserver_id,
                                        options.port, options.port + count - 1);
  const Status written =
      write_all(1, as_bytes(ready), std::chrono::steady_clock::now() + kReadyWriteDeadline);
  if (written) {
    log_info("number of parameterServer instances: {}", count);
    int signal = 0;
    ::sigwait(&signals, &signal);
    log_info("signal {}: stopping", signal);
  }
  for (Port& port : ports) port.server->stop();
  for (std::thread& thread : threads) thread.join();
  return written;
}

}  // namespace paddle::trainer
