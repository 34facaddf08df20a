// Places of a job's dense parameters in the arrays that the ranks of a group add up: one after the
// other, each at a cache line, cut into buckets. A pure function of the ParameterSet.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/collective/schedule.h"
#include "proto/parameters.pb.h"

namespace paddle::strategy {

// Sums and updates of one bucket go on while the next one is on its way, and stay in the cache.
constexpr std::uint64_t kBucketElements = (2ULL << 20U) / sizeof(float);

struct ElementRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - begin; }
};

class GroupLayout {
 public:
  // The set is valid.
  GroupLayout(const wire::ParameterSet& set, std::uint32_t ranks);

  std::uint64_t elements() const { return elements_; }  // of an array, with the gaps
  std::size_t buckets() const;
  ElementRange bucket(std::size_t number) const;
  // The elements of a dense parameter, by its index in the set.
  ElementRange parameter(std::uint32_t index) const { return parameters_[index]; }
  // Indices of all dense parameters, in order.
  std::span<const std::uint32_t> dense() const { return dense_; }

  std::size_t bucket_bytes(std::size_t number) const;
  // The elements of a part of a bucket, which is in bytes.
  ElementRange part(std::size_t number, const collective::Range& bytes) const;
  // A small bucket is owned by every rank, whole.
  bool is_everyones(std::size_t number) const;

 private:
  std::uint32_t ranks_;
  std::uint64_t elements_ = 0;
  std::vector<ElementRange> parameters_;
  std::vector<std::uint32_t> dense_;
};

// Where two ranges overlap; empty where they do not.
ElementRange overlap(ElementRange a, ElementRange b);

}  // namespace paddle::strategy
