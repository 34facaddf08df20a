// Ranges of a bucket that ranks send to each other, as pure functions: every rank computes the same
// schedule, so nothing about it is negotiated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/collective/hosts.h"

namespace paddle::collective {

// Each pair of ranks has a connection and memory of its own: beyond this, sums want two levels.
constexpr std::uint32_t kRanksMax = 1024;

// A longer range is sent in segments. A rank holds at most kWindowSegments of them for each peer
// until it has added them up, so memory is bounded whatever the bucket's size.
constexpr std::size_t kSegmentBytes = 256U << 10U;
constexpr std::size_t kWindowSegments = 2;
// Slices begin at multiples of a cache line, 16 floats.
constexpr std::size_t kSliceAlignment = 64;

// A bucket of at most this size belongs whole to every rank: one exchange instead of two, in which
// a rank sends less than 128 KiB.
constexpr std::size_t whole_bytes_max(std::uint32_t ranks) {
  return (128U << 10U) / std::max(ranks, 2U) / kSliceAlignment * kSliceAlignment;
}

struct Range {
  std::size_t begin = 0;  // bytes
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  friend bool operator==(const Range&, const Range&) = default;
};

// The part of a bucket whose sums, and whose optimizer, are this rank's.
Range slice_of(std::size_t bytes, std::uint32_t ranks, std::uint32_t rank);
// The same in two levels, of a bucket above whole_bytes_max: a slice for each place of a host,
// which the ranks in that place on all hosts share.
Range slice_of(std::size_t bytes, const Hosts& hosts, std::uint32_t rank);

// kReduce: slice k of every rank goes to rank k, which adds them up in the order of ranks.
// kGather: slice k of rank k goes to every rank. kBroadcast: all of the root's goes to every rank.
// kExchange: the bucket has a block for every rank; block k of rank k goes to every rank.
//
// In two levels a reduction is kReduceOnHost, by which the rank in place k gets its host's sum of
// slice k, and then kReduceBetween, by which ranks in one place share their slice; a gathering is
// kGatherBetween and then kGatherOnHost, the same ways back.
enum class Pattern : std::uint8_t {
  kReduce = 0,
  kGather = 1,
  kBroadcast = 2,
  kExchange = 3,
  kReduceOnHost = 4,
  kReduceBetween = 5,
  kGatherBetween = 6,
  kGatherOnHost = 7,
};
constexpr bool reduces(Pattern pattern) {
  return pattern == Pattern::kReduce || pattern == Pattern::kReduceOnHost ||
         pattern == Pattern::kReduceBetween;
}

struct Shape {
  Pattern pattern = Pattern::kReduce;
  std::size_t bytes = 0;  // of the bucket
  std::uint32_t ranks = 1;
  std::uint32_t root = 0;                        // kBroadcast
  std::shared_ptr<const Hosts> hosts = nullptr;  // of the patterns in two levels
};

// The part of a bucket that a rank adds up in a reduction, and gives to others in a gathering.
Range part_of(const Shape& shape, std::uint32_t rank);
// The ranks whose bytes are added up there, in the order of the sum.
std::span<const std::uint32_t> addends(const Shape& shape, std::uint32_t rank);
// The bytes of the bucket that one rank sends to another; none to itself.
Range range_sent(const Shape& shape, std::uint32_t from, std::uint32_t to);

// Segments of a range, in the order in which they are sent.
std::size_t segment_count(const Range& range, std::size_t segment_bytes);
Range segment_of(const Range& range, std::size_t index, std::size_t segment_bytes);
// A small bucket is always one segment: ranks that add it up only once they have sent all of it
// would wait for each other's windows.
constexpr std::size_t segment_bytes(const Shape& shape, std::size_t of_long_buckets) {
  const std::size_t whole = whole_bytes_max(shape.ranks);
  return shape.bytes <= whole ? whole : of_long_buckets;
}

}  // namespace paddle::collective
