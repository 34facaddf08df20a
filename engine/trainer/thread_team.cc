#include "engine/trainer/thread_team.h"

#include <algorithm>
#include <chrono>

namespace paddle::trainer {
namespace {

constexpr auto kIdleAwake = std::chrono::milliseconds(2);

}  // namespace

// True once done() is, within kIdleAwake; helps meanwhile.
template <class Done>
bool ThreadTeam::wait_awake(Done&& done) {
  if (done()) return true;
  auto until = std::chrono::steady_clock::now() + kIdleAwake;
  do {
    if (help()) until = std::chrono::steady_clock::now() + kIdleAwake;
    std::this_thread::yield();
    if (done()) return true;
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

ThreadTeam::ThreadTeam(std::size_t size) {
  for (std::size_t part = 1; part < size; ++part) {
    threads_.emplace_back([this, part] { serve(part); });
  }
}

ThreadTeam::~ThreadTeam() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::run(const Work& work) {
  if (threads_.empty()) return work(0);
  {
    const std::scoped_lock lock(mutex_);
    work_ = &work;
    running_ = threads_.size();
    ++generation_;  // publishes the two above
  }
  started_.notify_all();
  work(0);
  const auto all_done = [this] { return running_ == 0; };
  if (wait_awake(all_done)) return;
  std::unique_lock lock(mutex_);
  finished_.wait(lock, all_done);
}

void ThreadTeam::serve(std::size_t part) {
  std::uint64_t seen = 0;
  const auto is_called = [&] { return over_ || generation_ != seen; };
  for (;;) {
    if (!wait_awake(is_called)) {
      std::unique_lock lock(mutex_);
      started_.wait(lock, is_called);
    }
    if (over_) return;
    ++seen;  // the next run waits for this one
    (*work_)(part);
    if (--running_ > 0) continue;
    const std::scoped_lock lock(mutex_);
    finished_.notify_one();
  }
}

void ThreadTeam::share(std::size_t count, const Work& work) {
  const auto free = threads_.empty() || count < 2 ? offers_.end()
                                                  : std::ranges::find_if(offers_, [](Offer& offer) {
                                                      return !offer.is_taken.exchange(true);
                                                    });
  if (free == offers_.end()) {
    for (std::size_t i = 0; i < count; ++i) work(i);
    return;
  }
  Offer& offer = *free;
  offer.work = &work;
  offer.count = count;
  offer.next = 0;
  offer.is_open = true;
  work_on(offer);
  offer.is_open = false;
  while (offer.helpers > 0) std::this_thread::yield();
  offer.is_taken = false;
}

bool ThreadTeam::help() {
  bool has_helped = false;
  for (Offer& offer : offers_) {
    if (!offer.is_open) continue;
    // Counted first: whoever then finds the offer open is waited for.
    ++offer.helpers;
    if (offer.is_open) work_on(offer);
    --offer.helpers;
    has_helped = true;
  }
  return has_helped;
}

void ThreadTeam::work_on(Offer& offer) {
  for (std::size_t i = offer.next++; i < offer.count; i = offer.next++) (*offer.work)(i);
}

}  // namespace paddle::trainer
