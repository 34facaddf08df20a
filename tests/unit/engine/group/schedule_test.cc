// Every rank's schedule at once, in a world of bounded buffers and any order of events: it ends,
// every element is added once, in the order of ranks, and every rank gets what the pattern says.
#include "engine/group/schedule.h"

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace paddle::collective {
namespace {

constexpr std::uint32_t kRanksTested = 17;
constexpr std::size_t kChannelSegments = 1;  // in flight between two ranks

// One bucket that all ranks work on, one pattern after the other. Elements are cache lines here:
// element i of rank r is the list {r}, and sums are lists, so that order and repetition show.
class World {
 public:
  using Element = std::vector<std::uint32_t>;

  World(std::vector<Shape> shapes, std::size_t segment_bytes, std::uint64_t seed)
      : shapes_(std::move(shapes)), segment_bytes_(segment_bytes), rng_(seed) {
    const Shape& first = shapes_.front();
    for (std::uint32_t rank = 0; rank < first.ranks; ++rank) {
      ranks_.push_back({});
      ranks_.back().bucket.assign(lines(first.bytes), Element{rank});
      ranks_.back().sent.assign(first.ranks, 0);
      ranks_.back().received.assign(first.ranks, 0);
      ranks_.back().windows.resize(first.ranks);
    }
  }

  // False: nobody can go on, yet somebody is not done.
  bool run() {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
    const auto count = static_cast<std::uint32_t>(ranks_.size());
    for (std::uint32_t a = 0; a < count; ++a) {
      for (std::uint32_t b = 0; b < count; ++b) pairs.emplace_back(a, b);
    }
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (std::size_t i = pairs.size(); i > 1; --i) std::swap(pairs[i - 1], pairs[rng_.below(i)]);
      for (const auto& [a, b] : pairs) goes_on = send(a, b) || receive(a, b) || goes_on;
      for (std::uint32_t rank = 0; rank < count; ++rank) goes_on = work(rank) || goes_on;
    }
    return std::ranges::all_of(ranks_,
                               [&](const Rank& rank) { return rank.operation == shapes_.size(); });
  }
  const std::vector<Element>& bucket(std::uint32_t rank) const { return ranks_[rank].bucket; }

  static constexpr std::size_t kElementBytes = kSliceAlignment;
  static std::size_t lines(std::size_t bytes) {
    return (bytes + kElementBytes - 1) / kElementBytes;
  }

 private:
  struct Message {
    std::size_t operation;
    Range range;
    std::vector<Element> elements;
  };
  struct Rank {
    std::vector<Element> bucket;
    std::size_t operation = 0;
    std::vector<std::size_t> sent, received;  // segments of this operation, by peer
    std::size_t added = 0;                    // segments
    std::vector<std::deque<Message>> windows;
  };

  Shape shape(const Rank& rank) const { return shapes_[rank.operation]; }
  std::size_t segment(const Rank& rank) const { return segment_bytes(shape(rank), segment_bytes_); }
  std::vector<Element> elements(const Rank& rank, const Range& range) const {
    const auto begin = rank.bucket.begin();
    return {begin + static_cast<std::ptrdiff_t>(range.begin / kElementBytes),
            begin + static_cast<std::ptrdiff_t>(lines(range.end))};
  }

  bool send(std::uint32_t from, std::uint32_t to) {
    Rank& rank = ranks_[from];
    if (rank.operation == shapes_.size()) return false;
    const Range all = range_sent(shape(rank), from, to);
    auto& channel = channels_[{from, to}];
    std::size_t& sent = rank.sent[to];
    if (sent == segment_count(all, segment(rank)) || channel.size() == kChannelSegments) {
      return false;
    }
    const Range range = segment_of(all, sent, segment(rank));
    ++sent;
    channel.push_back({rank.operation, range, elements(rank, range)});
    return true;
  }

  bool receive(std::uint32_t from, std::uint32_t to) {
    Rank& rank = ranks_[to];
    auto& channel = channels_[{from, to}];
    if (channel.empty() || channel.front().operation != rank.operation) return false;
    auto& window = rank.windows[from];
    const bool is_reduction = reduces(shape(rank).pattern);
    if (is_reduction && window.size() == kWindowSegments) return false;
    Message message = std::move(channel.front());
    channel.pop_front();
    const Range all = range_sent(shape(rank), from, to);
    EXPECT_EQ(message.range, segment_of(all, rank.received[from]++, segment(rank)));
    if (is_reduction) {
      window.push_back(std::move(message));
    } else {
      std::ranges::copy(
          message.elements,
          rank.bucket.begin() + static_cast<std::ptrdiff_t>(message.range.begin / kElementBytes));
    }
    return true;
  }

  // Adds a segment that is there from every rank, and ends the operation when all is done.
  bool work(std::uint32_t self) {
    Rank& rank = ranks_[self];
    if (rank.operation == shapes_.size()) return false;
    const Shape now = shape(rank);
    const auto count = static_cast<std::uint32_t>(ranks_.size());
    bool is_sent = true;
    bool is_received = true;
    for (std::uint32_t peer = 0; peer < count; ++peer) {
      const auto left = [&](std::uint32_t from, std::uint32_t to, std::size_t done) {
        return done < segment_count(range_sent(now, from, to), segment(rank));
      };
      is_sent = is_sent && !left(self, peer, rank.sent[peer]);
      is_received = is_received && !left(peer, self, rank.received[peer]);
    }
    const Range slice = part_of(now, self);
    if (reduces(now.pattern) && count > 1 && rank.added < segment_count(slice, segment(rank))) {
      // A whole bucket's own part is sent to the others: it is summed once it has left.
      if (now.bytes <= whole_bytes_max(now.ranks) && !is_sent) return false;
      for (const std::uint32_t peer : addends(now, self)) {
        if (peer != self && rank.windows[peer].empty()) return false;
      }
      add(self, segment_of(slice, rank.added++, segment(rank)));
      return true;
    }
    if (!is_sent || !is_received) return false;
    ++rank.operation;
    rank.added = 0;
    rank.sent.assign(count, 0);
    rank.received.assign(count, 0);
    return true;
  }

  void add(std::uint32_t self, const Range& range) {
    Rank& rank = ranks_[self];
    std::vector<Element> sum(elements(rank, range).size());
    for (const std::uint32_t peer : addends(shape(rank), self)) {
      auto part = elements(rank, range);
      if (peer != self) {
        ASSERT_EQ(rank.windows[peer].front().range, range);
        part = std::move(rank.windows[peer].front().elements);
        rank.windows[peer].pop_front();
      }
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i].insert(sum[i].end(), part[i].begin(), part[i].end());
      }
    }
    std::ranges::copy(
        sum, rank.bucket.begin() + static_cast<std::ptrdiff_t>(range.begin / kElementBytes));
  }

  std::vector<Shape> shapes_;
  std::size_t segment_bytes_;
  Rng rng_;
  std::vector<Rank> ranks_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<Message>> channels_;
};

