#include "engine/collective/schedule.h"

#include <algorithm>

#include "base/check.h"

namespace paddle::collective {
namespace {

// The begin of slice `index`, in bytes: lines are dealt out evenly, and the last one may be short.
std::size_t slice_begin(std::size_t bytes, std::uint32_t ranks, std::uint32_t index) {
  const std::size_t lines = (bytes + kSliceAlignment - 1) / kSliceAlignment;
  // Without the product lines * index, which could overflow.
  const std::size_t begin = lines / ranks * index + std::min<std::size_t>(lines % ranks, index);
  return std::min(bytes, begin * kSliceAlignment);
}

}  // namespace

Range slice_of(std::size_t bytes, std::uint32_t ranks, std::uint32_t rank) {
  PADDLE_CHECK(rank < ranks);
  if (bytes <= kWholeBytesMax) return {0, bytes};
  return {slice_begin(bytes, ranks, rank), slice_begin(bytes, ranks, rank + 1)};
}

Range range_sent(const Shape& shape, std::uint32_t from, std::uint32_t to) {
  PADDLE_CHECK(from < shape.ranks && to < shape.ranks && shape.root < shape.ranks);
  if (from == to) return {};
  switch (shape.pattern) {
    case Pattern::kReduce:
      return slice_of(shape.bytes, shape.ranks, to);
    case Pattern::kGather:
      // Every rank has all of a small bucket already.
      if (shape.bytes <= kWholeBytesMax) return {};
      return slice_of(shape.bytes, shape.ranks, from);
    case Pattern::kBroadcast:
      return from == shape.root ? Range{0, shape.bytes} : Range{};
    case Pattern::kExchange: {
      const std::size_t block = shape.bytes / shape.ranks;
      return {block * from, block * (from + 1)};
    }
  }
  return {};
}

std::size_t segment_count(const Range& range, std::size_t segment_bytes) {
  return (range.size() + segment_bytes - 1) / segment_bytes;
}

Range segment_of(const Range& range, std::size_t index, std::size_t segment_bytes) {
  const std::size_t begin = range.begin + index * segment_bytes;
  PADDLE_CHECK(begin < range.end);
  return {begin, std::min(begin + segment_bytes, range.end)};
}

}  // namespace paddle::collective
