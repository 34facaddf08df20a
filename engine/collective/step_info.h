// The facts of one rank about one training step, which every rank tells all others before any
// gradient is added.
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
  std::uint64_t plan_hash = 0;  // of parameters, sizes, buckets, types: equal on all ranks
  std::uint64_t samples = 0;    // behind this rank's gradient; 0: it contributes nothing
  double cost = 0;
  std::uint64_t batches = 1;  // behind this gradient, or this move of a copy
  bool stop = false;          // asked to end after this step
  bool out_of_data = false;   // no batch is left in this pass
  bool failed = false;        // it is about to leave with an error of its own
  std::uint32_t wish = 0;     // of the rank, in numbers of the caller's own
  bool cut = false;           // of rank 0: all keep a cut after this step
  friend bool operator==(const StepInfo&, const StepInfo&) = default;
};

// The weight of each rank's gradient in the mean over all samples, as a pserver's merge has it: 0
// without samples, and 1 for the only rank that has any.
std::vector<float> mean_shares(std::span<const StepInfo> infos);
// The weights of a sum: 1 for every rank that has samples.
std::vector<float> sum_shares(std::span<const StepInfo> infos);
// Over all ranks. More than 2^32 samples are no trouble.
std::uint64_t total_samples(std::span<const StepInfo> infos);

// The head of a step's frame; the step itself is in the frame's header.
std::string encode(const StepInfo& info);
std::optional<StepInfo> decode_step(std::uint64_t step, std::string_view head);

}  // namespace paddle::collective
