// Work that others may help with.
#pragma once

#include <cstddef>
#include <functional>

namespace paddle {

// Calls work(0) .. work(count - 1), each once, in any order and maybe at the same time; returns
// when all have.
using Parallel =
    std::function<void(std::size_t count, const std::function<void(std::size_t)>& work)>;

}  // namespace paddle
