// The seeds of a simulated test. PADDLE_SIM_SEED runs one alone, PADDLE_SIM_SEEDS so many from
// PADDLE_SIM_FIRST on.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <iostream>

#include <gtest/gtest.h>

namespace paddle::sim {

inline std::uint64_t seed_option(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Runs each seed, 1 to `count` unless the environment says otherwise, to the first that fails, and
// names the command that repeats it. Returns how many ran.
template <class Run>
std::uint64_t for_seeds(std::uint64_t count, const Run& run) {
  const std::uint64_t only = seed_option("PADDLE_SIM_SEED", 0);
  const std::uint64_t first = only != 0 ? only : seed_option("PADDLE_SIM_FIRST", 1);
  const std::uint64_t seeds = only != 0 ? 1 : seed_option("PADDLE_SIM_SEEDS", count);
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    run(seed);
    if (!testing::Test::HasFailure()) continue;
    std::cerr << "seed " << seed << "; again: PADDLE_SIM_SEED=" << seed << " build/dev/bin/"
              << program_invocation_short_name << " --gtest_filter=" << test->test_suite_name()
              << '.' << test->name() << '\n';
    return seed - first + 1;
  }
  return seeds;
}

}  // namespace paddle::sim
