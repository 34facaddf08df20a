#include "engine/trainer/thread_team.h"

namespace paddle::trainer {

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

void ThreadTeam::run(const std::function<void(std::size_t)>& work) {
  {
    const std::scoped_lock lock(mutex_);
    work_ = &work;
    running_ = threads_.size();
    ++generation_;
  }
  started_.notify_all();
  work(0);
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this] { return running_ == 0; });
}

void ThreadTeam::serve(std::size_t part) {
  std::uint64_t seen = 0;
  for (;;) {
    const std::function<void(std::size_t)>* work = nullptr;
    {
      std::unique_lock lock(mutex_);
      started_.wait(lock, [&] { return over_ || generation_ != seen; });
      if (over_) return;
      seen = generation_;
      work = work_;
    }
    (*work)(part);
    const std::scoped_lock lock(mutex_);
    if (--running_ == 0) finished_.notify_one();
  }
}

}  // namespace paddle::trainer
