// The dense parameters of one rank of a group: the values of all of them, and the optimizer of the
// slices that the rank owns. All ranks make the same calls in the same order.
#pragma once

#include <memory>

#include "engine/client/batch_parameters.h"
#include "engine/collective/group.h"
#include "engine/strategy/collective/group_gradients.h"
#include "engine/strategy/collective/packed_buckets.h"
#include "engine/table/dense_table.h"

namespace paddle::strategy {

class DenseRanks {
 public:
  struct Options {
    std::uint64_t bytes_max = 1ULL << 40U;  // of values, gradients and optimizer state
    Parallel parallel = {};                 // helps with updates
    std::uint64_t floats_beside = 0;        // of an element, which the rank keeps elsewhere
    bool packs = false;                     // long buckets go as bf16
  };
  // The set is valid. It and the group outlive the parameters. kResource.
  static Result<std::unique_ptr<DenseRanks>> create(const wire::ParameterSet& set,
                                                    collective::Group& group, Options options);

  // Lends the values, and gives the gradients their places. kUsage: no such dense parameter.
  Status lend(std::span<client::DenseParameter> parameters);
  GroupGradients& gradients() { return gradients_; }
  // One update of the parameters by the weighted sum of all ranks' gradients. kFailed: a value or
  // its optimizer's state is no longer finite.
  Status update(std::span<const float> shares, float learning_rate);
  // Gives all ranks the owners' values in float32, where they have been rounded on their way, and
  // drops what roundings have left out: as if the parameters had just been loaded.
  Status settle();

  // Planes of a parameter as in table::DenseTable: 0 is the values, the others are the optimizer's
  // state. Gathers one on the root, where `into` has the parameter's size; elsewhere it is empty.
  Status gather(std::uint32_t root, std::uint32_t parameter, std::uint32_t plane,
                std::span<float> into);
  // Gives all ranks the root's, with the number of updates that led to it.
  Status spread(std::uint32_t root, std::uint32_t parameter, std::uint32_t plane,
                std::span<const float> from, std::uint64_t update_count);

  std::uint64_t update_count(std::uint32_t parameter) const { return update_counts_[parameter]; }
  std::span<const float> values(std::uint32_t parameter) const;
  std::uint32_t state_width() const { return state_width_; }
  const GroupLayout& layout() const { return gradients_.layout(); }

 private:
  // A range of one parameter in the rank's slice of a bucket; `offset` is its place in the table.
  struct Piece {
    std::uint32_t parameter = 0;
    ElementRange range;
    std::uint64_t offset = 0;
  };
  struct Bucket {
    ElementRange range;
    ElementRange slice;  // of this rank
    bool is_packed = false;
    std::vector<Piece> own;
    table::DenseTable table;
  };

  DenseRanks(const wire::ParameterSet& set, collective::Group& group)
      : set_(set), group_(group), gradients_(set, group.size()) {}
  Status check_memory(const Options& options) const;
  Result<Bucket> make_bucket(std::size_t number, const Options& options) const;
  std::span<float> part(LargeArray<float>& array, ElementRange range) {
    return std::span(array).subspan(range.begin, range.size());
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
  LargeArray<float> values_;
  GroupGradients gradients_;
  std::vector<Bucket> buckets_;
  PackedBuckets packed_;
  bool is_settled_ = true;                    // values_ are those of the owners' tables
  std::vector<std::uint64_t> update_counts_;  // by parameter
  std::vector<float> scratch_;                // of gather() and spread()
};

}  // namespace paddle::strategy
