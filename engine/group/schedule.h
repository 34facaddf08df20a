// Ranges of a bucket that ranks send to each other, as pure functions: every rank computes the same
// schedule, so nothing about it is negotiated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace paddle::collective {

// Each pair of ranks has its own connection and memory; a larger group would need sums in two
// levels.
constexpr std::uint32_t kRanksMax = 1024;

// A longer range is sent in segments. A rank holds at most kWindowSegments of them for each peer
// until it has added them up, so memory is bounded whatever the bucket's size.
constexpr std::size_t kSegmentBytes = 256U << 10U;
constexpr std::size_t kWindowSegments = 2;
// Slices begin at multiples of a cache line, 16 floats.
constexpr std::size_t kSliceAlignment = 64;

// Every rank owns all of a bucket of at most this size, so that a sum takes one exchange instead of
// two; a rank sends less than 128 KiB in it.
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

// The ranks of a group by their machines, for sums in two levels: on each host first, then between
// hosts. Hosts are in the order of their first ranks, and ranks ascend on each of them.
class Hosts {
 public:
  // `machines`: the number of each rank's machine, by rank.
  explicit Hosts(std::span<const std::uint64_t> machines);

  std::uint32_t count() const { return static_cast<std::uint32_t>(ranks_.size()); }
  std::span<const std::uint32_t> ranks(std::uint32_t host) const { return ranks_[host]; }
  // The ranks in this place on all hosts, in the order of hosts. Empty if it is no owner's place.
  std::span<const std::uint32_t> in_place(std::uint32_t place) const {
    return place < places_ ? in_place_[place] : std::span<const std::uint32_t>();
  }
  std::uint32_t host_of(std::uint32_t rank) const { return seats_[rank].host; }
  // The index of a rank among the ranks of its host, from 0.
  std::uint32_t place_of(std::uint32_t rank) const { return seats_[rank].place; }
  // The number of ranks on the smallest host. Ranks in places below it own slices, the others none.
  std::uint32_t places() const { return places_; }
  bool is_owner(std::uint32_t rank) const { return place_of(rank) < places_; }
  // False on one host, or with one rank on each host, where two levels gain nothing.
  bool have_two_levels() const { return count() > 1 && count() < seats_.size(); }

 private:
  struct Seat {
    std::uint32_t host = 0;
    std::uint32_t place = 0;
  };
  std::vector<Seat> seats_;                           // by rank
  std::vector<std::vector<std::uint32_t>> ranks_;     // by host
  std::vector<std::vector<std::uint32_t>> in_place_;  // by place
  std::uint32_t places_ = 0;
};

// The part of a bucket that this rank sums and updates.
Range slice_of(std::size_t bytes, std::uint32_t ranks, std::uint32_t rank);
// The part in two levels, of a bucket above whole_bytes_max: the bucket has a slice for each place,
// which is divided among the ranks in that place on all hosts.
Range slice_of(std::size_t bytes, const Hosts& hosts, std::uint32_t rank);

// kReduce: slice k of every rank is sent to rank k, which sums them in the order of ranks. kGather:
// slice k of rank k is sent to every rank. kBroadcast: the root's bucket is sent to every rank.
// kExchange: the bucket has a block for every rank; block k of rank k is sent to every rank.
//
// In two levels a reduction is kReduceOnHost, in which the rank in place k sums slice k over its
// host, then kReduceBetween, in which the ranks in place k divide slice k among them and sum it
// over the hosts. A gathering is kGatherBetween, then kGatherOnHost: the same steps in the opposite
// direction.
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
  std::size_t bytes = 0;  // size of the bucket
  std::uint32_t ranks = 1;
  std::uint32_t root = 0;                        // kBroadcast
  std::shared_ptr<const Hosts> hosts = nullptr;  // for patterns in two levels
};

// The part of a bucket that a rank sums in a reduction, and sends to others in a gathering.
Range part_of(const Shape& shape, std::uint32_t rank);
// The ranks whose bytes are summed in that part, in the order of the sum.
std::span<const std::uint32_t> addends(const Shape& shape, std::uint32_t rank);
// The bytes of the bucket that one rank sends to another; none to itself.
Range range_sent(const Shape& shape, std::uint32_t from, std::uint32_t to);

// Segments of a range, in the order in which they are sent.
std::size_t segment_count(const Range& range, std::size_t segment_bytes);
Range segment_of(const Range& range, std::size_t index, std::size_t segment_bytes);
// The segment size for a bucket. A bucket of at most whole_bytes_max is one segment: ranks sum it
// only once they have sent all of it, so with several segments they would wait for room in each
// other's windows for ever.
constexpr std::size_t segment_bytes(const Shape& shape, std::size_t of_long_buckets) {
  const std::size_t whole = whole_bytes_max(shape.ranks);
  return shape.bytes <= whole ? whole : of_long_buckets;
}

}  // namespace paddle::collective
