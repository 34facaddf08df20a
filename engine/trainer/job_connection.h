// A trainer's place in its job: on pservers, in the group of all trainers or of those of its node,
// or in both.
#pragma once

#include <functional>
#include <span>

#include "base/fd.h"
#include "engine/trainer/connection.h"
#include "engine/trainer/model.h"

namespace paddle::trainer {

// kUsage: flags that do not go with a job whose trainers talk to each other.
Status check_group(const config::JobConfig& job, const TrainOptions& options);

// Has a local job whose dense parameters are those of a group keep all parameters in the memory of
// the model's GPU, if it computes on one: gradients that the host looks at stay there where the job
// has no tables. kUsage: a table cannot be on a card, with the way out.
Status keep_on_card(const config::JobConfig& job, const Model& model, TrainOptions& options);

// Trainers that this one waits for in the group, and for how long it has.
using OnWaiting = std::function<void(std::span<const std::uint32_t> trainers, Duration waited)>;

// Connects to all pservers, and to the trainers of its group if it joins one. Errors name the one
// that cannot be reached. on_waiting is called about once a second of waiting. `memory` is that of
// all lives of this trainer, or empty.
Result<std::unique_ptr<client::ParameterClient>> join_job(const config::JobConfig& job,
                                                          const wire::ParameterSet& parameters,
                                                          const TrainOptions& options, Model& model,
                                                          const OnWaiting& on_waiting,
                                                          const UniqueFd& memory);

}  // namespace paddle::trainer
