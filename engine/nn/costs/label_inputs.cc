#include "engine/nn/costs/label_inputs.h"

namespace paddle::nn {

Status ClassLabels::fill(const Run& run, InputArrays& arrays) const {
  arrays.indices.clear();
  for (std::size_t example = run.begin; example < run.end; ++example) {
    PADDLE_TRY(const std::uint64_t label, labels_.class_of(run, example));
    arrays.indices.push_back(static_cast<std::uint32_t>(label));
  }
  return {};
}

Status FloatLabels::fill(const Run& run, InputArrays& arrays) const {
  arrays.floats.resize(run.rows() * width_);
  float* out = arrays.floats.data();
  for (std::size_t example = run.begin; example < run.end; ++example, out += width_) {
    PADDLE_TRY_STATUS((labels_.*write_)(run, example, out));
  }
  return {};
}

}  // namespace paddle::nn
