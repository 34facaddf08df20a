// Rows of a running job, read by a program that takes no part in it: the pservers know it as a
// reader, which joins nothing, and its coming and going changes nothing for the job.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "engine/client/connect.h"
#include "engine/client/sparse_channel.h"

namespace paddle::client {

// One thread makes all calls, except for interrupt() and waiting_for().
class RowReader {
 public:
  // The options ports_num, ports_num_for_sparse, trainer_id and incarnation have no meaning here:
  // the first port of pserver 0 describes the job's ports.
  explicit RowReader(ConnectOptions options) : options_(std::move(options)) {}

  // Connects to all sparse ports, once the job has values. Errors name the pserver. kUsage: the
  // job's ports do not fit the number of pservers, or they are in another order; kAuth: the keys
  // are not those of a reader; kUnreachable: no values within connect_timeout, or the job is over.
  Status connect();
  // The job's parameters. REQUIRES: connect() has succeeded.
  const wire::ParameterSet& parameters() const { return connection_->parameters; }
  // Rounds committed, and passes finished, when this reader connected.
  std::uint64_t step() const { return connection_->step; }
  std::uint64_t passes_finished() const { return connection_->passes_finished; }

  // See SparseChannel::pull(). The rows are those of one moment for each port, also in the middle
  // of a round. Connects again after a pserver was restarted or has gone back to a savepoint.
  // kUnreachable as connect(); kData: the job has other parameters now.
  Status pull(std::span<SparseRows> rows, SparseChannel::Reads reads);

  // Makes the waiting call, and all later ones, fail. Any thread may call it.
  void interrupt(const Error& why);
  // "the job's values" while connect() or pull() waits for them, else "". Any thread may call it.
  std::string waiting_for() const;

 private:
  // Not movable: the channel refers to the parameters.
  struct Connection {
    wire::ParameterSet parameters;
    std::optional<SparseChannel> rows;
    std::uint64_t step = 0;
    std::uint64_t passes_finished = 0;
  };

  Status read_options();
  Result<ClientLanes> open(std::span<const net::Endpoint> ports, TimePoint deadline) const;
  // Asks each port for its description, which must be that of the next sparse shard from 0 on.
  static Status check_shards(ClientLanes& lanes, const wire::ParameterSet& parameters);
  Result<std::unique_ptr<Connection>> try_connect(TimePoint deadline) const;
  Status interrupted() const;

  ConnectOptions options_;
  std::vector<net::Endpoint> pservers_;  // the first port of each
  std::optional<JobKeys> keys_;
  std::unique_ptr<Connection> connection_;
  mutable std::mutex mutex_;  // guards the members below, and the exchange of connection_
  std::condition_variable wake_;
  std::optional<Error> interrupted_;
  bool is_waiting_ = false;
};

}  // namespace paddle::client
