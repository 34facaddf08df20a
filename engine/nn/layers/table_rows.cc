#include "engine/nn/layers/table_rows.h"

#include <fmt/format.h>

namespace paddle::nn {

std::pair<std::size_t, std::size_t> TableRows::ids_of(const Run& run, std::size_t i) const {
  const auto& offsets = run.batch.slots[options_.slots[i]].offsets;
  if (offsets.empty()) return {run.begin, run.end};
  return {offsets[run.begin], offsets[run.end]};
}

Status TableRows::locate(const Run& run, std::size_t i, std::uint32_t* position,
                         std::size_t step) const {
  const Slot& slot = run.batch.slots[options_.slots[i]];
  if (options_.pooling == Pooling::kNone && !slot.offsets.empty()) {
    return Error{Errc::kData,
                 fmt::format("layer '{}': slot '{}' holds a varying number of ids per example",
                             options_.layer, options_.slot_names[i]),
                 "give the layer pooling = \"sum\", \"mean\" or \"concat\""};
  }
  const SparseView& known = run.parameters.sparse[options_.parameter];
  const auto [first, last] = ids_of(run, i);
  for (std::size_t k = first; k < last; ++k, position += step) {
    const std::uint64_t id = slot.ids[k];
    if (id == options_.padding_id) {
      *position = kernels::kNoRow;
      continue;
    }
    if (options_.vocabulary != 0 && id >= options_.vocabulary) {
      return Error{Errc::kData,
                   fmt::format("layer '{}': id {} in slot '{}' is not below the "
                               "vocabulary of {}",
                               options_.layer, id, options_.slot_names[i], options_.vocabulary)};
    }
    const std::size_t row = options_.sparse ? known.row_of(id) : id;
    *position = static_cast<std::uint32_t>(row);
  }
  return {};
}

}  // namespace paddle::nn
