// The strategies by which trainers and shards share parameters, each with its half on a shard and
// its half on a trainer.
#pragma once

#include <span>
#include <string_view>

#include "engine/client/parameter_client.h"
#include "engine/pserver/update_policy.h"

namespace paddle::strategy {

struct ClientOptions {
  wire::ParameterSet set;
  std::uint32_t max_merge = 1;        // half_async: batches of a push
  std::uint32_t send_queue_size = 1;  // half_async: pushes without an answer while training goes on
};

using ClientPtr = std::unique_ptr<client::ParameterClient>;
// Wraps the plain client. A factory serves both kinds of parameters that have its strategy, and
// passes requests for the other kind through.
using ClientFactory = ClientPtr (*)(ClientPtr direct, const ClientOptions& options);

struct Strategy {
  std::string_view name;  // in job.toml
  wire::Strategy id;
  pserver::UpdatePolicyFactory make_policy;
  ClientFactory make_client;  // null: the plain client
};

std::span<const Strategy> strategies();

// The shard's half, by the strategy that the set has for dense or for sparse parameters.
std::unique_ptr<pserver::UpdatePolicy> make_update_policy(const wire::ParameterSet& set,
                                                          bool is_sparse);
// The trainer's half, for dense and sparse parameters together.
ClientPtr make_client(ClientPtr direct, const ClientOptions& options);

}  // namespace paddle::strategy
