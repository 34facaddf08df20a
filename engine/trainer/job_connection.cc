#include "engine/trainer/job_connection.h"

#include <filesystem>

#include <fmt/format.h>

#include "engine/memory/allocator.h"
#include "engine/net/identity.h"
#include "engine/strategy/collective/hybrid_client.h"

namespace paddle::trainer {
namespace {

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

// Beside the metrics: metrics-1.jsonl -> metrics-1.events.
std::string events_file(const TrainOptions& options) {
  if (options.metrics.empty()) return "";
  return std::filesystem::path(options.metrics).replace_extension(".events");
}

Result<std::unique_ptr<strategy::GroupClient>> connect_group(const config::JobConfig& job,
                                                             const wire::ParameterSet& parameters,
                                                             const TrainOptions& options,
                                                             ThreadTeam& team,
                                                             OnWaiting on_waiting) {
  PADDLE_TRY(std::vector<collective::Member> members, members_of(options));
  std::vector<std::string> addresses;
  addresses.reserve(members.size());
  for (const collective::Member& member : members) addresses.push_back(member.endpoint.address);
  PADDLE_TRY(JobKeys keys, net::job_keys(options.key_file, addresses));
  PADDLE_TRY(const net::Transport transport, net::parse_transport(options.transport));
  collective::GroupOptions group_options{.keys = std::move(keys),
                                         .job_tag = net::job_tag_of(options.job_tag),
                                         .rank = options.trainer_id,
                                         .incarnation = options.incarnation,
                                         .members = std::move(members),
                                         .transport = transport,
                                         .on_waiting = std::move(on_waiting),
                                         .events_file = events_file(options)};
  const TimePoint deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(options.connect_timeout);
  PADDLE_TRY(auto group, collective::Group::join(std::move(group_options), deadline));
  strategy::DenseRanks::Options dense{.bytes_max = parameter_memory_bytes()};
  if (team.size() > 1) {
    dense.parallel = [&team](std::size_t count, const auto& work) {
      team.parallel_for(count, work);
    };
  }
  return strategy::GroupClient::create(
      parameters, std::move(group), std::move(dense),
      {job.train.passes, job.train.saving_period, job.train.has_decisions(),
       static_cast<std::uint32_t>(job.uneven)});
}

Result<std::unique_ptr<client::ParameterClient>> join_group(const config::JobConfig& job,
                                                            const wire::ParameterSet& parameters,
                                                            const TrainOptions& options,
                                                            ThreadTeam& team,
                                                            OnWaiting on_waiting) {
  std::unique_ptr<client::ShardClient> tables;
  if (!options.pservers.empty()) {
    PADDLE_TRY(tables, join_shards(job, parameters, options, team));
  }
  PADDLE_TRY(std::unique_ptr<strategy::GroupClient> group,
             connect_group(job, parameters, options, team, std::move(on_waiting)));
  std::unique_ptr<client::ParameterClient> client;
  if (tables) {
    client = std::make_unique<strategy::HybridClient>(std::move(group), std::move(tables));
  } else {
    client = std::move(group);
  }
  return client;
}

}  // namespace

Status check_group(const config::JobConfig& job, const TrainOptions& options) {
  if (options.trainers.size() != options.num_gradient_servers) {
    return Error{Errc::kUsage,
                 fmt::format("--trainers names {} of {} trainers", options.trainers.size(),
                             options.num_gradient_servers),
                 "trainers that keep dense parameters among themselves need host:port of each, by "
                 "trainer_id"};
  }
  const std::string layer = job.sparse_layer();
  if (!layer.empty() && options.pservers.empty()) {
    return Error{
        Errc::kUsage,
        fmt::format("--pservers is empty, and the sparse table of layer '{}' is on them", layer),
        "start some with --ports_num=0; or leave out sparse = true"};
  }
  if (options.pservers.empty() || options.ports_num == 0) return {};
  return Error{Errc::kUsage,
               fmt::format("--ports_num={}, and [strategy] dense = 'collective' has no dense ports",
                           options.ports_num),
               "give pservers and trainers --ports_num=0"};
}

Result<std::unique_ptr<client::ParameterClient>> join_job(const config::JobConfig& job,
                                                          const wire::ParameterSet& parameters,
                                                          const TrainOptions& options,
                                                          ThreadTeam& team, OnWaiting on_waiting) {
  if (joins_group(job, options)) {
    return join_group(job, parameters, options, team, std::move(on_waiting));
  }
  PADDLE_TRY(std::unique_ptr<client::ParameterClient> client,
             join_shards(job, parameters, options, team));
  return client;
}

}  // namespace paddle::trainer
