#include "engine/client/dense_plan.h"

#include <algorithm>
#include <array>

#include "engine/parameter/parameter_set.h"
#include "engine/parameter/partition.h"
#include "engine/parameter/row_notes.h"

namespace paddle::client {
namespace {

// Calls use(piece, elements of the parameter, begin in the range) for every piece that [offset,
// offset + count) meets.
template <class Use>
void for_each_overlap(std::span<const DensePiece> pieces, std::uint64_t offset, std::uint64_t count,
                      Use&& use) {
  for (const DensePiece& piece : pieces) {
    const std::uint64_t begin = std::max(piece.offset, offset);
    const std::uint64_t end = std::min(piece.offset + piece.size, offset + count);
    if (begin >= end) continue;
    use(piece, piece.begin + (begin - piece.offset), begin - offset, end - begin);
  }
}

}  // namespace

DensePlan plan_dense(const wire::ParameterSet& set) {
  DensePlan plan;
  plan.pieces.resize(set.dense_shards());
  plan.sizes.resize(set.dense_shards());
  for (const parameter::DenseBlock& block : parameter::partition_dense(set)) {
    std::uint64_t& size = plan.sizes[block.shard];
    plan.pieces[block.shard].push_back({block.parameter, block.begin, block.size, size});
    size += block.size;
  }
  return plan;
}

bool is_undivided(const DensePlan& plan) {
  return std::ranges::all_of(plan.pieces, [](const std::vector<DensePiece>& pieces) {
    DensePiece before;
    return std::ranges::all_of(pieces, [&before](const DensePiece& piece) {
      const bool goes_on = before.size > 0 && before.parameter == piece.parameter;
      const bool follows = piece.begin == (goes_on ? before.begin + before.size : 0);
      before = piece;
      return follows;
    });
  });
}

void lend(std::span<const DensePiece> pieces, std::span<const float> values,
          std::span<DenseParameter* const> to) {
  for (const DensePiece& piece : pieces) {
    DenseParameter* const parameter = to[piece.parameter];
    if (parameter == nullptr || piece.begin != 0) continue;
    parameter->lent = values.subspan(piece.offset, parameter->value.size());
  }
}

std::vector<ByteSpan> gather(std::span<const DensePiece> pieces,
                             std::span<const DenseParameter* const> from, std::uint64_t offset,
                             std::uint64_t count) {
  static constexpr std::array<float, 4096> kZeros{};
  std::vector<ByteSpan> parts;
  for_each_overlap(
      pieces, offset, count,
      [&](const DensePiece& piece, std::uint64_t element, std::uint64_t, std::uint64_t left) {
        const DenseParameter* const parameter = from[piece.parameter];
        if (parameter != nullptr && !parameter->gradient.empty()) {
          parts.push_back(bytes_of(std::span(parameter->gradient).subspan(element, left)));
          return;
        }
        for (std::uint64_t some = 0; left > 0; left -= some) {
          some = std::min<std::uint64_t>(left, kZeros.size());
          parts.push_back(bytes_of(std::span(kZeros).first(some)));
        }
      });
  return parts;
}

std::vector<std::span<std::byte>> places(std::span<const DensePiece> pieces, std::uint64_t offset,
                                         std::uint64_t count, std::span<DenseParameter* const> of) {
  std::vector<std::span<std::byte>> parts;
  bool is_whole = true;
  for_each_overlap(
      pieces, offset, count,
      [&](const DensePiece& piece, std::uint64_t element, std::uint64_t, std::uint64_t some) {
        DenseParameter* const parameter = of[piece.parameter];
        is_whole = is_whole && parameter != nullptr;
        if (!is_whole) return;
        const auto values = std::span(parameter->value).subspan(element, some);
        parts.push_back({reinterpret_cast<std::byte*>(values.data()), values.size_bytes()});
      });
  return is_whole ? parts : std::vector<std::span<std::byte>>();
}

void scatter(std::span<const DensePiece> pieces, std::span<const float> from, std::uint64_t offset,
             std::span<DenseParameter* const> to) {
  for_each_overlap(
      pieces, offset, from.size(),
      [&](const DensePiece& piece, std::uint64_t element, std::uint64_t at, std::uint64_t count) {
        DenseParameter* const parameter = to[piece.parameter];
        if (parameter != nullptr) {
          std::copy_n(from.data() + at, count, parameter->value.data() + element);
        }
      });
}

bool stays_in_place(const RowFrame& frame) {
  constexpr std::size_t kPiecesMax = 64;
  std::size_t pieces = 0;
  for (const RowRange& range : frame.ranges) pieces += range.runs.size();
  return pieces <= kPiecesMax;
}

std::vector<std::vector<RowFrame>> plan_rows(std::span<const SparseRows> tables,
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
