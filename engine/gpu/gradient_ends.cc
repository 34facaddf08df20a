#include "engine/gpu/gradient_ends.h"

#include "engine/gpu/written_regions.h"

namespace paddle::nn {

std::vector<std::size_t> gradient_ends(const Plan& plan) {
  std::vector<std::size_t> ends(plan.parameter_gradients.size(), 1);
  std::size_t end = 0;
  for (const Op& op : plan.backward) {
    ++end;
    for_each_written(op, [&](const Region& region) {
      const Buffer& buffer = plan.buffers[region.buffer];
      if (buffer.kind == Buffer::Kind::kParameterGradient) ends[buffer.index] = end;
    });
  }
  return ends;
}

}  // namespace paddle::nn
