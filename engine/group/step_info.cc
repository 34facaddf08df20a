#include "engine/group/step_info.h"

#include "proto/collective.pb.h"

namespace paddle::collective {

std::uint64_t total_samples(std::span<const StepInfo> infos) {
  std::uint64_t total = 0;
  for (const StepInfo& info : infos) total += info.samples;
  return total;
}

std::vector<float> mean_shares(std::span<const StepInfo> infos) {
  double total = 0;
  for (const StepInfo& info : infos) total += static_cast<double>(info.samples);
  std::vector<float> shares;
  for (const StepInfo& info : infos) {
    const double share = total > 0 ? static_cast<double>(info.samples) / total : 0;
    shares.push_back(static_cast<float>(share));
  }
  return shares;
}

std::vector<float> sum_shares(std::span<const StepInfo> infos) {
  std::vector<float> shares;
  for (const StepInfo& info : infos) shares.push_back(info.samples > 0 ? 1.0F : 0.0F);
  return shares;
}

std::string encode(const StepInfo& info) {
  wire::Step message;
  message.set_plan_hash(info.plan_hash);
  message.set_samples(info.samples);
  message.set_cost(info.cost);
  message.set_batches(info.batches);
  message.set_stop(info.stop);
  message.set_out_of_data(info.out_of_data);
  message.set_failed(info.failed);
  message.set_request(info.request);
  message.set_savepoint(info.savepoint);
  return message.SerializeAsString();
}

std::optional<StepInfo> decode_step(std::uint64_t step, std::string_view head) {
  wire::Step message;
  if (!message.ParseFromArray(head.data(), static_cast<int>(head.size()))) return std::nullopt;
  return StepInfo{.step = step,
                  .plan_hash = message.plan_hash(),
                  .samples = message.samples(),
                  .cost = message.cost(),
                  .batches = message.batches(),
                  .stop = message.stop(),
                  .out_of_data = message.out_of_data(),
                  .failed = message.failed(),
                  .request = message.request(),
                  .savepoint = message.savepoint()};
}

}  // namespace paddle::collective
