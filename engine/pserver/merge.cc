#include "engine/pserver/merge.h"

#include <algorithm>

namespace paddle::pserver {
namespace {

struct RowGradient {
  std::uint32_t parameter = 0;
  std::uint32_t contributor = 0;
  std::uint64_t id = 0;
  const float* gradient = nullptr;
};

constexpr std::size_t kRowsPerUpdate = 4096;  // so that their means stay in the cache

void add_scaled(std::span<float> to, float weight, const float* from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += weight * from[i];
}

// The pushes with a weight above 0; the others change nothing.
std::vector<const Push*> with_weight(std::span<const Push* const> pushes) {
  std::vector<const Push*> result;
  for (const Push* push : pushes) {
    if (push->weight() > 0) result.push_back(push);
  }
  return result;
}

bool comes_before(const RowGradient& a, const RowGradient& b) {
  return a.parameter != b.parameter ? a.parameter < b.parameter : a.id < b.id;
}

// All rows of the pushes, in the order of (table, id, push). Each push is a run in that order, so
// neighbouring runs are merged until one is left.
std::vector<RowGradient> merged_rows(std::span<const Push* const> pushes) {
  std::vector<RowGradient> rows;
  std::vector<std::size_t> begins = {0};  // begins of the runs, and the end of the last one
  for (std::uint32_t contributor = 0; contributor < pushes.size(); ++contributor) {
    for (const RowSegment& segment : pushes[contributor]->segments()) {
      for (std::size_t i = 0; i < segment.ids.size(); ++i) {
        rows.push_back({segment.parameter, contributor, segment.ids[i],
                        segment.floats.data() + i * segment.width});
      }
    }
    begins.push_back(rows.size());
  }
  const auto at = [&](std::size_t run) {
    return rows.begin() + static_cast<std::ptrdiff_t>(begins[std::min(run, pushes.size())]);
  };
  for (std::size_t runs = 1; runs < pushes.size(); runs *= 2) {
    for (std::size_t run = 0; run < pushes.size(); run += 2 * runs) {
      std::inplace_merge(at(run), at(run + runs), at(run + 2 * runs), comes_before);
    }
  }
  return rows;
}

// The weight of each push: its share of all samples, 0 without samples; 1 for MERGE_SUM.
std::vector<float> weights(std::span<const Push* const> pushes, wire::Merge merge) {
  if (merge == wire::MERGE_SUM) return std::vector<float>(pushes.size(), 1.0F);
  double total = 0;
  for (const Push* push : pushes) total += static_cast<double>(push->weight());
  std::vector<float> result;
  for (const Push* push : pushes) {
    const double share = total > 0 ? static_cast<double>(push->weight()) / total : 0;
    result.push_back(static_cast<float>(share));
  }
  return result;
}

}  // namespace

std::span<const float> merge_dense(std::span<const Push* const> pushes, wire::Merge merge,
                                   std::vector<float>& scratch, std::vector<float>& part) {
  const auto active = with_weight(pushes);
  if (active.empty()) return {};
  if (active.size() == 1) return active.front()->dense(scratch);
  const auto shares = weights(active, merge);
  for (std::size_t i = 0; i < active.size(); ++i) {
    const auto gradient = active[i]->dense(part);
    if (i == 0) scratch.assign(gradient.size(), 0.0F);
    add_scaled(scratch, shares[i], gradient.data());
  }
  return scratch;
}

std::optional<std::uint32_t> apply_rows(float learning_rate, wire::Merge merge,
                                        std::span<const Push* const> pushes,
                                        const SparseTables& tables) {
  const auto active = with_weight(pushes);
  std::optional<std::uint32_t> broken;
  const auto apply = [&](std::uint32_t parameter, std::span<const std::uint64_t> ids,
                         std::span<const float> gradients) {
    const bool is_finite = tables[parameter]->apply(learning_rate, ids, gradients);
    if (!is_finite && !broken) broken = parameter;
  };
  if (active.size() == 1) {
    for (const RowSegment& segment : active.front()->segments()) {
      apply(segment.parameter, segment.ids, segment.floats);
    }
    return broken;
  }
  const auto shares = weights(active, merge);
  const std::vector<RowGradient> rows = merged_rows(active);
  std::vector<std::uint64_t> ids;
  std::vector<float> means;
  for (std::size_t at = 0; at < rows.size();) {
    const std::uint32_t parameter = rows[at].parameter;
    const std::size_t width = tables[parameter]->width();
    const std::size_t push_width = tables[parameter]->push_width();
    const parameter::RowNotes& notes = tables[parameter]->notes();
    ids.clear();
    means.clear();
    while (at < rows.size() && rows[at].parameter == parameter && ids.size() < kRowsPerUpdate) {
      const std::uint64_t id = rows[at].id;
      ids.push_back(id);
      means.resize(means.size() + push_width, 0.0F);
      float* const mean = means.data() + means.size() - push_width;
      notes.start(mean + width);
      for (; at < rows.size() && rows[at].parameter == parameter && rows[at].id == id; ++at) {
        add_scaled({mean, width}, shares[rows[at].contributor], rows[at].gradient);
        notes.add(mean + width, rows[at].gradient + width);
      }
    }
    apply(parameter, ids, means);
  }
  return broken;
}

}  // namespace paddle::pserver
