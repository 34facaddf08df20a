#include "engine/memory/preparer.h"

#include <sys/mman.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <span>
#include <thread>

namespace paddle {
namespace {

#ifdef MADV_POPULATE_WRITE
constexpr int kPopulate = MADV_POPULATE_WRITE;
#else
constexpr int kPopulate = 23;  // Linux 5.14
#endif

class ThreadedPreparer final : public MemoryPreparer {
 public:
  ThreadedPreparer() : thread_([this] { serve(); }) {}
  ~ThreadedPreparer() override {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void prepare(std::byte* begin, std::size_t bytes) override {
    {
      const std::lock_guard lock(mutex_);
      for (Range left(begin, bytes); !left.empty();) {
        if (waiting_.size() >= kPreparedBytesMax / kPreparedAtOnceBytes) break;
        const std::size_t some = std::min(left.size(), kPreparedAtOnceBytes);
        waiting_.push_back(left.first(some));
        left = left.subspan(some);
      }
    }
    changed_.notify_all();
  }

  void forget(const std::byte* begin, std::size_t bytes) override {
    const auto meets = [begin, bytes](Range range) {
      return range.data() < begin + bytes && begin < range.data() + range.size();
    };
    std::unique_lock lock(mutex_);
    std::erase_if(waiting_, meets);
    changed_.wait(lock, [&] { return !meets(current_); });
  }

 private:
  using Range = std::span<std::byte>;

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return is_over_ || !waiting_.empty(); });
      if (is_over_) return;
      current_ = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      populate(current_.data(), current_.size());
      lock.lock();
      current_ = {};
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Range> waiting_;
  Range current_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace

void populate(std::byte* begin, std::size_t bytes) {
  ::madvise(begin, bytes, kPopulate);
}

std::unique_ptr<MemoryPreparer> make_memory_preparer() {
  return std::make_unique<ThreadedPreparer>();
}

}  // namespace paddle
