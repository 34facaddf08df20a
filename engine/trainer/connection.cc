#include "engine/trainer/connection.h"

#include "engine/client/dense_layout.h"
#include "engine/client/shard_channels.h"
#include "engine/memory/allocator.h"
#include "engine/net/identity.h"
#include "engine/net/local_link.h"
#include "engine/pserver/shard.h"

namespace paddle::trainer {
namespace {

// Without any progress of a step: trainer 0 may be testing or saving meanwhile. A lost peer is
// noticed at once.
constexpr Duration kStepDeadline = std::chrono::minutes(10);

// Shards of this process; the dense ones share the loans.
client::ShardLinks make_local_shards(const TrainOptions& options, ThreadTeam& team,
                                     const client::DenseChannel::Loans& loans) {
  client::ShardLinks links;
  Parallel parallel;
  if (team.size() > 1) {
    parallel = [&team](std::size_t count, const auto& work) { team.parallel_for(count, work); };
  }
  const auto make = [&](std::uint32_t index, std::uint32_t count, bool is_sparse) {
    auto shard = std::make_shared<pserver::Shard>(
        pserver::ShardOptions{.make_policy = strategy::make_update_policy,
                              .index = index,
                              .is_sparse = is_sparse,
                              .num_gradient_servers = 1,
                              .job_tag = net::job_tag_of(options.job_tag),
                              .server_generation = 1,
                              .bytes_max = parameter_memory_bytes() / count,
                              .loan = is_sparse ? nullptr : loans[index],
                              .parallel = parallel});
    return net::make_local_link(std::move(shard), {Role::kTrainer, 0});
  };
  for (std::uint32_t i = 0; i < options.ports_num; ++i) {
    links.dense.push_back(make(i, options.ports_num, false));
  }
  for (std::uint32_t i = 0; i < options.ports_num_for_sparse; ++i) {
    links.sparse.push_back(make(i, options.ports_num_for_sparse, true));
  }
  return links;
}

}  // namespace

bool uses_pservers(const config::JobConfig& job) {
  return !job.is_collective() || !job.sparse_layer().empty();
}

void leave_out_unused(const config::JobConfig& job, TrainOptions& options) {
  if (!uses_pservers(job)) options.pservers.clear();
  // One trainer has nobody to add gradients up with, and needs pservers for tables only.
  options.is_alone = !options.local && job.has_group(options.pservers.size()) &&
                     options.num_gradient_servers == 1 && options.pservers.empty();
  options.local = options.local || options.is_alone;
}

bool joins_group(const config::JobConfig& job, const TrainOptions& options) {
  const bool is_alone = options.num_gradient_servers == 1 && options.pservers.empty();
  return job.has_group(options.pservers.size()) && !options.local && (!is_alone || options.on_card);
}

Status check_pservers(const config::JobConfig& job, const TrainOptions& options) {
  if (options.local || joins_group(job, options)) return {};
  if (options.pservers.empty()) return Error{Errc::kUsage, "--pservers is empty"};
  if (job.lanes > 1 && !job.has_group(options.pservers.size())) {
    return Error{Errc::kUsage,
                 "[strategy] lanes are connections between trainers, and with --pservers there are "
                 "none for dense parameters",
                 "leave lanes out, or name no pservers"};
  }
  return {};
}

bool joins_node(const config::JobConfig& job, const TrainOptions& options) {
  return job.has_node_groups() && !options.local && options.num_gradient_servers > 1;
}

wire::ParameterSet parameter_set(const config::JobConfig& job,
                                 const std::vector<wire::ParameterSpec>& parameters,
                                 const TrainOptions& options, std::uint64_t names_hash) {
  const bool has_group = joins_group(job, options);
  const auto servers = options.local ? 1 : static_cast<std::uint32_t>(options.pservers.size());
  wire::ParameterSet set;
  for (const wire::ParameterSpec& spec : parameters) *set.add_parameters() = spec;
  *set.mutable_optimizer() = job.optimizer;
  const auto alone = job.is_collective() ? wire::STRATEGY_SYNC : job.dense_strategy;
  set.set_dense_strategy(has_group ? wire::STRATEGY_COLLECTIVE : alone);
  set.set_sparse_strategy(job.sparse_strategy);
  set.set_async_lagged_grad_discard_ratio(job.async_lagged_grad_discard_ratio);
  set.set_seed(job.seed);
  set.set_num_trainers(options.local ? 1 : options.num_gradient_servers);
  set.set_dense_shards(has_group ? 0 : servers * options.ports_num);
  set.set_sparse_shards(options.on_card ? 1 : servers * options.ports_num_for_sparse);
  set.set_min_block_size(job.min_block_size);
  *set.mutable_partitioning() = job.partitioning;
  set.set_merge(job.merge);
  if (job.staleness_max) set.set_staleness_max(*job.staleness_max);
  set.set_update_frequency(job.update_frequency);
  set.set_elastic_rate(job.elastic_rate);
  set.set_delta_snapshots(job.train.full_snapshot_period > 1);
  for (wire::ParameterSpec& spec : *set.mutable_parameters()) {
    spec.set_is_delta(
        strategy::pushes_moves(spec.sparse() ? job.sparse_strategy : job.dense_strategy));
  }
  set.set_delay_compensation(job.delay_compensation);
  set.set_node_groups(joins_node(job, options));
  set.set_data_names(names_hash);
  set.set_trainers_return(strategy::trainers_return(set));
  if (set.trainers_return()) set.set_snapshot_seconds(job.train.snapshot_seconds);
  return set;
}

Result<std::unique_ptr<client::ShardChannels>> join_channels(const config::JobConfig& job,
                                                             const wire::ParameterSet& parameters,
                                                             const TrainOptions& options,
                                                             ThreadTeam& team) {
  client::ShardLinks links;
  client::ShardOptions shard_options{.parameters = parameters,
                                     .lane = {.trainer_id = options.local ? 0 : options.trainer_id,
                                              .incarnation = options.incarnation,
                                              .job_tag = net::job_tag_of(options.job_tag)},
                                     .deadline = kStepDeadline,
                                     .passes = job.train.passes};
  if (options.local) {
    // A strategy that pushes while training continues changes values under a batch.
    const bool lends_values = client::is_undivided(client::dense_layout(parameters)) &&
                              strategy::pushes_dense_straight(parameters);
    for (std::uint32_t i = 0; i < options.ports_num; ++i) {
      shard_options.loans.push_back(
          std::make_shared<parameter::DenseLoan>(parameter::DenseLoan{lends_values}));
    }
    links = make_local_shards(options, team, shard_options.loans);
  } else {
    PADDLE_TRY(links, client::connect_links(options));
  }
  if (team.size() > 1) shard_options.run_pair = [&team](const auto& work) { team.run(work); };
  return client::ShardChannels::join(std::move(shard_options), std::move(links.dense),
                                     std::move(links.sparse));
}

strategy::PathOptions path_options(const config::JobConfig& job) {
  return {.max_merge = job.max_merge, .send_queue_size = job.send_queue_size};
}

Result<std::unique_ptr<client::ShardClient>> join_shards(const config::JobConfig& job,
                                                         const wire::ParameterSet& parameters,
                                                         const TrainOptions& options,
                                                         ThreadTeam& team) {
  PADDLE_TRY(auto shards, join_channels(job, parameters, options, team));
  return strategy::make_client(std::move(shards), path_options(job));
}

}  // namespace paddle::trainer
