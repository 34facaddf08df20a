#include "engine/strategy/collective/packed_buckets.h"

#include <algorithm>
#include <array>

namespace paddle::strategy {
namespace {

constexpr std::uint64_t kPartElements = 32U << 10U;  // of one thread

// A bucket without the own slice.
std::array<ElementRange, 2> others(ElementRange bucket, ElementRange own) {
  return {{{bucket.begin, own.begin}, {own.end, bucket.end}}};
}

}  // namespace

void PackedBuckets::allocate(std::uint64_t elements, Parallel parallel) {
  // The room between parameters is sent too.
  packed_.assign(elements, 0);
  residual_.assign(elements, 0.0F);
  parallel_ = std::move(parallel);
}

template <class Use>
void PackedBuckets::for_parts(ElementRange range, const Use& use) const {
  const auto part = [&](std::size_t number) {
    const std::uint64_t begin = range.begin + number * kPartElements;
    use(begin, std::min(kPartElements, range.end - begin));
  };
  const std::uint64_t parts = (range.size() + kPartElements - 1) / kPartElements;
  if (parallel_ && parts > 1) return parallel_(parts, part);
  for (std::uint64_t number = 0; number < parts; ++number) part(number);
}

std::span<kernels::Bf16> PackedBuckets::pack(ElementRange bucket, ElementRange own,
                                             std::span<const float> gradient, float weight) {
  for (const ElementRange& range : others(bucket, own)) {
    for_parts(range, [&](std::uint64_t begin, std::uint64_t count) {
      kernels::round_with_residual(count, gradient.data() + (begin - bucket.begin), weight,
                                   residual_.data() + begin, packed_.data() + begin);
    });
  }
  return this->bucket(bucket);
}

void PackedBuckets::pack_move(ElementRange range, std::span<const float> values,
                              std::span<float> copies) {
  for_parts(range, [&](std::uint64_t begin, std::uint64_t count) {
    const std::uint64_t at = begin - range.begin;
    kernels::round_move(count, values.data() + at, copies.data() + at, packed_.data() + begin);
  });
}

void PackedBuckets::apply_moves(ElementRange bucket, ElementRange own, std::span<float> copies) {
  for (const ElementRange& range : others(bucket, own)) {
    for_parts(range, [&](std::uint64_t begin, std::uint64_t count) {
      kernels::add_bf16(count, packed_.data() + begin, copies.data() + (begin - bucket.begin));
    });
  }
}

void PackedBuckets::forget() {
  std::ranges::fill(residual_, 0.0F);
}

}  // namespace paddle::strategy
