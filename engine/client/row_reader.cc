#include "engine/client/row_reader.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/net/identity.h"
#include "engine/table/parameter_set.h"

namespace paddle::client {
namespace {

// A call that waits looks this often whether it was interrupted.
constexpr Duration kAttempt = std::chrono::seconds(1);
constexpr Duration kPause = std::chrono::milliseconds(50);  // between two attempts
constexpr Duration kSilenceMax = std::chrono::seconds(60);  // of a port that owes an answer
constexpr NodeId kSelf{Role::kReader, 0};

struct Ports {
  std::uint32_t dense = 0;  // of each pserver
  std::uint32_t sparse = 0;
};

Result<Ports> ports_of(const wire::ParameterSet& set, std::size_t pservers) {
  const auto count = static_cast<std::uint32_t>(pservers);
  if (set.dense_shards() % count == 0 && set.sparse_shards() % count == 0) {
    if (set.sparse_shards() > 0)
      return Ports{set.dense_shards() / count, set.sparse_shards() / count};
    return Error{Errc::kUsage, "the job has no port for tables",
                 "only rows of tables can be read from a running job"};
  }
  return Error{Errc::kUsage,
               fmt::format("the job has {} ports for dense parameters and {} for tables, which {} "
                           "pservers do not share evenly",
                           set.dense_shards(), set.sparse_shards(), count),
               "name all pservers of the job, in the order of --pserver_id"};
}

Result<wire::ParameterSet> describe(ClientLanes& lanes, std::size_t lane) {
  PADDLE_TRY(const Frame frame, lanes.exchange(lane, FrameType::kDescribe, wire::Describe(), {},
                                               FrameType::kShardDescription));
  wire::ParameterSet set;
  if (!set.ParseFromArray(frame.tail.data(), static_cast<int>(frame.tail.size())) ||
      !parameter::validate(set)) {
    return lanes.malformed(lane, "tail");
  }
  return set;
}

}  // namespace

Result<ClientLanes> RowReader::open(std::span<const net::Endpoint> ports,
                                    TimePoint deadline) const {
  PADDLE_TRY(const net::Transport transport, net::parse_transport(options_.transport));
  const std::uint64_t job_tag = net::job_tag_of(options_.job_tag);
  const std::size_t per_pserver = std::max<std::size_t>(1, ports.size() / options_.pservers.size());
  std::vector<std::unique_ptr<net::Link>> links;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const NodeId server{Role::kPserver, static_cast<std::uint32_t>(i / per_pserver)};
    auto link = net::connect({.endpoint = ports[i],
                              .keys = *keys_,
                              .self = kSelf,
                              .server = server,
                              .job_tag = job_tag,
                              .transport = transport,
                              .shares_memory = false},
                             deadline);
    if (!link) return std::move(link).error().with(fmt::format("pserver {}", server.index));
    links.push_back(*std::move(link));
  }
  return ClientLanes("sparse", std::move(links), {.job_tag = job_tag}, {}, kSilenceMax);
}

Status RowReader::check_shards(ClientLanes& lanes, const wire::ParameterSet& parameters) {
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    PADDLE_TRY(const wire::ParameterSet set, describe(lanes, i));
    const auto& shard = lanes.at(i).answer<wire::ShardDescription>();
    if (!shard.is_sparse() || shard.shard() != i) {
      return Error{Errc::kUsage,
                   fmt::format("{} port {} of the job is where sparse port {} was expected",
                               shard.is_sparse() ? "sparse" : "dense", shard.shard(), i),
                   "name the pservers in the order of --pserver_id"};
    }
    const std::string difference = parameter::parameter_difference(parameters, set);
    if (!difference.empty()) {
      return Error{Errc::kData, fmt::format("the pservers have other parameters: {}", difference)};
    }
  }
  return {};
}

