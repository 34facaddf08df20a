// Places of a job's dense parameters in the arrays that the ranks of a group add up: one after the
// other, each at a cache line, divided into buckets. A pure function of the ParameterSet.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/group/schedule.h"
#include "proto/parameters.pb.h"

namespace paddle::strategy {

// The sum and the update of one bucket run while the next one is being sent, and fit in the cache.
constexpr std::uint64_t kBucketElements = (2ULL << 20U) / sizeof(float);

struct ElementRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - begin; }
};

class GroupLayout {
 public:
  // REQUIRES: the set is valid.
  GroupLayout(const wire::ParameterSet& set, std::uint32_t ranks);

  std::uint64_t elements() const { return elements_; }  // in an array, including the gaps
  std::size_t buckets() const;
  ElementRange bucket(std::size_t number) const;
  // The elements of a dense parameter, by its index in the set.
  ElementRange parameter(std::uint32_t index) const { return parameters_[index]; }
  // Indices of all dense parameters, in order.
  std::span<const std::uint32_t> dense() const { return dense_; }

  std::size_t bucket_bytes(std::size_t number) const;
  // The elements of a part of a bucket; the part is given in bytes.
  ElementRange part(std::size_t number, const collective::Range& bytes) const;
  // Whether the bucket is so small that every rank owns all of it.
  bool is_everyones(std::size_t number) const;

 private:
  std::uint32_t ranks_;
  std::uint64_t elements_ = 0;
  std::vector<ElementRange> parameters_;
  std::vector<std::uint32_t> dense_;
};

// The common part of two ranges; empty if they have none.
ElementRange overlap(ElementRange a, ElementRange b);

}  // namespace paddle::strategy
