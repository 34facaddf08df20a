// Streams of a fake device: orders that wait to run, in the order that a seed chooses.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "tests/support/device/fake_orders.h"

namespace paddle::test {

struct FakeStream {
  std::deque<Order> orders;
  std::uint64_t last_given = 0;
  bool is_stuck = false;    // by an order that never ends
  bool is_waiting = false;  // for another card, when last tried
};

// Seeds of legal orders; any other draws one. By kLate an order runs when it is waited for, as late
// as it may, and nothing else does; by kAtOnce when it is given; by kNewestFirst the next one is of
// the stream that was last given an order.
constexpr std::uint64_t kLate = 0;
constexpr std::uint64_t kAtOnce = 1;
constexpr std::uint64_t kNewestFirst = 2;

class FakeStreams {
 public:
  // Outcome of an order.
  enum class Ran { kDone, kNotYet, kNeverEnds, kBroke };
  FakeStreams(std::uint64_t seed, std::function<Ran(const Order&)> run)
      : seed_(seed), rng_(seed), run_(std::move(run)) {}

  FakeStream* open();
  bool has(const void* stream) const;
  // Runs its orders first. False: some never came.
  bool close(FakeStream* stream);
  std::size_t size() const { return streams_.size(); }

  // Orders of other streams, or none, may run before it returns.
  void give(FakeStream* stream, Order order);
  // False: it has not come, and may never.
  bool run_until(const Mark& mark);
  // Runs one order that the mark waits for, if it can.
  void run_towards(const Mark& mark);
  bool any_of(const std::function<bool(const Order&)>& is) const;
  // Nothing runs any more.
  void drop_orders();

 private:
  void try_again();
  FakeStream* choose(const Mark& wanted);
  void run_first(FakeStream& stream);
  std::vector<FakeStream*> runnable() const;

  std::uint64_t seed_;
  Rng rng_;
  std::function<Ran(const Order&)> run_;
  std::vector<std::unique_ptr<FakeStream>> streams_;
};

}  // namespace paddle::test
