// `paddle pserver`: one process that owns a block of ports, a shard and a thread each.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace paddle::commands {

struct PserverOptions {
  std::string bind = "127.0.0.1";
  std::uint32_t port = 7164;
  std::uint32_t ports_num = 1;             // dense: [port, port + ports_num)
  std::uint32_t ports_num_for_sparse = 1;  // sparse: after them
  std::uint32_t num_gradient_servers = 1;
  std::uint32_t pserver_id = 0;
  std::string job_tag;
  std::string key_file;
  std::uint64_t epoch = 1;
  // Seconds until a trainer must have come, 0: none; whoever started the job may be gone.
  std::uint32_t first_trainer_within = 600;
  bool lost_trainer_ends_job = false;
  std::string metrics;  // file for a line a port every kMetricsPeriod, "": none
};
constexpr Duration kMetricsPeriod = std::chrono::seconds(10);

// Serves until every trainer has left; kUnreachable when one was lost and the job could not go on,
// or none ever came. SIGTERM and SIGINT end it before that with kInterrupted. Prints "READY pserver
// 0 ports 7164-7167" on stdout once all ports listen. Call it with no other thread running: it
// blocks those signals for all of its own.
Status run_pserver(const PserverOptions& options);

}  // namespace paddle::commands
