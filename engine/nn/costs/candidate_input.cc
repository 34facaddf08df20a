#include "engine/nn/costs/candidate_input.h"

#include "engine/kernels/rows.h"

namespace paddle::nn {

Status CandidateRows::fill(const Run& run, InputArrays& arrays) const {
  arrays.indices.clear();
  arrays.scales.clear();
  const auto put_row = [&](std::size_t parameter, std::uint64_t id) {
    const std::size_t row = run.parameters.sparse[parameter].row_of(id);
    arrays.indices.push_back(static_cast<std::uint32_t>(row));
  };
  for (std::size_t example = run.begin; example < run.end; ++example) {
    PADDLE_TRY(const std::uint64_t label, labels_.class_of(run, example));
    Rng rng = Candidates::draws(run.seed, options_.layer, example);
    for (std::size_t k = 0; k < candidates_.size(); ++k) {
      const std::uint64_t id = k == 0 ? label : candidates_.draw(rng);
      if (candidates_.corrected()) arrays.scales.push_back(candidates_.correction(id));
      if (candidates_.is_left_out(k, id, label)) {
        arrays.indices.insert(arrays.indices.end(), options_.bias ? 2 : 1, kernels::kNoRow);
        continue;
      }
      put_row(options_.weight, id);
      if (options_.bias) put_row(*options_.bias, id);
    }
  }
  return {};
}

}  // namespace paddle::nn
