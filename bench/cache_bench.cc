// The cost of a cache line that two threads use: nanoseconds per line for a thread that reads lines
// the other wrote, or writes lines the other read or wrote. It depends on whether their cores share
// a last-level cache, and so does a trainer's speed. Values are checked; the program fails if one
// is wrong.
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "engine/math/huge_pages.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace paddle {
namespace {

constexpr int kRounds = 200;
constexpr int kFirstCounted = kRounds / 10;  // earlier rounds find the lines in no cache

struct alignas(kLineBytes) Line {
  std::array<std::uint64_t, kLineBytes / sizeof(std::uint64_t)> words;
};
using Lines = LargeArray<Line>;

// One word of a line fetches all of it.
std::uint64_t read(const Lines& lines) {
  std::uint64_t sum = 0;
  for (const Line& line : lines) sum += line.words.front();
  return sum;
}

void write(Lines& lines, std::uint64_t value) {
  for (Line& line : lines) line.words.fill(value);
}

void write_past_caches(Lines& lines, std::uint64_t value) {
#if defined(__SSE2__)
  const __m128i both = _mm_set1_epi64x(static_cast<std::int64_t>(value));
  for (Line& line : lines) {
    auto* const to = reinterpret_cast<__m128i*>(line.words.data());
    for (std::size_t i = 0; i < kLineBytes / sizeof(both); ++i) _mm_stream_si128(to + i, both);
  }
  _mm_sfence();
#else
  write(lines, value);
#endif
}

bool run_on(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return ::sched_setaffinity(0, sizeof(set), &set) == 0;
}

// Seconds that each thread's work took over all rounds: the first thread's, then the second's.
struct Spent {
  double first = 0;
  double second = 0;
};

// Runs first(round) and second(round) in turn, each on its core.
template <class First, class Second>
Spent alternate(const std::array<int, 2>& cores, First first, Second second) {
  Spent spent;
  std::atomic<bool> are_apart = true;
  std::atomic<int> turn = 0;  // 2 * round: the first thread's turn; one more: the second's
  const auto take_turns = [&](int parity, double& seconds, auto& work) {
    if (!run_on(cores[static_cast<std::size_t>(parity)])) are_apart = false;
    for (int round = 0; round < kRounds; ++round) {
      while (turn != 2 * round + parity) {
      }
      const auto begin = std::chrono::steady_clock::now();
      work(static_cast<std::uint64_t>(round));
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (round >= kFirstCounted) seconds += took.count();
      ++turn;
    }
  };
  std::thread other([&] { take_turns(1, spent.second, second); });
  take_turns(0, spent.first, first);
  other.join();
  if (!are_apart) {
    std::fprintf(stderr, "cache_bench: a thread could not be kept on its core\n");
    std::exit(1);
  }
  return spent;
}

bool measure(const std::array<int, 2>& cores, std::size_t mib) {
  Lines lines((mib << 20U) / sizeof(Line));
  const auto per_line = [&](double seconds) {
    return seconds * 1e9 / (kRounds - kFirstCounted) / static_cast<double>(lines.size());
  };
  bool is_right = true;
  const auto check = [&](std::uint64_t round) {
    is_right = is_right && read(lines) == round * lines.size();
  };
  const auto write_round = [&](std::uint64_t round) { write(lines, round); };
  const Spent cached = alternate(cores, write_round, check);
  const Spent streamed = alternate(
      cores, [&](std::uint64_t round) { write_past_caches(lines, round); }, check);
  const Spent written = alternate(cores, write_round, write_round);
  check(kRounds - 1);
  std::printf(
      "%2zu MiB: read what the other wrote %.1f; write what the other read %.1f, past the caches "
      "%.1f (and read it %.1f), what the other wrote %.1f ns a line\n",
      mib, per_line(cached.second), per_line(cached.first), per_line(streamed.first),
      per_line(streamed.second), per_line(written.first));
  return is_right;
}

int run() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    std::perror("cache_bench: which cores it may use");
    return 1;
  }
  std::vector<int> cores;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) cores.push_back(i);
  }
  if (cores.size() < 2) {
    std::fprintf(stderr, "cache_bench: needs two cores, may use %zu\n", cores.size());
    return 1;
  }
  bool is_right = true;
  for (const std::size_t mib : {1, 4}) is_right = measure({cores[0], cores[1]}, mib) && is_right;
  if (!is_right) std::fprintf(stderr, "cache_bench: a thread read what was never written\n");
  return is_right ? 0 : 1;
}

}  // namespace
}  // namespace paddle

int main() {
  return paddle::run();
}