// Sizes around a multiple of the ranks, whole and sliced.
std::vector<std::size_t> sizes(std::uint32_t ranks) {
  const std::size_t some = 4 * std::size_t{ranks};
  const std::size_t whole = whole_bytes_max(ranks);
  return {0, 4, some - 4, some + 4, whole, whole + 4, whole + 64 * std::size_t{ranks} + 12};
}

TEST(Schedule, SlicesCoverABucketOnceAndBeginAtCacheLines) {
  for (std::uint32_t ranks = 1; ranks <= kRanksTested; ++ranks) {
    for (const std::size_t bytes :
         {whole_bytes_max(ranks) + 1, whole_bytes_max(ranks) + 4, std::size_t{1} << 26}) {
      std::size_t end = 0;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const Range slice = slice_of(bytes, ranks, rank);
        EXPECT_EQ(slice.begin, end);
        EXPECT_EQ(slice.begin % kSliceAlignment, 0U);
        EXPECT_LE(slice.size(), bytes / ranks + kSliceAlignment);
        end = slice.end;
      }
      EXPECT_EQ(end, bytes);
    }
  }
}

TEST(Schedule, ASmallBucketBelongsToEveryRank) {
  EXPECT_EQ(whole_bytes_max(2), 64U << 10U);
  EXPECT_EQ(whole_bytes_max(4), 32U << 10U);
  for (const std::uint32_t ranks : {1U, 2U, 5U, 64U}) {
    const std::size_t whole = whole_bytes_max(ranks);
    EXPECT_EQ(slice_of(whole, ranks, ranks - 1), (Range{0, whole}));
    EXPECT_TRUE(range_sent({Pattern::kGather, whole, ranks}, 0, ranks - 1).empty());
    if (ranks > 1) {
      EXPECT_LT(slice_of(whole + 4, ranks, ranks - 1).size(), whole);
    }
  }
}

TEST(Schedule, Trap11And13EveryElementIsAddedOnceInTheOrderOfRanks) {
  for (std::uint32_t ranks = 1; ranks <= kRanksTested; ++ranks) {
    World::Element all(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) all[rank] = rank;
    for (const std::size_t bytes : sizes(ranks)) {
      World world({{Pattern::kReduce, bytes, ranks}, {Pattern::kGather, bytes, ranks}}, 4096,
                  ranks * 7919 + bytes);
      ASSERT_TRUE(world.run()) << ranks << " ranks wait for each other over " << bytes << " bytes";
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(std::ranges::count(world.bucket(rank), all),
                  static_cast<std::ptrdiff_t>(World::lines(bytes)))
            << bytes << " bytes on rank " << rank << " of " << ranks;
      }
    }
  }
}

TEST(Schedule, Trap12LongBucketsDoNotDeadlockWithOneSegmentInFlight) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const auto ranks = static_cast<std::uint32_t>(2 + seed % 5);
    const std::size_t bytes = whole_bytes_max(ranks) + 5000 * seed + 4 * (seed % 3);
    World world({{Pattern::kReduce, bytes, ranks},
                 {Pattern::kReduce, bytes, ranks},
                 {Pattern::kGather, bytes, ranks},
                 {Pattern::kGather, bytes, ranks}},
                1024, seed);
    EXPECT_TRUE(world.run()) << "seed " << seed;
  }
}

