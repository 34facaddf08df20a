// Threads that help others with work in many parts.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace paddle {

// They sleep while there is nothing to help with, but for a moment after each work, since most
// comes in several pieces.
class Helpers {
 public:
  explicit Helpers(std::size_t count);
  ~Helpers();
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

  std::size_t count() const { return threads_.size(); }
  // Calls work(0) .. work(count - 1), each once, on the calling thread and on helpers that have
  // nothing else to do; returns when all have. Any thread may call it, several at the same time.
  void share(std::size_t count, const std::function<void(std::size_t)>& work);

 private:
  struct Offer {
    const std::function<void(std::size_t)>& work;
    std::size_t count;
    std::atomic<std::size_t> next = 0;
    std::atomic<std::size_t> helpers = 0;  // within; changed under mutex_
  };

  void serve();
  void close(const Offer& offer);
  static void work_on(Offer& offer);

  std::mutex mutex_;
  std::condition_variable offered_, left_;
  std::vector<Offer*> offers_;         // to which helpers may come
  std::atomic<std::size_t> open_ = 0;  // offers_.size()
  std::atomic<bool> over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace paddle
