// Groups of a few ranks in one process, each on a thread of its own, over loopback.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <ostream>
#include <thread>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/group/group.h"
#include "engine/net/mesh.h"

namespace paddle::collective {

inline TimePoint in(Duration left) {
  return SteadyClock().now() + left;
}
// A deadline that only a hanging test reaches.
inline TimePoint soon() {
  return in(std::chrono::seconds(30));
}

inline JobKeys keys_of(std::uint8_t fill) {
  std::array<std::byte, kSecretBytes> bytes;
  bytes.fill(static_cast<std::byte>(fill));
  return JobKeys::of_job(*Secret::from_bytes(bytes));
}

// How the ranks of a test reach each other.
struct Way {
  const char* name;
  net::Transport transport;
  bool shares_memory;
  std::uint32_t lanes = 1;
};
inline void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}
inline const std::vector<Way>& ways() {
  static const std::vector<Way> all{{"Tcp", net::Transport::kSealed, false},
                                    {"Memory", net::Transport::kSealed, true},
                                    {"Tls", net::Transport::kAlways, false}};
  return all;
}

// The same with several sockets for each pair.
inline const std::vector<Way>& ways_of_lanes() {
  static const std::vector<Way> all{{"TcpLanes", net::Transport::kSealed, false, 4},
                                    {"TlsLanes", net::Transport::kAlways, false, 2}};
  return all;
}

// Options for every rank, with listeners on ports that the kernel has picked.
inline std::vector<GroupOptions> options_of(std::uint32_t size, const Way& way = ways().front()) {
  std::vector<UniqueFd> listeners;
  std::vector<Member> members;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    auto listener = net::peer::listen({"127.0.0.1", 0});
    EXPECT_TRUE(listener);
    members.push_back(
        {"node-" + std::to_string(rank), {"127.0.0.1", *net::peer::port_of(*listener)}});
    listeners.push_back(std::move(*listener));
  }
  std::vector<GroupOptions> all;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    all.push_back({.keys = keys_of(1),
                   .job_tag = 77,
                   .rank = rank,
                   .incarnation = 1 + rank,
                   .members = members,
                   .transport = way.transport,
                   .shares_memory = way.shares_memory,
                   .lanes = way.lanes,
                   .listener = std::move(listeners[rank])});
  }
  return all;
}

// Runs `work` as every rank at the same time.
inline void as_ranks(std::vector<GroupOptions> options,
                     const std::function<void(GroupOptions options)>& work) {
  std::vector<std::thread> threads;
  for (GroupOptions& one : options) {
    threads.emplace_back([&work, &one] { work(std::move(one)); });
  }
  for (std::thread& thread : threads) thread.join();
}

// The same with groups that are joined and left.
inline void as_groups(std::vector<GroupOptions> options,
                      const std::function<void(Group& group)>& work) {
  as_ranks(std::move(options), [&](GroupOptions one) {
    auto group = Group::join(std::move(one), soon());
    ASSERT_TRUE(group) << group.error().message;
    work(**group);
    const Status left = (*group)->leave(soon());
    EXPECT_TRUE(left) << left.error().message;
  });
}

inline std::vector<float> gradient_of(std::uint32_t rank, std::size_t count,
                                      std::uint64_t step = 0) {
  Rng rng(hash_combine(rank, hash_combine(count, step)));
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(2 * rng.uniform() - 1);
  return values;
}
inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// Gathers buckets whose reductions are pending, as soon as each is there.
inline void gather_all(Group& group, std::span<const std::span<float>> buckets,
                       std::vector<Pending>& pending) {
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    ASSERT_TRUE(pending[i].wait());
    pending[i] = group.all_gather(buckets[i]);
  }
  group.serve_in_background();
  for (const Pending& one : pending) ASSERT_TRUE(one.wait());
}

// Arrays of other ranks that this process may read where they are.
inline std::size_t arrays_of_others() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    const bool is_array = line.find("paddle-array") != std::string::npos;
    if (is_array && line.find(" r--s ") != std::string::npos) ++count;
  }
  return count;
}

// A rank in a process of its own, which a test may kill or stop; the others are threads.
class OtherProcess {
 public:
  template <class Work>
  explicit OtherProcess(GroupOptions options, const Work& work) : pid_(::fork()) {
    if (pid_ != 0) return;
    work(std::move(options));
    ::_exit(0);
  }
  ~OtherProcess() { signal(SIGKILL); }
  void signal(int number) {
    if (pid_ <= 0) return;
    ::kill(pid_, number);
    if (number != SIGKILL) return;
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

// Runs step after step until the group ends; the reason.
inline Error train(Group& group, std::size_t floats, std::atomic<std::uint64_t>* steps = nullptr) {
  const BucketMemory memory = group.allocate(floats);
  const std::span<float> bucket = memory.floats();
  for (std::uint64_t step = 1;; ++step) {
    const auto infos = group.begin_step({.step = step, .samples = 1});
    if (!infos) return infos.error();
    std::ranges::fill(bucket, 1.0F);
    const auto reduced = group.reduce_scatter(bucket, sum_shares(*infos)).wait();
    if (!reduced) return reduced.error();
    const auto gathered = group.all_gather(bucket).wait();
    if (!gathered) return gathered.error();
    const auto sum = static_cast<float>(group.size());
    EXPECT_EQ(std::ranges::count(bucket, sum), std::ssize(bucket))
        << "a wrong sum in step " << step;
    if (steps != nullptr) ++*steps;
  }
}

// One rank is killed in the middle of a bucket; all others name it.
inline void expect_a_killed_rank_is_named(std::vector<GroupOptions> options, std::uint32_t killed) {
  constexpr std::size_t kFloats = 500'000;
  GroupOptions its = std::move(options[killed]);
  options.erase(options.begin() + killed);
  OtherProcess victim(std::move(its), [](GroupOptions own) {
    auto group = Group::join(std::move(own), soon());
    if (group) train(**group, kFloats);
  });
  std::atomic<std::uint64_t> steps = 0;
  std::thread killer([&] {
    while (steps < 6) std::this_thread::yield();
    victim.signal(SIGKILL);
  });
  const std::string name = "rank " + std::to_string(killed) + " (node-" + std::to_string(killed);
  as_ranks(std::move(options), [&](GroupOptions own) {
    auto group = Group::join(std::move(own), soon());
    ASSERT_TRUE(group) << group.error().message;
    const Error why = train(**group, kFloats, &steps);
    EXPECT_EQ(why.code, Errc::kUnreachable);
    EXPECT_TRUE(why.message.starts_with("lost " + name + ")")) << why.message;
    EXPECT_FALSE((*group)->events().empty());
  });
  killer.join();
}

}  // namespace paddle::collective
