#include "engine/pserver/trainer_admission.h"

#include <fmt/format.h>

#include "engine/parameter/parameter_difference.h"

namespace paddle::pserver {

Refused Admission::check(net::PeerId from, std::uint32_t trainer, const wire::Join& message,
                         const wire::ParameterSet& set) const {
  if (message.shard() != state_.options.index || message.is_sparse() != state_.options.is_sparse) {
    const auto kind = [](bool is_sparse) { return is_sparse ? "sparse" : "dense"; };
    return Refusal{wire::REFUSAL_PARAMETERS,
                   fmt::format("this is {} port {} of the job, trainer {} expects {} port {}",
                               kind(state_.options.is_sparse), state_.options.index, trainer,
                               kind(message.is_sparse()), message.shard()),
                   "list --pservers in the order of --pserver_id, and give pservers and trainers "
                   "the same --ports_num and --ports_num_for_sparse"};
  }
  if (set.num_trainers() != state_.options.num_gradient_servers) {
    return Refusal{wire::REFUSAL_PARAMETERS,
                   fmt::format("num_gradient_servers is {} here, trainer {} has {}",
                               state_.options.num_gradient_servers, trainer, set.num_trainers()),
                   "start pservers and trainers with the same --num_gradient_servers"};
  }
  if (state_.parameters.is_created()) {
    const std::string difference = parameter::parameter_difference(state_.parameters.set(), set);
    if (!difference.empty()) {
      return Refusal{wire::REFUSAL_PARAMETERS,
                     fmt::format("trainer {} has another parameter set: {}", trainer, difference),
                     "start every trainer with the same configuration"};
    }
  }
  const Trainer* const other = state_.membership.by_peer(from);
  if (other == nullptr || other->id == trainer) return {};
  return protocol_error(
      fmt::format("trainer {} joined on the connection of trainer {}", trainer, other->id));
}

Refused Admission::admit(net::PeerId from, const Frame& frame, const Refused& failure,
                         wire::Join& message) {
  wire::ParameterSet set;
  if (!message.ParseFromString(frame.head) || frame.tail.size() > kParameterSetBytesMax ||
      !set.ParseFromArray(frame.tail.data(), static_cast<int>(frame.tail.size()))) {
    return protocol_error("malformed Join");
  }
  if (auto refused = check(from, frame.header.sender.index, message, set)) return refused;
  if (failure) return failure;
  if (!state_.parameters.is_created()) {
    if (auto refused = state_.parameters.create(set)) return refused;
  }
  return state_.membership.join(from, frame.header);
}

}  // namespace paddle::pserver
