// Sums between fake cards, in one process or in several, with failures on demand. Nothing tells a
// rank that another has failed: it waits until its communicator is aborted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "engine/gpu/device.h"
#include "tests/support/device/fake_hub.h"
#include "tests/support/device/fake_orders.h"

namespace paddle::test {

class FakeDevice;

constexpr std::uint64_t kForEver = UINT64_MAX;

// Faults of a device's communicators. Each counts its sums from its join on.
struct FakeSumFaults {
  std::optional<Error> library = {};    // why there is none
  std::uint64_t polls_under_way = 1;    // after each beginning, or kForEver
  bool join_fails = false;              // when it has been under way
  std::uint64_t begin_fails = 0;        // the nth begin_sum, from 1
  std::uint64_t sum_fails = 0;          // the nth, after poll() said kReady; it never comes
  std::function<void()> in_abort = {};  // called first; it may never return
};

// A rank's part that its orders share.
struct FakeRank {
  std::unique_ptr<FakeHub> hub;
  std::string name;
  SumProgress progress = {};  // of the sum that runs
  std::uint64_t begun = 0;    // sums
  std::uint64_t polls = 0;    // since the last beginning
  bool is_ready = false;      // as the last poll said
  std::optional<Error> error = {};
  bool is_aborting = false;
  bool is_aborted = false;
  std::shared_ptr<Mark> last = {};  // sum
};

// The device's lock guards the rank.
class FakeCommunicator final : public device::Communicator {
 public:
  FakeCommunicator(FakeDevice& device, std::shared_ptr<FakeRank> rank);
  ~FakeCommunicator() override;

  Result<State> poll() override;
  Status begin_sum(device::StreamHandle stream, float* values, std::size_t count) override;
  void abort() override;

 private:
  Result<State> look();
  // As far as they can, now.
  void run_sums();

  FakeDevice& device_;
  std::shared_ptr<FakeRank> rank_;
  // Cards go on by themselves, though late: others may wait for this rank while it asks for
  // nothing.
  std::jthread pump_;
};

}  // namespace paddle::test
