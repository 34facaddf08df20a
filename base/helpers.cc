#include "base/helpers.h"

#include <chrono>

namespace paddle {
namespace {

constexpr auto kHelperAwake = std::chrono::microseconds(100);
// Fewer parts are done before a sleeping core is awake.
constexpr std::size_t kSharedPartsMin = 8;

// True once done() is, within kHelperAwake; gives way to any other thread meanwhile.
template <class Done>
bool wait_awake(Done&& done) {
  const auto until = std::chrono::steady_clock::now() + kHelperAwake;
  do {
    if (done()) return true;
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

}  // namespace

Helpers::Helpers(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this] { serve(); });
}

Helpers::~Helpers() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  offered_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Helpers::work_on(Offer& offer) {
  for (std::size_t i = offer.next++; i < offer.count; i = offer.next++) offer.work(i);
}

void Helpers::share(std::size_t count, const std::function<void(std::size_t)>& work) {
  if (threads_.empty() || count < kSharedPartsMin) {
    for (std::size_t i = 0; i < count; ++i) work(i);
    return;
  }
  Offer offer{work, count};
  {
    const std::scoped_lock lock(mutex_);
    offers_.push_back(&offer);
    open_ = offers_.size();
  }
  offered_.notify_all();
  work_on(offer);
  {
    const std::scoped_lock lock(mutex_);
    close(offer);
  }
  const auto all_left = [&offer] { return offer.helpers == 0; };
  const bool is_alone = wait_awake(all_left);
  // The last one to leave may still hold the mutex, and the offer.
  std::unique_lock lock(mutex_);
  if (!is_alone) left_.wait(lock, all_left);
}

void Helpers::serve() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    if (offers_.empty()) {
      lock.unlock();
      const bool is_called = wait_awake([this] { return over_ || open_ > 0; });
      lock.lock();
      if (!is_called) offered_.wait(lock, [this] { return over_ || !offers_.empty(); });
      continue;
    }
    Offer& offer = *offers_.front();
    ++offer.helpers;
    lock.unlock();
    work_on(offer);
    lock.lock();
    close(offer);
    if (--offer.helpers == 0) left_.notify_all();
  }
}

// Nothing of it is left to begin. Under mutex_.
void Helpers::close(const Offer& offer) {
  std::erase(offers_, &offer);
  open_ = offers_.size();
}

}  // namespace paddle
