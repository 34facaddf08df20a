// Buckets of one rank as bf16, the form in which they go between ranks, with the residuals that
// roundings have left out.
//
// A gradient that was sent leaves a residual, which goes with the next one. Values need none: each
// rank trains with copies that differ from their owners' values by one rounding of a move, and the
// owner's next move begins from there.
#pragma once

#include "base/pool.h"
#include "engine/kernels/rank_sums.h"
#include "engine/memory/huge_pages.h"
#include "engine/strategy/collective/group_layout.h"

namespace paddle::strategy {

class PackedBuckets {
 public:
  // Of an element: the residual, and the half of a float that is sent.
  static constexpr std::uint64_t kFloatsOfElement = 2;

  void allocate(std::uint64_t elements, Parallel parallel);

  // The weighted gradient of the bucket for the owners of its other slices, to be sent.
  std::span<kernels::Bf16> pack(ElementRange bucket, ElementRange own,
                                std::span<const float> gradient, float weight);
  // The way from an owner's copies to its values, to be sent; the copies go there.
  void pack_move(ElementRange range, std::span<const float> values, std::span<float> copies);
  std::span<kernels::Bf16> bucket(ElementRange range) {
    return std::span(packed_).subspan(range.begin, range.size());
  }
  // Moves the copies of the other slices by what has come for them.
  void apply_moves(ElementRange bucket, ElementRange own, std::span<float> copies);
  // Drops all residuals.
  void forget();

 private:
  // use(begin, count) for parts of a range.
  template <class Use>
  void for_parts(ElementRange range, const Use& use) const;

  LargeArray<kernels::Bf16> packed_;
  LargeArray<float> residual_;
  Parallel parallel_;
};

}  // namespace paddle::strategy
