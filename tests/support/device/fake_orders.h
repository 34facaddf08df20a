// Orders of a fake device, and their computation on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "engine/gpu/device.h"

namespace paddle::test {

struct FakeStream;

// A place in a stream: done when all orders before it are.
struct Mark {
  FakeStream* stream = nullptr;
  bool is_done = false;
};

struct Upload {
  const std::byte* from = nullptr;  // pinned
  std::byte* to = nullptr;
  std::size_t bytes = 0;
};
struct Download {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;  // pinned
  std::size_t bytes = 0;
};
struct Reach {
  std::shared_ptr<Mark> mark;
};
struct WaitFor {
  std::shared_ptr<Mark> mark;
};
struct FakeRank;
// Over the cards of all ranks, in place.
struct Sum {
  std::shared_ptr<FakeRank> rank;
  float* values = nullptr;
  std::size_t count = 0;
  std::uint64_t number = 0;  // of the rank's sums, from 1 on
};
using Command =
    std::variant<Upload, Download, kernels::device::Kernel, device::Product, Reach, WaitFor, Sum>;

struct Order {
  Command command;
  std::uint64_t number = 0;                 // of those given to the device; from 1 on
  std::vector<const std::byte*> uses = {};  // begins of the blocks that it names
  const void* graph = nullptr;              // replayed
};

// Whether a stream keeps orders only by it.
inline bool is_mark(const Order& order) {
  return std::holds_alternative<Reach>(order.command) ||
         std::holds_alternative<WaitFor>(order.command);
}

// Calls `visit` with every word of the kernel that may be a pointer.
void visit_pointers(const kernels::device::Kernel& kernel,
                    const std::function<void(const void*)>& visit);
// Whether memory that it names has pointers to more.
bool has_table(const kernels::device::Kernel& kernel);
// Calls `visit` with the memory of each operand, and its bytes.
void visit_operands(const device::Product& product,
                    const std::function<void(const void*, std::size_t)>& visit);

// f(i) for each i below count, in an order that the seed draws.
template <class F>
void in_any_order(std::size_t count, std::uint64_t seed, F f) {
  if (count == 0) return;
  Rng rng(seed);
  std::size_t step = rng.below(2) == 0 ? rng.below(count) : count - 1;  // count - 1: backwards
  while (std::gcd(step, count) != 1) ++step;
  std::size_t index = rng.below(count);
  for (std::size_t i = 0; i < count; ++i) {
    f(index);
    index = (index + step) % count;
  }
}

// Computes it; `seed` draws the order of a kernel's indices. Nothing for marks and sums.
void compute(const Command& command, std::uint64_t seed);

}  // namespace paddle::test
