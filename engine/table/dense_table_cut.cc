// Cuts of a dense table, and restoring it from them. A part is one piece after the other: u64
// offset, u64 elements, u64 updates, and the elements' values and state planes. A piece lies in one
// block.
#include <algorithm>

#include <fmt/format.h>

#include "engine/table/dense_table.h"

namespace paddle::table {
namespace {

constexpr std::size_t kPieceHeaderBytes = 3 * sizeof(std::uint64_t);

Error malformed_piece(std::string_view why) {
  return {Errc::kData, fmt::format("a part of a cut of dense values {}", why),
          "remove the damaged cut, so that the job goes on from the one before"};
}

}  // namespace

DenseTable::CutPart DenseTable::take_cut(std::uint64_t from, std::uint64_t bytes_max) const {
  const std::size_t element_bytes = (1 + state_width_) * sizeof(float);
  CutPart part{{}, from};
  std::uint64_t left = std::max<std::uint64_t>(bytes_max / element_bytes, 1);
  for (const Block& block : blocks_) {
    if (part.next >= block.offset + block.size) continue;
    if (left == 0) break;
    const std::uint64_t count = std::min(block.offset + block.size - part.next, left);
    const std::array<std::uint64_t, 3> header{part.next, count, block.update_count};
    append_bytes(part.bytes, std::span<const std::uint64_t>(header));
    for (std::uint32_t plane = 0; plane <= state_width_; ++plane) {
      append_bytes(part.bytes, *read(plane, part.next, count));
    }
    part.next += count;
    left -= count;
  }
  return part;
}

Status DenseTable::restore_cut(ByteSpan part) {
  while (!part.empty()) {
    if (part.size() < kPieceHeaderBytes) return malformed_piece("ends within a header");
    const auto offset = load_le<std::uint64_t>(part.data());
    const auto count = load_le<std::uint64_t>(part.data() + 8);
    const auto update_count = load_le<std::uint64_t>(part.data() + 16);
    part = part.subspan(kPieceHeaderBytes);
    const auto block = std::ranges::find_if(blocks_, [&](const Block& one) {
      return offset >= one.offset && offset - one.offset < one.size;
    });
    if (block == blocks_.end() || count > block->size - (offset - block->offset)) {
      return malformed_piece(
          fmt::format("has elements [{}, +{}), which are not in one block of "
                      "this shard",
                      offset, count));
    }
    const std::size_t plane_bytes = count * sizeof(float);
    if (part.size() < plane_bytes * (1 + state_width_)) return malformed_piece("ends too early");
    block->update_count = update_count;
    float* const state = state_of(*block).data();
    for (std::uint32_t plane = 0; plane <= state_width_ && count > 0; ++plane) {
      float* const to = plane == 0 ? values_.data() + offset
                                   : state + (plane - 1) * block->size + (offset - block->offset);
      std::memcpy(to, part.data(), plane_bytes);
      part = part.subspan(plane_bytes);
    }
  }
  return {};
}

}  // namespace paddle::table
