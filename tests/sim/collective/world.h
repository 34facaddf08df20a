// Ranks of a group in virtual time: their cores, and between each two of them a link each way that
// keeps order, delays, holds few frames, and may break.
#pragma once

#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "base/rng.h"
#include "engine/group/group_core.h"

namespace paddle::sim {

using collective::GroupCore;

struct WorldOptions {
  std::uint64_t seed = 1;
  std::uint32_t ranks = 4;
  std::uint64_t steps = 2;
  std::size_t bucket_floats = 9000;
  std::uint32_t kills = 0;  // ranks that die at a random time
  std::uint32_t cuts = 0;   // pairs that hear nothing of each other any more
  double duplicate = 0;     // of each frame
  double stall = 0;         // of each step of a rank: it computes for long
  bool is_packed = false;   // buckets go as bf16
  // By rank: sums are made on each host first. None: in the order of ranks.
  std::vector<std::uint64_t> hosts = {};
  // This rank dies with the first segment that it sends so after its first step.
  std::uint32_t victim = ~std::uint32_t{0};
  collective::Pattern dies_in = collective::Pattern::kReduce;
};

struct RankOutcome {
  std::uint64_t steps = 0;  // those that ended with right sums
  bool has_wrong_sum = false;
  bool is_killed = false;
  bool has_left = false;
  std::optional<Error> failure = {};
  TimePoint failed_at{};
};

struct WorldOutcome {
  std::vector<RankOutcome> ranks;
  std::vector<std::vector<float>> buckets;  // of the last step, by rank
  std::set<std::uint32_t> faulty;           // killed, or cut off from somebody
  TimePoint first_fault{};
  std::uint64_t frames = 0;
  std::uint64_t segment_bytes = 0;
  std::uint64_t bytes_between_hosts = 0;  // of those
  std::uint64_t duplicates = 0;
  std::size_t held_max = 0;  // frames on a link
};

class World {
 public:
  explicit World(const WorldOptions& options);
  WorldOutcome run();
  bool has_levels() const;  // of sums

 private:
  struct Flying {
    TimePoint arrives{};
    Frame frame;
    bool is_end = false;
  };
  struct Link {
    std::deque<Flying> frames;
    bool is_blocked = false;  // the first frame is not wanted yet
    bool is_cut = false;
    bool has_ended = false;
  };
  enum class Stage { kFacts, kReduce, kGather, kLeave, kOver };
  struct Rank {
    std::unique_ptr<GroupCore> core;
    std::uint64_t step = 0;
    Stage stage = Stage::kOver;
    std::uint64_t operation = 0;
    std::vector<float> carried = {};
    std::vector<float> bucket = {};
    std::vector<kernels::Bf16> packed = {};
    std::vector<float> shares = {};
    bool is_alive = true;
    bool has_closed = false;
  };
  enum class What { kDeliver, kTick, kCompute, kKill, kCut };
  using Event = std::tuple<TimePoint, std::uint64_t, What, std::uint32_t, std::uint32_t>;

  Link& link(std::uint32_t from, std::uint32_t to) { return links_[from * options_.ranks + to]; }
  void at(TimePoint when, What what, std::uint32_t a, std::uint32_t b = 0);
  Duration delay();
  void pump(std::uint32_t from, std::uint32_t to);
  void pump(std::uint32_t from);
  void fly(std::uint32_t from, std::uint32_t to, Frame frame, bool is_end);
  void deliver(std::uint32_t from, std::uint32_t to);
  bool take_arrived(std::uint32_t from, std::uint32_t to);
  bool take_first(std::uint32_t from, std::uint32_t to);
  void settle(std::uint32_t rank);
  void begin_step(std::uint32_t rank);
  void advance(std::uint32_t rank);
  void post(std::uint32_t rank, collective::Operation operation);
  // The bucket's operation, whose elements the rank has packed where they go so.
  collective::Operation bucket_operation(Rank& rank, collective::Pattern pattern);
  std::uint32_t owner_of(std::size_t i) const;
  void post_bucket(std::uint32_t rank, collective::Pattern pattern);
  // Sum of an element of a rank's bucket or, with a salt, of what its step has carried.
  float sum_of(const Rank& rank, std::uint64_t salt, std::size_t i) const;
  void count(std::uint32_t from, std::uint32_t to, const GroupCore::Outgoing& out);
  void check_sum(std::uint32_t rank, std::span<const float> values, std::uint64_t salt);
  void tick(std::uint32_t rank);
  void close(std::uint32_t rank);

  WorldOptions options_;
  std::shared_ptr<const collective::Hosts> hosts_ = nullptr;  // null: one level
  Rng rng_;
  TimePoint now_{};
  std::uint64_t events_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  std::vector<Rank> ranks_;
  std::vector<Link> links_;
  WorldOutcome outcome_;
};

// Ranks on a few hosts, perhaps all on one.
std::vector<std::uint64_t> some_hosts(std::uint32_t ranks, Rng& rng);
// Rank's gradient; its samples in this step are rank + step.
float gradient(std::uint64_t step, std::uint64_t salt, std::uint32_t rank, std::size_t i);

}  // namespace paddle::sim
