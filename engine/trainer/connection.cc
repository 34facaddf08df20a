#include "engine/trainer/connection.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "base/rng.h"
#include "engine/client/dense_layout.h"
#include "engine/client/shard_channels.h"
#include "engine/group/card_client.h"
#include "engine/group/hybrid_client.h"
#include "engine/group/node_path.h"
#include "engine/math/allocator.h"
#include "engine/net/identity.h"
#include "engine/net/local_link.h"
#include "engine/pserver/shard.h"
#include "engine/trainer/model.h"
#include "engine/trainer/replay_log.h"

namespace paddle::trainer {
namespace {

// Longest time without progress of a step: trainer 0 may be testing or saving meanwhile. The loss
// of a peer is noticed at once.
constexpr Duration kStepDeadline = std::chrono::minutes(10);

// Shards in this process, which share the loans.
client::ShardLinks make_local_shards(const TrainOptions& options, ThreadTeam& team,
                                     const client::ChannelOptions& channels) {
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
                              .loan = is_sparse ? nullptr : channels.loans[index],
                              .row_loan = is_sparse ? channels.row_loans[index] : nullptr,
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

// The group of all trainers, or of the trainers on one node.

Result<std::vector<collective::Member>> members_of(const TrainOptions& options) {
  std::vector<collective::Member> members;
  for (const std::string& text : options.trainers) {
    auto written = client::parse_host_port(text, 0);
    if (!written || written->port == 0) {
      return Error{Errc::kUsage, fmt::format("'{}' in --trainers is not host:port", text)};
    }
    PADDLE_TRY(std::string address, net::resolve_address(written->host));
    members.push_back({text, {std::move(address), static_cast<std::uint16_t>(written->port)}});
  }
  return members;
}

// Equal for trainers with the same host in --trainers: they are on one node.
std::uint64_t node_number(const collective::Member& member) {
  return stable_hash(member.node.substr(0, member.node.rfind(':')));
}

// Beside the metrics: metrics-1.jsonl -> metrics-1.events.
std::string events_file(const TrainOptions& options) {
  if (options.metrics.empty()) return "";
  return std::filesystem::path(options.metrics).replace_extension(".events");
}

// How trainers on different nodes exchange gradients.
struct Between {
  bool sums_on_nodes = false;
  std::uint32_t lanes = 1;
  std::string gpu = {};  // UUID of this trainer's card
};

// Joins the group of the trainers `ids`; this trainer is one of them.
Result<std::unique_ptr<collective::Group>> join_trainers(const TrainOptions& options,
                                                         std::span<const collective::Member> all,
                                                         std::vector<std::uint32_t> ids,
                                                         const Between& between,
                                                         const OnWaiting& on_waiting) {
  std::vector<collective::Member> members;
  std::vector<std::string> addresses;
  for (const std::uint32_t id : ids) {
    members.push_back(all[id]);
    addresses.push_back(all[id].endpoint.address);
  }
  PADDLE_TRY(JobKeys keys, net::job_keys(options.key_file, addresses));
  PADDLE_TRY(const net::Transport transport, net::parse_transport(options.transport));
  const auto own = std::ranges::find(ids, options.trainer_id);
  collective::GroupOptions group_options{.keys = std::move(keys),
                                         .job_tag = net::job_tag_of(options.job_tag),
                                         .rank = static_cast<std::uint32_t>(own - ids.begin()),
                                         .incarnation = options.incarnation,
                                         .members = std::move(members),
                                         .ids = ids,
                                         .transport = transport,
                                         .lanes = between.lanes,
                                         .sums_on_hosts = between.sums_on_nodes,
                                         .gpu = between.gpu,
                                         .events_file = events_file(options)};
  if (between.sums_on_nodes) group_options.host = node_number(all[options.trainer_id]);
  if (on_waiting) {
    group_options.on_waiting = [ids = std::move(ids), on_waiting](
                                   std::span<const std::uint32_t> ranks, Duration waited) {
      std::vector<std::uint32_t> trainers;
      for (const std::uint32_t rank : ranks) trainers.push_back(ids[rank]);
      on_waiting(trainers, waited);
    };
  }
  const TimePoint deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(options.connect_timeout);
  return collective::Group::join(std::move(group_options), deadline);
}

// A group of this trainer alone, without any connection.
Result<std::unique_ptr<collective::Group>> group_of_one(const TrainOptions& options) {
  collective::GroupOptions alone{.keys = {}, .members = {{"this trainer", {}}}};
  alone.incarnation = options.incarnation;
  alone.events_file = events_file(options);
  return collective::Group::join(std::move(alone), std::chrono::steady_clock::now());
}

std::string gpu_of(const Model& model) {
  const auto compute = model.compute_stream();
  return compute ? compute->device->card().uuid : "";
}

// Group savepoints are stored in the memory of this trainer, behind the counts of ReplayLog.
std::optional<strategy::GroupSavepoints::Options> savepoints_of(
    const config::JobConfig& job, const wire::ParameterSet& parameters, const Model& model,
    const UniqueFd& memory) {
  if (!memory || !parameters.trainers_return() || parameters.snapshot_seconds() == 0) return {};
  return strategy::GroupSavepoints::Options{
      .memory = UniqueFd(::fcntl(memory.get(), F_DUPFD_CLOEXEC, 0)),
      .offset = ReplayLog::end_of_counts(model.empty_tally()),
      .period = std::chrono::seconds(parameters.snapshot_seconds()),
      .batches = job.train.log_period};
}

Result<std::unique_ptr<strategy::GroupClient>> connect_group(
    const config::JobConfig& job, const wire::ParameterSet& parameters, const TrainOptions& options,
    Model& model, const OnWaiting& on_waiting, const UniqueFd& memory) {
  std::unique_ptr<collective::Group> group;
  if (options.on_card) {
    PADDLE_TRY(group, group_of_one(options));
  } else {
    PADDLE_TRY(const std::vector<collective::Member> members, members_of(options));
    std::vector<std::uint32_t> ids(members.size());
    std::iota(ids.begin(), ids.end(), 0);
    PADDLE_TRY(group, join_trainers(options, members, std::move(ids),
                                    {job.node_groups, job.lanes, gpu_of(model)}, on_waiting));
  }
  if (group->has_levels()) {
    const std::set<std::uint64_t> nodes(group->hosts().begin(), group->hosts().end());
    log_info("trainers add their gradients up on each of {} nodes first", nodes.size());
  }
  strategy::HostRanks::Options dense{.bytes_max = parameter_memory_bytes()};
  ThreadTeam& team = model.team();
  if (team.size() > 1) {
    dense.parallel = [&team](std::size_t count, const auto& work) {
      team.parallel_for(count, work);
    };
  }
  std::optional<strategy::CardRanks::Options> card;
  // With skips_not_finite, gradients stay on the host, which looks for batches to leave out.
  if (model.compute_stream() && !job.train.skips_not_finite) {
    card = {*model.compute_stream(), options.job_tag,
            options.nccl_clear || options.transport == "clear"};
  }
  return strategy::GroupClient::create(
      parameters, std::move(group), std::move(dense),
      {job.train.passes, job.train.saving_period, job.train.has_decisions(),
       static_cast<std::uint32_t>(job.uneven), job.bf16_wire && !options.on_card},
      std::move(card), savepoints_of(job, parameters, model, memory));
}

// Trainers with the same address are on one node. A trainer that is alone on its node pushes to the
// shards itself.
Result<std::unique_ptr<client::ParameterClient>> join_with_node(
    const config::JobConfig& job, const wire::ParameterSet& parameters, const TrainOptions& options,
    ThreadTeam& team, const OnWaiting& on_waiting) {
  PADDLE_TRY(const std::vector<collective::Member> members, members_of(options));
  std::vector<std::uint32_t> ids;
  for (std::uint32_t id = 0; id < members.size(); ++id) {
    if (members[id].endpoint.address == members[options.trainer_id].endpoint.address) {
      ids.push_back(id);
    }
  }
  PADDLE_TRY(auto shards, join_channels(job, parameters, options, team));
  std::unique_ptr<client::DensePath> dense;
  if (ids.size() > 1) {
    PADDLE_TRY(auto group, join_trainers(options, members, ids, {}, on_waiting));
    log_info("trainers {} of this node push one sum of their gradients", fmt::join(ids, ", "));
    dense = std::make_unique<strategy::NodePath>(*shards, std::move(group), options.trainer_id);
  }
  std::unique_ptr<client::ParameterClient> client =
      strategy::make_client(std::move(shards), path_options(job), std::move(dense));
  return client;
}

Result<std::unique_ptr<client::ParameterClient>> join_group(
    const config::JobConfig& job, const wire::ParameterSet& parameters, const TrainOptions& options,
    Model& model, const OnWaiting& on_waiting, const UniqueFd& memory) {
  std::unique_ptr<client::ShardClient> tables;
  if (!options.pservers.empty()) {
    PADDLE_TRY(tables, join_shards(job, parameters, options, model.team()));
  }
  PADDLE_TRY(std::unique_ptr<strategy::GroupClient> group,
             connect_group(job, parameters, options, model, on_waiting, memory));
  std::unique_ptr<client::ParameterClient> client;
  if (tables) {
    client = std::make_unique<strategy::HybridClient>(std::move(group), std::move(tables));
  } else if (options.on_card && !job.sparse_layer().empty()) {
    PADDLE_TRY(auto on_card, strategy::CardTables::create(parameters, *model.compute_stream(),
                                                          model.vocabularies()));
    client =
        std::make_unique<strategy::CardClient>(parameters, std::move(group), std::move(on_card));
  } else {
    client = std::move(group);
  }
  return client;
}

}  // namespace

bool uses_pservers(const config::JobConfig& job) {
  return !job.has_group() || !job.sparse_layer().empty();
}

void leave_out_unused(const config::JobConfig& job, TrainOptions& options) {
  if (!uses_pservers(job)) options.pservers.clear();
  // A single trainer adds gradients up with no other, and needs pservers for tables only.
  options.is_alone = !options.local && job.has_group() && options.num_gradient_servers == 1 &&
                     options.pservers.empty();
  options.local = options.local || options.is_alone;
}

bool joins_group(const config::JobConfig& job, const TrainOptions& options) {
  const bool is_alone = options.num_gradient_servers == 1 && options.pservers.empty();
  return job.has_group() && !options.local && (!is_alone || options.on_card);
}

Status check_pservers(const config::JobConfig& job, const TrainOptions& options) {
  if (options.local || joins_group(job, options) || !options.pservers.empty()) return {};
  return Error{Errc::kUsage, "--pservers is empty"};
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
  // A trainer alone has no group: it makes each update itself.
  set.set_dense_strategy(job.has_group() && !has_group ? wire::STRATEGY_SYNC : job.dense_strategy);
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
  set.set_delta_snapshots(job.train.full_snapshot_period > 1);
  for (wire::ParameterSpec& spec : *set.mutable_parameters()) {
    spec.set_is_delta(
        strategy::pushes_moves(spec.sparse() ? set.sparse_strategy() : set.dense_strategy()));
  }
  set.set_node_groups(joins_node(job, options));
  set.set_data_names(names_hash);
  set.set_trainers_return(strategy::trainers_return(set));
  if (set.trainers_return()) set.set_snapshot_seconds(job.train.snapshot_seconds);
  return set;
}

Result<std::unique_ptr<client::ShardChannels>> join_channels(const config::JobConfig& job,
                                                             const wire::ParameterSet& parameters,
                                                             const TrainOptions& options,
                                                             ThreadTeam& team,
                                                             const OnShardWaiting& on_waiting) {
  client::ShardLinks links;
  client::ChannelOptions channel_options{
      .parameters = parameters,
      .lane = {.trainer_id = options.local ? 0 : options.trainer_id,
               .incarnation = options.incarnation,
               .job_tag = net::job_tag_of(options.job_tag)},
      .deadline = kStepDeadline,
      .passes = job.train.passes,
      .pull_silence_max = options.pull_silence_max,
      .on_waiting = on_waiting};
  if (options.local) {
    // A strategy that pushes while training continues would change lent values while a batch uses
    // them.
    const bool lends_values = client::is_undivided(client::dense_layout(parameters)) &&
                              strategy::pushes_dense_straight(parameters);
    for (std::uint32_t i = 0; i < options.ports_num; ++i) {
      channel_options.loans.push_back(
          std::make_shared<parameter::DenseLoan>(parameter::DenseLoan{lends_values}));
    }
    for (std::uint32_t i = 0; i < options.ports_num_for_sparse; ++i) {
      channel_options.row_loans.push_back(std::make_shared<parameter::RowLoan>());
    }
    links = make_local_shards(options, team, channel_options);
  } else {
    PADDLE_TRY(links, client::connect_links(options));
  }
  if (team.size() > 1) channel_options.run_pair = [&team](const auto& work) { team.run(work); };
  return client::ShardChannels::join(std::move(channel_options), std::move(links.dense),
                                     std::move(links.sparse));
}

strategy::PathOptions path_options(const config::JobConfig& job) {
  return {.max_merge = job.max_merge, .send_queue_size = job.send_queue_size};
}

Result<std::unique_ptr<client::ShardClient>> join_shards(const config::JobConfig& job,
                                                         const wire::ParameterSet& parameters,
                                                         const TrainOptions& options,
                                                         ThreadTeam& team,
                                                         const OnShardWaiting& on_waiting) {
  PADDLE_TRY(auto shards, join_channels(job, parameters, options, team, on_waiting));
  return strategy::make_client(std::move(shards), path_options(job));
}

Status check_group(const config::JobConfig& job, const TrainOptions& options) {
  if (options.trainers.size() != options.num_gradient_servers) {
    return Error{Errc::kUsage,
                 fmt::format("--trainers names {} trainers, but the job has {}",
                             options.trainers.size(), options.num_gradient_servers),
                 "trainers that exchange gradients among themselves need host:port of each, by "
                 "trainer_id"};
  }
  if (!joins_group(job, options)) return {};
  const std::string layer = job.sparse_layer();
  if (!layer.empty() && options.pservers.empty()) {
    return Error{
        Errc::kUsage,
        fmt::format("--pservers is empty, but the sparse table of layer '{}' needs pservers",
                    layer),
        "start some with --ports_num=0; or leave out sparse = true"};
  }
  if (options.pservers.empty() || options.ports_num == 0) return {};
  return Error{Errc::kUsage,
               fmt::format("--ports_num={}, but [strategy] dense = 'collective' has no dense ports",
                           options.ports_num),
               "give pservers and trainers --ports_num=0"};
}

Status keep_on_card(const config::JobConfig& job, const Model& model, TrainOptions& options) {
  if (!options.is_alone || !job.is_collective() || !model.compute_stream()) return {};
  TrainOptions moved = options;
  moved.local = false;
  moved.on_card = true;
  const wire::ParameterSet set = parameter_set(job, model.parameters(), moved);
  const std::string layer = job.sparse_layer();
  if (!layer.empty()) PADDLE_TRY_STATUS(strategy::CardTables::check(set));
  const bool host_looks = job.train.skips_not_finite || !strategy::CardRanks::can_keep(set);
  if (host_looks && !layer.empty()) {
    return Error{Errc::kUsage,
                 fmt::format("the table of layer '{}' would be on the GPU, which does not support "
                             "on_not_finite = \"skip\"",
                             layer),
                 "train with a pserver, which supports it: --pservers 1"};
  }
  if (!host_looks) options = std::move(moved);
  return {};
}

Result<std::unique_ptr<client::ParameterClient>> join_job(const config::JobConfig& job,
                                                          const wire::ParameterSet& parameters,
                                                          const TrainOptions& options, Model& model,
                                                          const OnWaiting& on_waiting,
                                                          const UniqueFd& memory) {
  if (joins_group(job, options)) {
    return join_group(job, parameters, options, model, on_waiting, memory);
  }
  if (joins_node(job, options))
    return join_with_node(job, parameters, options, model.team(), on_waiting);
  PADDLE_TRY(std::unique_ptr<client::ParameterClient> client,
             join_shards(job, parameters, options, model.team()));
  return client;
}

}  // namespace paddle::trainer
