#include "tests/support/device/fake_communicator.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "tests/support/device/fake_device.h"

namespace paddle::test {

using std::chrono_literals::operator""ms;

Result<device::CommunicatorId> FakeDevice::make_communicator_id() {
  const std::lock_guard lock(mutex_);
  if (sum_faults_.library) return *sum_faults_.library;
  if (error_) return *error_;
  device::CommunicatorId id;
  hubs_.push_back(FakeHub::make(id));
  return id;
}

Result<std::unique_ptr<device::Communicator>> FakeDevice::begin_join(
    const device::CommunicatorId& id, std::uint32_t rank, std::uint32_t ranks,
    const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (sum_faults_.library) return *sum_faults_.library;
  if (error_) return *error_;
  PADDLE_TRY(auto hub, FakeHub::join(id, rank, ranks));
  auto own = std::make_shared<FakeRank>(FakeRank{std::move(hub), name});
  ++communicators_;
  return std::unique_ptr<device::Communicator>(
      std::make_unique<FakeCommunicator>(*this, std::move(own)));
}

void FakeDevice::set_sum_faults(FakeSumFaults faults) {
  const std::lock_guard lock(mutex_);
  sum_faults_ = std::move(faults);
}

FakeStreams::Ran FakeDevice::run_sum(const Sum& sum) {
  FakeRank& rank = *sum.rank;
  if (rank.is_aborted) {
    std::memset(sum.values, kPoison, sum.count * sizeof(float));
    return FakeStreams::Ran::kDone;
  }
  const bool never_comes = rank.error || sum.number == sum_faults_.sum_fails;
  if (never_comes || !rank.hub->try_sum(rank.progress, sum.values, sum.count)) {
    return FakeStreams::Ran::kNotYet;
  }
  rank.progress = {};
  return FakeStreams::Ran::kDone;
}

FakeCommunicator::FakeCommunicator(FakeDevice& device, std::shared_ptr<FakeRank> rank)
    : device_(device), rank_(std::move(rank)) {
  pump_ = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(1ms);
      const std::lock_guard lock(device_.mutex_);
      if (!stop.stop_requested()) run_sums();
    }
  });
}

FakeCommunicator::~FakeCommunicator() {
  std::unique_lock lock(device_.mutex_);
  if (!rank_->is_aborted && !device_.error_) {
    if (rank_->is_aborting) violation("a communicator is destroyed before it was aborted");
    if (rank_->error) violation("a communicator that failed was not aborted");
    if (!rank_->hub->have_all_joined()) violation("a communicator that waits was not aborted");
    if (rank_->last != nullptr &&
        !device_.await(lock, *rank_->last, SteadyClock().now() + std::chrono::seconds(60))) {
      violation("a sum never came, and its communicator was not aborted");
    }
  }
  --device_.communicators_;
  lock.unlock();
  pump_.request_stop();
  pump_.join();
}

Result<device::Communicator::State> FakeCommunicator::look() {
  FakeRank& rank = *rank_;
  const FakeSumFaults& faults = device_.sum_faults_;
  if (device_.error_) return *device_.error_;
  if (rank.error) return *rank.error;
  if (rank.polls <= faults.polls_under_way) return State::kUnderWay;
  const bool sum_failed = faults.sum_fails > 0 && rank.begun >= faults.sum_fails &&
                          rank.polls > faults.polls_under_way + 3;
  if (faults.join_fails || sum_failed) {
    rank.error = Error{Errc::kFailed, rank.name + ": another rank is gone"};
    return *rank.error;
  }
  return rank.hub->have_all_joined() ? State::kReady : State::kUnderWay;
}

Result<device::Communicator::State> FakeCommunicator::poll() {
  const std::lock_guard lock(device_.mutex_);
  if (rank_->is_aborting) violation("a communicator is asked that was aborted");
  ++rank_->polls;
  auto state = look();
  rank_->is_ready = state && *state == State::kReady;
  return state;
}

Status FakeCommunicator::begin_sum(device::StreamHandle stream, float* values, std::size_t count) {
  const std::lock_guard lock(device_.mutex_);
  FakeRank& rank = *rank_;
  if (rank.is_aborting) violation("a sum is begun by a communicator that was aborted");
  if (rank.error) violation("a sum is begun by a communicator that failed");
  if (device_.error_) return *device_.error_;
  if (!rank.is_ready) violation("a sum is begun while another call is under way");
  rank.is_ready = false;
  rank.polls = 0;
  if (++rank.begun == device_.sum_faults_.begin_fails) {
    rank.error = Error{Errc::kFailed, rank.name + ": this sum cannot be begun"};
    return *rank.error;
  }
  device_.give_sum(stream, {rank_, values, count, rank.begun});
  return {};
}

void FakeCommunicator::abort() {
  std::unique_lock lock(device_.mutex_);
  if (std::exchange(rank_->is_aborting, true)) violation("a communicator is aborted twice");
  // Until it returns, orders behind the sum do not run, and nobody can wait for them.
  device_.has_hung_ = true;
  if (const auto in_abort = device_.sum_faults_.in_abort) {
    lock.unlock();
    in_abort();
    lock.lock();
  }
  rank_->is_aborted = true;
  run_sums();  // their memory may be released from now on
}

void FakeCommunicator::run_sums() {
  if (rank_->last == nullptr || device_.error_) return;
  const FakeDevice::Running running(device_);
  device_.streams_.run_until(*rank_->last);
}

}  // namespace paddle::test
