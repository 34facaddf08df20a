#include "engine/pserver/round.h"

#include <algorithm>

namespace paddle::pserver {
namespace {

struct RowGradient {
  std::uint32_t parameter = 0;
  std::uint32_t contributor = 0;
  std::uint64_t id = 0;
  const float* gradient = nullptr;
};

void add_scaled(std::span<float> to, float weight, const float* from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += weight * from[i];
}

// Contributors with samples; those without change nothing.
std::vector<const Push*> with_samples(std::span<const Push* const> pushes) {
  std::vector<const Push*> result;
  for (const Push* push : pushes) {
    if (push->samples > 0) result.push_back(push);
  }
  return result;
}

}  // namespace

std::vector<float> weights(std::span<const Push* const> pushes) {
  double total = 0;
  for (const Push* push : pushes) total += static_cast<double>(push->samples);
  std::vector<float> result;
  for (const Push* push : pushes) {
    const double share = total > 0 ? static_cast<double>(push->samples) / total : 0;
    result.push_back(static_cast<float>(share));
  }
  return result;
}

std::span<const float> mean_dense(std::span<const Push* const> pushes, std::vector<float>& scratch,
                                  std::vector<float>& part) {
  const auto active = with_samples(pushes);
  if (active.empty()) return {};
  if (active.size() == 1) return active.front()->dense(scratch);
  const auto shares = weights(active);
  for (std::size_t i = 0; i < active.size(); ++i) {
    const auto gradient = active[i]->dense(part);
    if (i == 0) scratch.assign(gradient.size(), 0.0F);
    add_scaled(scratch, shares[i], gradient.data());
  }
  return scratch;
}

void apply_rows(const wire::ParameterSet& set, std::span<const Push* const> pushes,
                const SparseTables& tables) {
  const auto active = with_samples(pushes);
  const auto shares = weights(active);
  std::vector<RowGradient> rows;
  for (std::uint32_t contributor = 0; contributor < active.size(); ++contributor) {
    for (const RowSegment& segment : active[contributor]->segments()) {
      for (std::size_t i = 0; i < segment.ids.size(); ++i) {
        rows.push_back({segment.parameter, contributor, segment.ids[i],
                        segment.floats.data() + i * segment.width});
      }
    }
  }
  if (active.size() > 1) {
    std::sort(rows.begin(), rows.end(), [](const RowGradient& a, const RowGradient& b) {
      if (a.parameter != b.parameter) return a.parameter < b.parameter;
      return a.id != b.id ? a.id < b.id : a.contributor < b.contributor;
    });
  }
  std::vector<float> mean;
  for (std::size_t begin = 0; begin < rows.size();) {
    SparseTable& table = *tables[rows[begin].parameter];
    std::size_t end = begin;
    mean.assign(table.width(), 0.0F);
    while (end < rows.size() && rows[end].parameter == rows[begin].parameter &&
           rows[end].id == rows[begin].id) {
      add_scaled(mean, shares[rows[end].contributor], rows[end].gradient);
      ++end;
    }
    const bool is_alone = active.size() == 1;
    table.apply(set, rows[begin].id,
                is_alone ? std::span<const float>(rows[begin].gradient, table.width()) : mean);
    begin = end;
  }
}

}  // namespace paddle::pserver
