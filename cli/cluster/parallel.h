// The same call for every node at once, on a bounded number of threads.
#pragma once

#include <cstddef>
#include <functional>

namespace paddle::cli {

constexpr std::size_t kNodesAtOnce = 32;  // threads: one blocking client each

// Calls work(0) ... work(count - 1), each once, at most `at_once` at a time, and returns when all
// returned. work must not throw.
void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                       std::size_t at_once = kNodesAtOnce);

}  // namespace paddle::cli
