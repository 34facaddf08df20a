#include "engine/model/nearest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "engine/math/gemm.h"
#include "engine/table/parameter_set.h"
#include "engine/table/row_notes.h"

namespace paddle::inference {
namespace {

constexpr std::size_t kBlockRows = 512;

using UseRow = std::function<void(std::uint64_t id, std::span<const float> values)>;

// The rows of a parameter, which can be read any number of times. Ids that wait for admission have
// no row.
class Rows {
 public:
  static Result<Rows> open(const snapshot::SnapshotReader& snapshot,
                           const wire::ParameterSpec& spec) {
    Rows rows(snapshot, spec);
    if (!spec.sparse()) {
      PADDLE_TRY(rows.dense_, snapshot.read_dense_value(spec.name()));
    }
    return rows;
  }
  std::size_t width() const { return width_; }
  Status for_each(const UseRow& use) const {
    if (spec_.sparse()) {
      return snapshot_.read_rows(spec_.name(), [&](const table::Row& row) -> Status {
        if (row.marks.sightings == 0) use(row.id, row.value);
        return {};
      });
    }
    for (std::size_t row = 0; row < dense_.size() / width_; ++row)
      use(row, std::span(dense_).subspan(row * width_, width_));
    return {};
  }

 private:
  Rows(const snapshot::SnapshotReader& snapshot, const wire::ParameterSpec& spec)
      : snapshot_(snapshot),
        spec_(spec),
        width_(spec.sparse() ? parameter::row_width(spec)
                             : static_cast<std::size_t>(spec.dims(spec.dims_size() - 1))) {}

  const snapshot::SnapshotReader& snapshot_;
  const wire::ParameterSpec& spec_;
  std::size_t width_;
  std::vector<float> dense_;
};

// Sums in several lanes, which the compiler computes in parallel.
float inverse_norm(std::span<const float> values) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> lanes{};
  const std::size_t whole = values.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += values[i + lane] * values[i + lane];
  }
  for (std::size_t i = whole; i < values.size(); ++i) lanes[i - whole] += values[i] * values[i];
  const float squares = std::accumulate(lanes.begin(), lanes.end(), 0.0F);
  return squares > 0 ? 1 / std::sqrt(squares) : 0;
}

// The rows that were asked for, scaled to length 1, and which of them exist.
struct Queries {
  std::vector<std::uint64_t> ids;
  std::vector<float> values;  // by id, row-major
  std::vector<char> found;
  std::vector<float> mean;  // subtracted from each row; empty: not centered
};

Result<Queries> read_queries(const Rows& rows, std::span<const std::uint64_t> ids, bool centered) {
  const std::size_t width = rows.width();
  Queries queries{.ids = {ids.begin(), ids.end()},
                  .values = std::vector<float>(ids.size() * width),
                  .found = std::vector<char>(ids.size()),
                  .mean = {}};
  std::unordered_multimap<std::uint64_t, std::size_t> places;
  for (std::size_t i = 0; i < ids.size(); ++i) places.emplace(ids[i], i);
  std::vector<double> sum(centered ? width : 0);
  std::uint64_t count = 0;
  PADDLE_TRY_STATUS(rows.for_each([&](std::uint64_t id, std::span<const float> values) {
    ++count;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    const auto [begin, end] = places.equal_range(id);
    for (auto at = begin; at != end; ++at) {
      queries.found[at->second] = 1;
      std::ranges::copy(values,
                        queries.values.begin() + static_cast<std::ptrdiff_t>(at->second * width));
    }
  }));
  for (const double each : sum)
    queries.mean.push_back(static_cast<float>(each / static_cast<double>(std::max(count, 1UL))));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto row = std::span(queries.values).subspan(i * width, width);
    for (std::size_t k = 0; k < queries.mean.size(); ++k) row[k] -= queries.mean[k];
    const float scale = inverse_norm(row);
    for (float& value : row) value *= scale;
  }
  return queries;
}

