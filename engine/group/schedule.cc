#include "engine/group/schedule.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"

namespace paddle::collective {
namespace {

constexpr auto kAllRanks = [] {
  std::array<std::uint32_t, kRanksMax> ranks{};
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}();

// The begin of slice `index`, in bytes. Cache lines are distributed evenly; the last line may be
// short.
std::size_t slice_begin(std::size_t bytes, std::uint32_t ranks, std::uint32_t index) {
  const std::size_t lines = (bytes + kSliceAlignment - 1) / kSliceAlignment;
  // Avoids the product lines * index, which could overflow.
  const std::size_t begin = lines / ranks * index + std::min<std::size_t>(lines % ranks, index);
  return std::min(bytes, begin * kSliceAlignment);
}

// Slice `index` of `count` slices of a range that begins at a cache line.
Range slice(const Range& all, std::uint32_t count, std::uint32_t index) {
  return {all.begin + slice_begin(all.size(), count, index),
          all.begin + slice_begin(all.size(), count, index + 1)};
}

// The part of a bucket that a rank sums for its host: the slice of its place.
Range slice_on_host(std::size_t bytes, const Hosts& hosts, std::uint32_t rank) {
  if (!hosts.is_owner(rank)) return {};
  return slice({0, bytes}, hosts.places(), hosts.place_of(rank));
}

// Whether two ranks exchange bytes at the pattern's level.
bool meet(const Shape& shape, std::uint32_t a, std::uint32_t b) {
  switch (shape.pattern) {
    case Pattern::kReduceOnHost:
    case Pattern::kGatherOnHost:
      return shape.hosts->host_of(a) == shape.hosts->host_of(b);
    case Pattern::kReduceBetween:
    case Pattern::kGatherBetween:
      return shape.hosts->place_of(a) == shape.hosts->place_of(b);
    default:
      return true;
  }
}

}  // namespace

Hosts::Hosts(std::span<const std::uint64_t> machines) {
  for (std::uint32_t rank = 0; rank < machines.size(); ++rank) {
    const auto first =
        static_cast<std::size_t>(std::ranges::find(machines, machines[rank]) - machines.begin());
    if (first == rank) ranks_.emplace_back();
    const std::uint32_t host = first == rank ? count() - 1 : seats_[first].host;
    seats_.push_back({host, static_cast<std::uint32_t>(ranks_[host].size())});
    ranks_[host].push_back(rank);
  }
  if (ranks_.empty()) return;
  const auto smallest =
      std::ranges::min_element(ranks_, {}, [](const auto& r) { return r.size(); });
  places_ = static_cast<std::uint32_t>(smallest->size());
  in_place_.resize(places_);
  for (const auto& ranks : ranks_) {
    for (std::uint32_t place = 0; place < places_; ++place) {
      in_place_[place].push_back(ranks[place]);
    }
  }
}

Range slice_of(std::size_t bytes, std::uint32_t ranks, std::uint32_t rank) {
  PADDLE_CHECK(rank < ranks);
  if (bytes <= whole_bytes_max(ranks)) return {0, bytes};
  return slice({0, bytes}, ranks, rank);
}

Range slice_of(std::size_t bytes, const Hosts& hosts, std::uint32_t rank) {
  return slice(slice_on_host(bytes, hosts, rank), hosts.count(), hosts.host_of(rank));
}

Range part_of(const Shape& shape, std::uint32_t rank) {
  switch (shape.pattern) {
    case Pattern::kReduceOnHost:
    case Pattern::kGatherOnHost:
      return slice_on_host(shape.bytes, *shape.hosts, rank);
    case Pattern::kReduceBetween:
    case Pattern::kGatherBetween:
      return slice_of(shape.bytes, *shape.hosts, rank);
    default:
      return slice_of(shape.bytes, shape.ranks, rank);
  }
}

std::span<const std::uint32_t> addends(const Shape& shape, std::uint32_t rank) {
  switch (shape.pattern) {
    case Pattern::kReduceOnHost:
      return shape.hosts->ranks(shape.hosts->host_of(rank));
    case Pattern::kReduceBetween:
      return shape.hosts->in_place(shape.hosts->place_of(rank));
    default:
      return std::span(kAllRanks).first(shape.ranks);
  }
}

Range range_sent(const Shape& shape, std::uint32_t from, std::uint32_t to) {
  PADDLE_CHECK(from < shape.ranks && to < shape.ranks && shape.root < shape.ranks);
  if (from == to || !meet(shape, from, to)) return {};
  switch (shape.pattern) {
    case Pattern::kReduce:
    case Pattern::kReduceOnHost:
    case Pattern::kReduceBetween:
      return part_of(shape, to);
    case Pattern::kGather:
    case Pattern::kGatherBetween:
    case Pattern::kGatherOnHost:
      // Every rank has all of a small bucket already.
      if (shape.bytes <= whole_bytes_max(shape.ranks)) return {};
      return part_of(shape, from);
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
