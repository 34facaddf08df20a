// The facts of one rank about one training step, which it sends to all others before any gradient
// is summed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paddle::collective {

struct StepInfo {
  std::uint64_t step = 0;
  std::uint64_t plan_hash = 0;  // hash of parameters, sizes, buckets and types: equal on all ranks
  std::uint64_t samples = 0;    // in this rank's gradient; 0: it contributes nothing
  double cost = 0;
  std::uint64_t batches = 1;  // in this gradient, or in this change of a local copy
  bool stop = false;          // this rank requests a stop after this step
  bool out_of_data = false;   // no batch is left in this pass
  bool failed = false;        // this rank is about to leave because of its own error
  std::uint32_t request = 0;  // of the rank; the caller defines the values
  bool savepoint = false;     // from rank 0: every rank keeps a savepoint after this step
  friend bool operator==(const StepInfo&, const StepInfo&) = default;
};

// The weight of each rank's gradient in the mean over all samples, as in a pserver's merge: 0
// without samples, and 1 for the only rank that has any.
std::vector<float> mean_shares(std::span<const StepInfo> infos);
// The weights of a sum: 1 for every rank that has samples.
std::vector<float> sum_shares(std::span<const StepInfo> infos);
// The samples of all ranks, in 64 bits.
std::uint64_t total_samples(std::span<const StepInfo> infos);

// The head of a step's frame; the step itself is in the frame's header.
std::string encode(const StepInfo& info);
std::optional<StepInfo> decode_step(std::uint64_t step, std::string_view head);

}  // namespace paddle::collective
