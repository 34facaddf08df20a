#include "engine/client/row_split.h"

#include <algorithm>

#include "engine/parameter/parameter_set.h"
#include "engine/parameter/partition.h"
#include "engine/parameter/row_notes.h"

namespace paddle::client {

bool stays_in_place(const RowFrame& frame) {
  constexpr std::size_t kPiecesMax = 64;
  std::size_t pieces = 0;
  for (const RowRange& range : frame.ranges) pieces += range.runs.size();
  return pieces <= kPiecesMax;
}

std::vector<std::vector<RowFrame>> split_rows(std::span<const SparseRows> tables,
                                              const wire::ParameterSet& set,
                                              std::uint64_t bytes_max) {
  const std::uint32_t shards = set.sparse_shards();
  std::vector<std::vector<RowFrame>> frames(shards);
  std::vector<std::uint64_t> bytes(shards, 0);
  for (auto& of_shard : frames) of_shard.emplace_back();
  for (std::uint32_t t = 0; t < tables.size(); ++t) {
    const auto& spec = set.parameters(static_cast<int>(tables[t].parameter));
    const std::uint64_t row_bytes =
        sizeof(std::uint64_t) +
        (parameter::row_width(spec) + parameter::RowNotes(spec.table()).size()) * sizeof(float);
    const auto add = [&](std::uint32_t shard, std::size_t i, std::size_t count) {
      auto& ranges = frames[shard].back().ranges;
      if (ranges.empty() || ranges.back().table != t) ranges.push_back({t, 0, {}});
      auto& runs = ranges.back().runs;
      if (runs.empty() || runs.back().begin + runs.back().count != i) runs.push_back({i, 0});
      runs.back().count += count;
      ranges.back().count += count;
      bytes[shard] += count * row_bytes;
    };
    const std::size_t ids = tables[t].ids.size();
    for (std::size_t i = 0; i < ids;) {
      const std::uint32_t shard =
          shards == 1 ? 0 : parameter::sparse_shard(tables[t].ids[i], shards);
      if (bytes[shard] > 0 && bytes[shard] + row_bytes > bytes_max) {
        frames[shard].emplace_back();
        bytes[shard] = 0;
      }
      const std::uint64_t left = bytes_max - std::min(bytes_max, bytes[shard]);
      // With one shard, as many as fit.
      const std::size_t count =
          shards > 1 ? 1 : std::clamp<std::uint64_t>(left / row_bytes, 1, ids - i);
      add(shard, i, count);
      i += count;
    }
  }
  return frames;
}

}  // namespace paddle::client
