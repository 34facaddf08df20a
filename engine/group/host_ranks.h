// Dense parameters of a rank in memory of the host. A rank owns slices, which it alone updates; the
// other ranks receive their values.
#pragma once

#include <memory>

#include "base/pool.h"
#include "engine/group/dense_ranks.h"
#include "engine/group/group.h"
#include "engine/group/group_gradients.h"
#include "engine/group/group_layout.h"
#include "engine/math/huge_pages.h"
#include "engine/math/rank_sums.h"
#include "engine/table/dense_table.h"

namespace paddle::strategy {

// Buckets of one rank as bf16, the form in which they are sent between ranks, with the residuals of
// the roundings.
//
// A gradient that was sent leaves a residual, which is added to the next gradient. Values need
// none: each rank trains with copies that differ from their owners' values by one rounding of a
// move, and the owner's next move starts from the copies.
class PackedBuckets {
 public:
  // Floats per element: the residual, and the half of a float that is sent, rounded up.
  static constexpr std::uint64_t kFloatsOfElement = 2;

  void allocate(std::uint64_t elements, Parallel parallel);

  // Rounds the weighted gradient of the bucket, to be sent to the owners of its other slices.
  std::span<kernels::Bf16> pack(ElementRange bucket, ElementRange own,
                                std::span<const float> gradient, float weight);
  // Rounds the moves from an owner's copies to its values, to be sent, and moves the copies by
  // them.
  void pack_move(ElementRange range, std::span<const float> values, std::span<float> copies);
  std::span<kernels::Bf16> bucket(ElementRange range) {
    return std::span(packed_).subspan(range.begin, range.size());
  }
  // Moves the copies of the other slices by the moves that were received.
  void apply_moves(ElementRange bucket, ElementRange own, std::span<float> copies);
  // Drops all residuals.
  void forget();

 private:
  // Calls use(begin, count) for parts of a range.
  template <class Use>
  void for_parts(ElementRange range, const Use& use) const;

  LargeArray<kernels::Bf16> packed_;
  LargeArray<float> residual_;
  Parallel parallel_;
};

class HostRanks final : public DenseRanks {
 public:
  struct Options {
    std::uint64_t bytes_max = 1ULL << 40U;  // for values, gradients and optimizer state
    Parallel parallel = {};                 // helps with updates
    std::uint64_t floats_beside = 0;        // per element, which the rank stores elsewhere
    bool packs = false;                     // whether long buckets are sent as bf16
  };
  // REQUIRES: the set is valid. The set and the group outlive the parameters. kResource.
  static Result<std::unique_ptr<HostRanks>> create(const wire::ParameterSet& set,
                                                   collective::Group& group, Options options);

  Status lend(std::span<client::DenseParameter> parameters) override;
  Result<std::string> take(std::span<client::DenseParameter> parameters) override {
    return gradients_.take(parameters);
  }
  std::span<float> carried() override { return gradients_.carried(); }
  Status update(std::span<const float> shares, float learning_rate) override;
  Status settle() override;

  Status gather(std::uint32_t root, std::uint32_t parameter, std::uint32_t plane,
                std::span<float> into) override;
  Status spread(std::uint32_t root, std::uint32_t parameter, std::uint32_t plane,
                std::span<const float> from, std::uint64_t update_count) override;

  std::uint64_t part_floats() const override;
  Status read_part(const Put& put) override;
  Status restore_parts(const Take& take, std::span<const std::uint64_t> update_counts) override;
  bool is_settled() const override { return is_settled_; }

  std::uint64_t update_count(std::uint32_t parameter) const override {
    return update_counts_[parameter];
  }
  std::span<const float> values(std::uint32_t parameter) const;
  std::uint32_t state_width() const override { return state_width_; }
  const GroupLayout& layout() const override { return gradients_.layout(); }

 private:
  // A range of one parameter in the rank's slice of a bucket. `offset` is its place in
  // Bucket::table.
  struct Piece {
    std::uint32_t parameter = 0;
    ElementRange range;
    std::uint64_t offset = 0;
  };
  struct Bucket {
    ElementRange range;
    ElementRange slice;  // owned by this rank
    bool is_packed = false;
    std::vector<Piece> own;
    table::DenseTable table;
  };

  HostRanks(const wire::ParameterSet& set, collective::Group& group)
      : set_(set), group_(group), gradients_(set, group.size()) {}
  Status check_memory(const Options& options) const;
  Result<Bucket> make_bucket(std::size_t number, const Options& options) const;
  // A part of the values.
  std::span<float> part(ElementRange range) {
    return values_.floats().subspan(range.begin, range.size());
  }
  // The elements of a bucket that a rank owns.
  ElementRange slice(std::size_t bucket, std::uint32_t rank) const {
    return layout().part(bucket, group_.slice(layout().bucket_bytes(bucket), rank));
  }
  Status apply(Bucket& bucket, float learning_rate);
  void copy_own_values(Bucket& bucket);
  collective::Pending post_gather(Bucket& bucket);
  Status finish_gathers(std::vector<collective::Pending>& gathers);

  const wire::ParameterSet& set_;
  collective::Group& group_;
  std::uint32_t state_width_ = 0;
  collective::BucketMemory values_;
  GroupGradients gradients_;
  std::vector<Bucket> buckets_;
  PackedBuckets packed_;
  bool is_settled_ = true;                    // values_ equal the values in the owners' tables
  std::vector<std::uint64_t> update_counts_;  // by parameter
  std::vector<float> scratch_;                // for gather() and spread()
};

}  // namespace paddle::strategy
