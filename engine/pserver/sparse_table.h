// One sparse table's rows on one shard: found by id through open addressing, value and optimizer
// state side by side in an arena that never moves. Only rows that are named are ever touched.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/base/result.h"
#include "proto/parameters.pb.h"

namespace paddle::pserver {

class SparseTable {
 public:
  static constexpr std::uint64_t kRowsMax = (1ULL << 32U) - 2;

  // The set is valid and parameter `index` in it is sparse.
  SparseTable(const wire::ParameterSet& set, std::uint32_t index);

  std::uint64_t width() const { return width_; }
  std::uint32_t state_width() const { return state_width_; }
  std::uint64_t rows() const { return ids_.size(); }
  std::uint64_t bytes_per_row() const { return row_floats_ * sizeof(float) + kRowOverheadBytes; }

  // The row's value, or what it will be initialised to: reading creates nothing, so that a test
  // pass or the order of readers leaves no trace. to.size() == width.
  void read(std::uint64_t id, std::span<float> to) const;
  // One update; the first one creates the row. Does nothing to a static table. gradient.size() ==
  // width.
  void apply(const wire::ParameterSet& set, std::uint64_t id, std::span<const float> gradient);
  // Replaces or creates a row from a snapshot. state.size() == state_width * width.
  void put(std::uint64_t id, std::uint64_t update_count, std::span<const float> value,
           std::span<const float> state);

  struct Row {
    std::uint64_t id = 0;
    std::uint64_t update_count = 0;
    std::span<const float> value;
    std::span<const float> state;
  };
  Row row(std::uint32_t number) const;
  // Row numbers ordered by (virtual shard, id).
  std::vector<std::uint32_t> export_order() const;

 private:
  static constexpr std::uint64_t kRowsPerChunk = 1024;
  static constexpr std::uint64_t kRowOverheadBytes = 24;  // id, update count, slots
  static constexpr std::uint32_t kEmpty = 0;              // a slot holds row number + 1

  float* row_data(std::uint32_t number) const;
  // Slot of the id, or of the hole where it belongs.
  std::size_t find_slot(std::uint64_t id) const;
  std::uint32_t find_or_create(std::uint64_t id);
  void grow();

  wire::ParameterSpec spec_;
  std::uint64_t seed_;
  std::uint64_t width_;
  std::uint32_t state_width_;
  std::uint64_t row_floats_;
  std::vector<std::uint64_t> ids_;  // by row number
  std::vector<std::uint64_t> update_counts_;
  std::vector<std::unique_ptr<float[]>> chunks_;
  std::vector<std::uint32_t> slots_;  // a power of two, at most 3/4 full
};

}  // namespace paddle::pserver