// The nearest of the rows added so far: for each query a heap, with the farthest row on top.
class Best {
 public:
  Best(const Queries& queries, std::size_t width, std::size_t count)
      : queries_(queries),
        width_(width),
        count_(count),
        nearest_(queries.ids.size()),
        least_(queries.ids.size(), -std::numeric_limits<float>::infinity()) {}

  void add(std::uint64_t id, std::span<const float> values) {
    ids_.push_back(id);
    const std::size_t begin = block_.size();
    block_.insert(block_.end(), values.begin(), values.end());
    for (std::size_t i = 0; i < queries_.mean.size(); ++i) block_[begin + i] -= queries_.mean[i];
    if (ids_.size() == kBlockRows) compare();
  }

  std::vector<std::optional<std::vector<Neighbour>>> finish() {
    compare();
    std::vector<std::optional<std::vector<Neighbour>>> all(nearest_.size());
    for (std::size_t query = 0; query < all.size(); ++query) {
      if (!queries_.found[query]) continue;
      std::ranges::sort_heap(nearest_[query], is_nearer);
      all[query] = std::move(nearest_[query]);
    }
    return all;
  }

 private:
  static bool is_nearer(const Neighbour& a, const Neighbour& b) {
    return a.cosine != b.cosine ? a.cosine > b.cosine : a.id < b.id;
  }

  void compare() {
    const std::size_t queries = queries_.ids.size();
    if (ids_.empty() || queries == 0) return;
    products_.resize(ids_.size() * queries);
    kernels::gemm(kernels::Compute::kFloat32, kernels::Transpose::kNo, kernels::Transpose::kYes,
                  ids_.size(), queries, width_, block_.data(), queries_.values.data(), false,
                  products_.data());
    for (std::size_t row = 0; row < ids_.size(); ++row) {
      const float scale = inverse_norm(std::span(block_).subspan(row * width_, width_));
      const std::span<float> cosines = std::span(products_).subspan(row * queries, queries);
      for (std::size_t query = 0; query < queries; ++query) {
        const float cosine = cosines[query] * scale;
        // Nearly always false once the heap is full; also false for NaN.
        if (cosine >= least_[query]) offer(query, {ids_[row], cosine});
      }
    }
    ids_.clear();
    block_.clear();
  }

  void offer(std::size_t query, Neighbour found) {
    std::vector<Neighbour>& heap = nearest_[query];
    if (found.id == queries_.ids[query]) return;
    if (heap.size() == count_) {
      if (!is_nearer(found, heap.front())) return;
      std::ranges::pop_heap(heap, is_nearer);
      heap.pop_back();
    }
    heap.push_back(found);
    std::ranges::push_heap(heap, is_nearer);
    if (heap.size() == count_) least_[query] = heap.front().cosine;
  }

  const Queries& queries_;
  std::size_t width_;
  std::size_t count_;
  std::vector<std::vector<Neighbour>> nearest_;
  std::vector<float> least_;        // by query: the least cosine that a row needs
  std::vector<std::uint64_t> ids_;  // of the rows in `block_`
  std::vector<float> block_;
  std::vector<float> products_;
};

}  // namespace

Result<std::vector<std::optional<std::vector<Neighbour>>>> nearest_rows(
    const snapshot::SnapshotReader& snapshot, const wire::ParameterSpec& parameter,
    std::span<const std::uint64_t> ids, const NearestOptions& options) {
  PADDLE_CHECK(options.count > 0);
  PADDLE_TRY_STATUS(kernels::reserve_products(1));
  PADDLE_TRY(const Rows rows, Rows::open(snapshot, parameter));
  PADDLE_TRY(const Queries queries, read_queries(rows, ids, options.centered));
  Best best(queries, rows.width(), options.count);
  PADDLE_TRY_STATUS(rows.for_each(
      [&](std::uint64_t id, std::span<const float> values) { best.add(id, values); }));
  return best.finish();
}

}  // namespace paddle::inference
