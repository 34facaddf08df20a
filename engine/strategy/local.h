// geo and local_sgd: the trainer updates its own copy of the parameters, and every update_frequency
// batches pushes how far it moved. Other kinds of parameters go straight through.
//
// geo: shards add the moves up, each divided by the number of trainers (merge = mean) or whole
// (sum); a thread pushes them while training goes on, and with one trainer the bits do not depend
// on time. local_sgd: moves go through a round, in which shards average them, so that after it all
// trainers hold the mean of their models. Rows of a table are fetched when a batch first names them
// after a push, and only those that were are pushed. Elastic: dense moves go towards a center on
// the shards, and each trainer goes on from a model of its own (local_updates.h).
#pragma once

#include <memory>

#include "engine/client/parameter_client.h"

namespace paddle::strategy {

struct LocalOptions {
  wire::ParameterSet set;  // strategies, optimizer, update_frequency, merge, trainers
};

std::unique_ptr<client::ParameterClient> make_local_client(
    std::unique_ptr<client::ParameterClient> direct, const LocalOptions& options);

}  // namespace paddle::strategy
