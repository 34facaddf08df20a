#include "engine/client/dense_layout.h"

#include <algorithm>
#include <array>

#include "engine/table/partition.h"

namespace paddle::client {
namespace {

// Calls use(piece, first element of the parameter, its position in the range, count) for every
// piece that overlaps [offset, offset + count).
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

DenseLayout dense_layout(const wire::ParameterSet& set) {
  DenseLayout layout;
  layout.pieces.resize(set.dense_shards());
  layout.sizes.resize(set.dense_shards());
  for (const parameter::DenseBlock& block : parameter::partition_dense(set)) {
    std::uint64_t& size = layout.sizes[block.shard];
    layout.pieces[block.shard].push_back({block.parameter, block.begin, block.size, size});
    size += block.size;
  }
  return layout;
}

bool is_undivided(const DenseLayout& layout) {
  return std::ranges::all_of(layout.pieces, [](const std::vector<DensePiece>& pieces) {
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
        if (parameter != nullptr && !parameter->gradients().empty()) {
          parts.push_back(bytes_of(parameter->gradients().subspan(element, left)));
          return;
        }
        for (std::uint64_t some = 0; left > 0; left -= some) {
          some = std::min<std::uint64_t>(left, kZeros.size());
          parts.push_back(bytes_of(std::span(kZeros).first(some)));
        }
      });
  return parts;
}

std::vector<std::span<const float>> gradients(std::span<const DensePiece> pieces,
                                              std::span<const DenseParameter* const> from) {
  std::vector<std::span<const float>> parts;
  for (const DensePiece& piece : pieces) {
    const DenseParameter* const parameter = from[piece.parameter];
    if (parameter == nullptr || parameter->gradients().empty()) return {};
    parts.push_back(parameter->gradients().subspan(piece.begin, piece.size));
  }
  return parts;
}

std::vector<std::span<std::byte>> destinations(std::span<const DensePiece> pieces,
                                               std::uint64_t offset, std::uint64_t count,
                                               std::span<DenseParameter* const> of) {
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

}  // namespace paddle::client
