#include "engine/trainer/connection.h"

#include <charconv>

#include <fmt/format.h>

#include "engine/client/dense_plan.h"
#include "engine/memory/allocator.h"
#include "engine/net/identity.h"
#include "engine/net/local_link.h"
#include "engine/net/tcp.h"
#include "engine/pserver/shard.h"
#include "engine/strategy/half_async.h"
#include "engine/strategy/local.h"
#include "engine/strategy/strategy_table.h"

namespace paddle::trainer {
namespace {

// Without any progress of a step: trainer 0 may be testing or saving meanwhile. A lost peer is
// noticed at once.
constexpr Duration kStepDeadline = std::chrono::minutes(10);
constexpr std::uint32_t kPortMax = 65535;

using Links = std::vector<std::unique_ptr<net::Link>>;

Status connect_all(const TrainOptions& options, Links& dense, Links& sparse) {
  std::vector<net::Endpoint> endpoints;
  std::vector<std::string> addresses;
  const std::uint32_t count = options.ports_num + options.ports_num_for_sparse;
  for (const std::string& text : options.pservers) {
    PADDLE_TRY(const HostPort written, parse_host_port(text, options.port));
    PADDLE_TRY(std::string address, net::resolve_address(written.host));
    net::Endpoint endpoint{std::move(address), static_cast<std::uint16_t>(written.port)};
    if (endpoint.port + count > kPortMax + 1) {
      return Error{Errc::kUsage,
                   fmt::format("{} ports from {} on do not exist", count, endpoint.port), ""};
    }
    addresses.push_back(endpoint.address);
    endpoints.push_back(std::move(endpoint));
  }
  PADDLE_TRY(const Secret secret, net::job_secret(options.key_file, addresses));
  const TimePoint deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(options.connect_timeout);
  for (std::size_t server = 0; server < endpoints.size(); ++server) {
    for (std::uint32_t i = 0; i < count; ++i) {
      net::ClientOptions client{
          .endpoint = {endpoints[server].address,
                       static_cast<std::uint16_t>(endpoints[server].port + i)},
          .secret = secret,
          .self = {Role::kTrainer, options.trainer_id},
          .incarnation = options.incarnation,
          .job_tag = net::job_tag_of(options.job_tag)};
      auto link = net::connect(std::move(client), deadline);
      if (!link) return std::move(link).error().with(fmt::format("pserver {}", server));
      (i < options.ports_num ? dense : sparse).push_back(*std::move(link));
    }
  }
  return {};
}

using DenseShards = std::vector<std::shared_ptr<const pserver::Shard>>;

DenseShards make_local_shards(const TrainOptions& options, bool lends, ThreadTeam& team,
                              Links& dense, Links& sparse) {
  DenseShards dense_shards;
  Parallel parallel;
  if (team.size() > 1) {
    parallel = [&team](std::size_t count, const auto& work) { team.parallel_for(count, work); };
  }
  const auto add = [&](Links& links, std::uint32_t count, bool is_sparse) {
    for (std::uint32_t i = 0; i < count; ++i) {
      auto shard = std::make_shared<pserver::Shard>(
          pserver::ShardOptions{.make_policy = strategy::make_update_policy,
                                .index = i,
                                .is_sparse = is_sparse,
                                .num_gradient_servers = 1,
                                .job_tag = net::job_tag_of(options.job_tag),
                                .epoch = 1,
                                .bytes_max = parameter_memory_bytes() / count,
                                .sends_values = !lends,
                                .parallel = parallel});
      if (!is_sparse) dense_shards.push_back(shard);
      links.push_back(net::make_local_link(std::move(shard), {Role::kTrainer, 0}));
    }
  };
  add(dense, options.ports_num, false);
  add(sparse, options.ports_num_for_sparse, true);
  return dense_shards;
}

}  // namespace

Result<HostPort> parse_host_port(const std::string& text, std::uint32_t default_port) {
  HostPort result{text, default_port};
  const std::size_t colon = text.rfind(':');
  const bool has_port = colon != std::string::npos &&
                        (text.find(':') == colon || (colon > 0 && text[colon - 1] == ']'));
  if (has_port) {
    result.host = text.substr(0, colon);
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + colon + 1, end, result.port);
    if (error != std::errc() || at != end) result.port = 0;
  }
  std::string& host = result.host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (result.port == 0 || result.port > kPortMax || host.empty()) {
    return Error{Errc::kUsage, fmt::format("'{}' in --pservers is not host[:port]", text), ""};
  }
  return result;
}

