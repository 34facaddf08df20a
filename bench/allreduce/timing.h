// The measurement that all programs of bench/allreduce share: the same sizes and repetitions, and
// every element checked before and after them.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace paddle::bench {

struct Size {
  std::size_t bytes;
  int repetitions;  // between two readings of the clock
  int blocks;
};
constexpr Size kSizes[] = {{std::size_t{4} << 10U, 500, 11},
                           {std::size_t{64} << 10U, 100, 11},
                           {std::size_t{4} << 20U, 4, 11},
                           {std::size_t{64} << 20U, 1, 7}};

// Sums `count` floats over all ranks, in place.
using AllReduce = std::function<void(float* values, std::size_t count)>;

inline void check(int rank, int ranks, const AllReduce& all_reduce, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(rank + 1) + static_cast<float>(i % 5);
  }
  all_reduce(values.data(), values.size());
  const int sum = ranks * (ranks + 1) / 2;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == static_cast<float>(sum + ranks * static_cast<int>(i % 5))) continue;
    std::fprintf(stderr, "rank %d: element %zu of %zu is %g\n", rank, i, values.size(),
                 static_cast<double>(values[i]));
    std::exit(1);
  }
}

// Keeps this rank on its own core if there are enough cores, as mpirun does: two ranks that wait
// for each other on one core would measure the kernel's scheduler.
inline void keep_to_a_core(int rank, int ranks) {
  cpu_set_t allowed, own;
  CPU_ZERO(&own);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < ranks) return;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed) && rank-- == 0) CPU_SET(core, &own);
  }
  (void)::sched_setaffinity(0, sizeof own, &own);
}

// Returns memory for `count` floats, valid until the next call.
using Allocate = std::function<std::span<float>(std::size_t count)>;

// Rank 0 prints a line for each size: the name, the bytes, and the median time of one sum in
// microseconds.
inline void measure(const std::string& name, int rank, int ranks, const AllReduce& all_reduce,
                    const Allocate& allocate) {
  using Clock = std::chrono::steady_clock;
  keep_to_a_core(rank, ranks);
  const bool checks_only = std::getenv("ALLREDUCE_CHECK") != nullptr;
  const char* const only = std::getenv("ALLREDUCE_BYTES");  // this size only, for a profiler
  for (const Size& size : kSizes) {
    if (only != nullptr && std::to_string(size.bytes) != only) continue;
    const std::span<float> values = allocate(size.bytes / sizeof(float));
    check(rank, ranks, all_reduce, values);
    if (checks_only) continue;
    std::fill(values.begin(), values.end(), 0.0F);  // sums of zeros stay finite
    std::vector<double> times;
    for (int block = 0; block < size.blocks; ++block) {
      const auto begin = Clock::now();
      for (int i = 0; i < size.repetitions; ++i) all_reduce(values.data(), values.size());
      const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
      times.push_back(took.count() / size.repetitions);
    }
    check(rank, ranks, all_reduce, values);
    std::nth_element(times.begin(), times.begin() + size.blocks / 2, times.end());
    if (rank != 0) continue;
    std::printf("%s %zu %.2f\n", name.c_str(), size.bytes,
                times[static_cast<std::size_t>(size.blocks / 2)]);
    std::fflush(stdout);
  }
}

inline void measure(const std::string& name, int rank, int ranks, const AllReduce& all_reduce) {
  std::vector<float> values;
  measure(name, rank, ranks, all_reduce, [&](std::size_t count) {
    values = std::vector<float>(count);
    return std::span(values);
  });
}

}  // namespace paddle::bench