TEST(Schedule, ABroadcastBringsTheRootsBucketToAll) {
  for (std::uint32_t ranks = 1; ranks <= kRanksTested; ++ranks) {
    const std::uint32_t root = ranks / 2;
    World world({{Pattern::kBroadcast, 10'000, ranks, root}}, 1024, ranks);
    ASSERT_TRUE(world.run());
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(std::ranges::count(world.bucket(rank), World::Element{root}),
                static_cast<std::ptrdiff_t>(World::lines(10'000)));
    }
  }
}

TEST(Schedule, AnExchangeBringsEveryBlockToAll) {
  for (std::uint32_t ranks = 1; ranks <= kRanksTested; ++ranks) {
    World world({{Pattern::kExchange, 640 * std::size_t{ranks}, ranks}}, 256, ranks);
    ASSERT_TRUE(world.run());
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::uint32_t block = 0; block < ranks; ++block) {
        EXPECT_EQ(std::ranges::count(world.bucket(rank), World::Element{block}), 10);
      }
    }
  }
}

// Machines of so many ranks, alike and unlike.
std::vector<std::vector<std::uint64_t>> splits(std::uint32_t ranks) {
  std::vector<std::vector<std::uint64_t>> all(6, std::vector<std::uint64_t>(ranks));
  Rng rng(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    all[1][rank] = rank;                // one on each
    all[2][rank] = rank / 2;            // pairs, and perhaps one alone
    all[3][rank] = rank % 3;            // round and round
    all[4][rank] = 7 * (rank * 3 / 5);  // ones and twos
    all[5][rank] = rng.below(4);
  }
  return all;
}

std::vector<Shape> all_levels(std::size_t bytes, std::uint32_t ranks,
                              const std::shared_ptr<const Hosts>& hosts) {
  std::vector<Shape> shapes;
  for (const Pattern pattern : {Pattern::kReduceOnHost, Pattern::kReduceBetween,
                                Pattern::kGatherBetween, Pattern::kGatherOnHost}) {
    shapes.push_back({.pattern = pattern, .bytes = bytes, .ranks = ranks, .hosts = hosts});
  }
  return shapes;
}

TEST(Schedule, InTwoLevelsEveryElementIsAddedOnceInTheOrderOfHostsAndRanks) {
  for (std::uint32_t ranks = 1; ranks <= kRanksTested; ++ranks) {
    for (const auto& machines : splits(ranks)) {
      const auto hosts = std::make_shared<const Hosts>(machines);
      World::Element all;
      for (std::uint32_t host = 0; host < hosts->count(); ++host) {
        all.insert(all.end(), hosts->ranks(host).begin(), hosts->ranks(host).end());
      }
      ASSERT_EQ(all.size(), ranks);
      for (const std::size_t bytes :
           {whole_bytes_max(ranks) + 4, whole_bytes_max(ranks) + 64 * std::size_t{ranks} + 12}) {
        World world(all_levels(bytes, ranks, hosts), 1024, ranks * 7919 + bytes);
        ASSERT_TRUE(world.run()) << ranks << " ranks on " << hosts->count() << " hosts wait";
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          EXPECT_EQ(std::ranges::count(world.bucket(rank), all),
                    static_cast<std::ptrdiff_t>(World::lines(bytes)))
              << bytes << " bytes on rank " << rank << " of " << ranks;
        }
      }
    }
  }
}

TEST(Schedule, InTwoLevelsTheFirstRanksOfEachHostOwnAllOfABucket) {
  constexpr std::size_t kBytes = 1'000'004;
  const Hosts hosts(std::vector<std::uint64_t>{9, 4, 9, 9, 4});
  EXPECT_TRUE(hosts.have_two_levels());
  EXPECT_EQ(hosts.places(), 2U);
  std::size_t end = 0;
  for (const std::uint32_t owner : {0, 1, 2, 4}) {
    const Range slice = slice_of(kBytes, hosts, owner);
    EXPECT_EQ(slice.begin, end);
    EXPECT_EQ(slice.begin % kSliceAlignment, 0U);
    EXPECT_NEAR(static_cast<double>(slice.size()), kBytes / 4, 2 * kSliceAlignment);
    end = slice.end;
  }
  EXPECT_EQ(end, kBytes);
  EXPECT_TRUE(slice_of(kBytes, hosts, 3).empty());
}

TEST(Schedule, OneHostAndOneRankOnEachHaveOneLevel) {
  EXPECT_FALSE(Hosts(std::vector<std::uint64_t>{1, 1, 1}).have_two_levels());
  EXPECT_FALSE(Hosts(std::vector<std::uint64_t>{1, 2, 3}).have_two_levels());
  EXPECT_TRUE(Hosts(std::vector<std::uint64_t>{1, 2, 1}).have_two_levels());
}

}  // namespace
}  // namespace paddle::collective