wire::ParameterSet parameter_set(const config::JobConfig& job,
                                 const std::vector<wire::ParameterSpec>& parameters,
                                 const TrainOptions& options) {
  const auto servers = options.local ? 1 : static_cast<std::uint32_t>(options.pservers.size());
  wire::ParameterSet set;
  for (const wire::ParameterSpec& spec : parameters) *set.add_parameters() = spec;
  *set.mutable_optimizer() = job.optimizer;
  set.set_dense_strategy(job.dense_strategy);
  set.set_sparse_strategy(job.sparse_strategy);
  set.set_async_lagged_grad_discard_ratio(job.async_lagged_grad_discard_ratio);
  set.set_seed(job.seed);
  set.set_num_trainers(options.local ? 1 : options.num_gradient_servers);
  set.set_dense_shards(servers * options.ports_num);
  set.set_sparse_shards(servers * options.ports_num_for_sparse);
  set.set_min_block_size(job.min_block_size);
  *set.mutable_partitioning() = job.partitioning;
  set.set_merge(job.merge);
  if (job.staleness_max) set.set_staleness_max(*job.staleness_max);
  set.set_update_frequency(job.update_frequency);
  set.set_elastic_rate(job.elastic_rate);
  set.set_delta_snapshots(job.train.full_snapshot_period > 1);
  for (wire::ParameterSpec& spec : *set.mutable_parameters()) {
    const wire::Strategy strategy = spec.sparse() ? job.sparse_strategy : job.dense_strategy;
    spec.set_is_delta(strategy == wire::STRATEGY_GEO || strategy == wire::STRATEGY_LOCAL_SGD);
  }
  set.set_delay_compensation(job.delay_compensation);
  return set;
}

Result<std::unique_ptr<client::ParameterClient>> join_shards(const config::JobConfig& job,
                                                             const wire::ParameterSet& parameters,
                                                             const TrainOptions& options,
                                                             ThreadTeam& team) {
  Links dense;
  Links sparse;
  DenseShards local;
  // Where pushes are answered before the next batch begins: else they change under it.
  const bool lends =
      options.local && client::is_undivided(client::plan_dense(parameters)) &&
      (job.dense_strategy == wire::STRATEGY_SYNC || job.dense_strategy == wire::STRATEGY_ASYNC);
  if (options.local) {
    local = make_local_shards(options, lends, team, dense, sparse);
  } else {
    PADDLE_TRY_STATUS(connect_all(options, dense, sparse));
  }
  client::ParameterClient::Options client_options{
      .parameters = parameters,
      .trainer_id = options.local ? 0 : options.trainer_id,
      .incarnation = options.incarnation,
      .job_tag = net::job_tag_of(options.job_tag),
      .deadline = kStepDeadline};
  if (lends) {
    client_options.values_of = [shards = std::move(local)](std::size_t shard) {
      return shards[shard]->dense()->values();
    };
  }
  if (team.size() > 1) client_options.both = [&team](const auto& work) { team.run(work); };
  PADDLE_TRY(auto client, client::ParameterClient::join(std::move(client_options), std::move(dense),
                                                        std::move(sparse)));
  if (job.is_local()) return strategy::make_local_client(std::move(client), {parameters});
  std::vector<parameter::RowNotes> notes;
  for (const wire::ParameterSpec& spec : parameters.parameters()) {
    if (spec.sparse()) notes.emplace_back(spec.table());
  }
  const strategy::HalfAsyncOptions half_async{
      .communicator = {.max_merge = job.max_merge,
                       .send_queue_size = job.send_queue_size,
                       .merge = job.merge,
                       .notes = std::move(notes)},
      .dense = job.dense_strategy == wire::STRATEGY_HALF_ASYNC && parameters.dense_shards() > 0,
      .sparse = job.sparse_strategy == wire::STRATEGY_HALF_ASYNC && parameters.sparse_shards() > 0};
  if (!half_async.dense && !half_async.sparse) return client;
  return strategy::make_half_async_client(std::move(client), half_async);
}

}  // namespace paddle::trainer
