// Trainers on nodes whose trainers push one sum, with real shards on loopback.
#pragma once

#include "engine/client/shard_channels.h"
#include "engine/group/node_path.h"
#include "engine/net/tcp.h"
#include "engine/pserver/shard.h"
#include "engine/strategy/strategy_table.h"
#include "tests/unit/engine/group/group_client_fixture.h"

namespace paddle::strategy {

inline constexpr std::uint64_t kJobTag = 77;  // as options_of() has it

// Dense ports of one pserver.
class Ports {
 public:
  explicit Ports(const wire::ParameterSet& set) {
    for (std::uint32_t i = 0; i < set.dense_shards(); ++i) {
      shards_.push_back(std::make_unique<pserver::Shard>(
          pserver::ShardOptions{.make_policy = make_update_policy,
                                .index = i,
                                .num_gradient_servers = set.num_trainers(),
                                .job_tag = kJobTag,
                                .server_generation = 1,
                                .needs_all_trainers = true}));
      auto server = net::TcpServer::listen({.endpoint = {"127.0.0.1", 0},
                                            .keys = collective::keys_of(1),
                                            .self = {Role::kPserver, 0},
                                            .job_tag = kJobTag,
                                            .server_generation = 1},
                                           *shards_.back());
      EXPECT_TRUE(server) << server.error().message;
      servers_.push_back(*std::move(server));
      threads_.emplace_back([&one = *servers_.back()] { one.run(); });
    }
  }
  ~Ports() {
    for (const auto& server : servers_) server->stop();
    for (std::thread& thread : threads_) thread.join();
  }
  Ports(const Ports&) = delete;
  Ports& operator=(const Ports&) = delete;

  std::unique_ptr<client::ShardChannels> join(const wire::ParameterSet& set,
                                              std::uint32_t trainer) const {
    client::ShardChannels::Links links;
    for (const auto& server : servers_) {
      auto link = net::connect({.endpoint = {"127.0.0.1", server->port()},
                                .keys = collective::keys_of(1),
                                .self = {Role::kTrainer, trainer},
                                .incarnation = 1,
                                .server = {Role::kPserver, 0},
                                .job_tag = kJobTag},
                               collective::soon());
      EXPECT_TRUE(link) << link.error().message;
      links.push_back(*std::move(link));
    }
    auto shards = client::ShardChannels::join(
        {.parameters = set,
         .lane = {.trainer_id = trainer, .incarnation = 1, .job_tag = kJobTag},
         .deadline = std::chrono::seconds(30)},
        std::move(links), {});
    EXPECT_TRUE(shards) << shards.error().message;
    return *std::move(shards);
  }

 private:
  std::vector<std::unique_ptr<pserver::Shard>> shards_;
  std::vector<std::unique_ptr<net::TcpServer>> servers_;
  std::vector<std::thread> threads_;
};

inline wire::ParameterSet node_set(const std::string& method,
                                   const std::vector<std::uint64_t>& sizes,
                                   std::uint32_t trainers) {
  auto set = sync_set(set_of(method, sizes, trainers));
  set.set_dense_shards(2);
  set.set_node_groups(true);
  return set;
}

// Runs `work` as every trainer of the nodes, of which each has a host number of its own.
inline void on_nodes(const wire::ParameterSet& set, const Nodes& nodes,
                     const std::function<void(Rank&)>& work, const std::string& resumed = "",
                     const collective::Way& way = collective::ways().front()) {
  const Ports ports(set);
  std::vector<std::thread> threads;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    auto options = collective::options_of(static_cast<std::uint32_t>(nodes[node].size()), way);
    for (std::size_t i = 0; i < options.size(); ++i) {
      options[i].ids = nodes[node];
      options[i].host = 1 + node;
      threads.emplace_back([&, id = nodes[node][i], one = std::move(options[i])]() mutable {
        auto shards = ports.join(set, id);
        std::unique_ptr<client::DensePath> dense;
        if (one.members.size() > 1) {
          auto group = collective::Group::join(std::move(one), collective::soon());
          ASSERT_TRUE(group) << group.error().message;
          dense = std::make_unique<NodePath>(*shards, *std::move(group), id);
        }
        const auto client = make_client(std::move(shards), {}, std::move(dense));
        train(set, *client, id, resumed, work);
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace paddle::strategy