Result<std::unique_ptr<RowReader::Connection>> RowReader::try_connect(TimePoint deadline) const {
  auto connection = std::make_unique<Connection>();
  {
    PADDLE_TRY(ClientLanes lane, open({&pservers_.front(), 1}, deadline));
    PADDLE_TRY(connection->parameters, describe(lane, 0));
    const auto& shard = lane.at(0).answer<wire::ShardDescription>();
    connection->step = shard.step();
    connection->passes_finished = shard.passes_finished();
  }
  PADDLE_TRY(const Ports counts, ports_of(connection->parameters, pservers_.size()));
  std::vector<net::Endpoint> ports;
  for (const net::Endpoint& pserver : pservers_) {
    for (std::uint32_t i = 0; i < counts.sparse; ++i) {
      const std::uint32_t port = pserver.port + counts.dense + i;
      if (port > UINT16_MAX) {
        return Error{Errc::kUsage,
                     fmt::format("port {} of {} is too large", port, pserver.address)};
      }
      ports.push_back({pserver.address, static_cast<std::uint16_t>(port)});
    }
  }
  PADDLE_TRY(ClientLanes lanes, open(ports, deadline));
  PADDLE_TRY_STATUS(check_shards(lanes, connection->parameters));
  connection->rows.emplace(connection->parameters, std::move(lanes), UINT64_MAX);
  return connection;
}

Status RowReader::read_options() {
  ConnectOptions first_ports = options_;
  first_ports.ports_num = 1;
  first_ports.ports_num_for_sparse = 0;
  PADDLE_TRY(std::vector<net::Endpoint> pservers, pserver_endpoints(first_ports));
  if (pservers.empty()) return Error{Errc::kUsage, "--pservers is empty"};
  std::vector<std::string> addresses;
  for (const net::Endpoint& pserver : pservers) addresses.push_back(pserver.address);
  PADDLE_TRY(keys_, net::job_keys(options_.key_file, addresses));
  if (!keys_->pair(kSelf, {Role::kPserver, 0})) {
    return Error{Errc::kAuth,
                 fmt::format("key file {} is that of another process", options_.key_file),
                 "a reader has the job's key, or jobs/JOB/keys/reader on the node of trainer 0"};
  }
  pservers_ = std::move(pservers);
  return {};
}

Status RowReader::connect() {
  const auto begun = std::chrono::steady_clock::now();
  const TimePoint deadline = begun + std::chrono::seconds(options_.connect_timeout);
  if (pservers_.empty()) PADDLE_TRY_STATUS(read_options());
  std::optional<Error> before;  // why the last attempt that was not cut short has failed
  for (;;) {
    PADDLE_TRY_STATUS(interrupted());
    const TimePoint now = std::chrono::steady_clock::now();
    auto made = try_connect(std::min(deadline, now + kAttempt));
    const bool may_come = !made && made.error().code == Errc::kUnreachable &&
                          std::chrono::steady_clock::now() + kPause < deadline;
    std::unique_lock lock(mutex_);
    is_waiting_ = may_come;
    if (may_come) {
      before = made.error();
      wake_.wait_for(lock, kPause, [this] { return interrupted_.has_value(); });
      continue;
    }
    if (!made && before && std::chrono::steady_clock::now() >= deadline) return *before;
    if (!made) return std::move(made).error();
    if (interrupted_) return *interrupted_;
    if (connection_) {
      const std::string difference =
          parameter::parameter_difference(connection_->parameters, (*made)->parameters);
      if (!difference.empty())
        return Error{Errc::kData, fmt::format("the job has other parameters now: {}", difference)};
    }
    connection_ = *std::move(made);
    return {};
  }
}

Status RowReader::pull(std::span<SparseRows> rows, SparseChannel::Reads reads) {
  const TimePoint deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(options_.connect_timeout);
  for (;;) {
    Status pulled = connection_->rows->pull(rows, reads);
    if (pulled || pulled.error().code != Errc::kUnreachable) return pulled;
    PADDLE_TRY_STATUS(interrupted());
    if (std::chrono::steady_clock::now() + kPause >= deadline) return pulled;
    PADDLE_TRY_STATUS(connect());
  }
}

void RowReader::interrupt(const Error& why) {
  const std::scoped_lock lock(mutex_);
  if (!interrupted_) interrupted_ = why;
  if (connection_) connection_->rows->lanes().interrupt(why);
  wake_.notify_all();
}

Status RowReader::interrupted() const {
  const std::scoped_lock lock(mutex_);
  if (interrupted_) return *interrupted_;
  return {};
}

std::string RowReader::waiting_for() const {
  const std::scoped_lock lock(mutex_);
  return is_waiting_ ? "the job's values" : "";
}

}  // namespace paddle::client
