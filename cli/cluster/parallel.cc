#include "cli/cluster/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace paddle::cli {

void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                       std::size_t at_once) {
  if (count == 1) {
    work(0);
    return;
  }
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < std::min(count, at_once); ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    });
  }
}

}  // namespace paddle::cli
