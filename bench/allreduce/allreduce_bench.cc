// A group's all-reduce: allreduce_bench RANKS tcp|memory|sealed [BUCKET_KIB [LANES]], or without
// the group, for comparison: allreduce_bench RANKS bare-tcp|bare-memory [BUCKET_KIB]. The ranks are
// processes on this host's loopback; a long array is summed in buckets, a few at a time, as a
// trainer does with its parameters.
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "bench/allreduce/bare.h"
#include "bench/allreduce/must.h"
#include "bench/allreduce/timing.h"
#include "engine/group/group.h"
#include "engine/net/mesh.h"

namespace {

using namespace paddle;
using bench::must;

constexpr std::size_t kBucketsUnderWay = 4;
constexpr std::chrono::seconds kDeadline{30};

TimePoint deadline() {
  return SteadyClock().now() + kDeadline;
}

void all_reduce(collective::Group& group, std::span<const float> ones, std::size_t bucket_floats,
                std::span<float> values) {
  std::array<std::pair<std::span<float>, collective::Pending>, kBucketsUnderWay> reducing;
  std::size_t posted = 0;
  std::size_t reduced = 0;
  std::vector<collective::Pending> gathering;
  const auto advance = [&] {
    const auto& [bucket, pending] = reducing[reduced++ % kBucketsUnderWay];
    must(pending.wait());
    // Here the owner of a slice would update its parameters. Every rank has all of a small bucket
    // already.
    if (bucket.size_bytes() > collective::whole_bytes_max(group.size())) {
      gathering.push_back(group.all_gather(bucket));
    }
  };
  while (!values.empty()) {
    const auto bucket = values.first(std::min(bucket_floats, values.size()));
    values = values.subspan(bucket.size());
    reducing[posted++ % kBucketsUnderWay] = {bucket, group.reduce_scatter(bucket, ones)};
    if (posted - reduced == kBucketsUnderWay) advance();
  }
  while (reduced < posted) advance();
  for (const auto& pending : gathering) must(pending.wait());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 2 ? argv[2] : "";
  const auto ranks = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 0);
  const bool is_bare = way == "bare-tcp" || way == "bare-memory";
  const bool is_known = is_bare || way == "tcp" || way == "memory" || way == "sealed";
  if (ranks < 1 || ranks > 64 || !is_known) {
    std::fprintf(stderr,
                 "usage: allreduce_bench RANKS tcp|memory|sealed|bare-tcp|bare-memory "
                 "[BUCKET_KIB [LANES]]\n");
    return 2;
  }
  const std::size_t bucket_floats =
      static_cast<std::size_t>(argc > 3 ? std::atoi(argv[3]) : 1024) * 256;
  if (is_bare) return bench::measure_bare(ranks, way == "bare-memory", 4 * bucket_floats);
  std::vector<UniqueFd> listeners;
  std::vector<collective::Member> members;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    listeners.push_back(must(net::peer::listen({"127.0.0.1", 0})));
    members.push_back({"here", {"127.0.0.1", must(net::peer::port_of(listeners.back()))}});
  }
  std::uint32_t self = 0;
  for (std::uint32_t rank = 1; rank < ranks && self == 0; ++rank) {
    if (::fork() == 0) self = rank;
  }
  std::array<std::byte, kSecretBytes> secret{};
  auto group = must(collective::Group::join(
      {.keys = JobKeys::of_job(must(Secret::from_bytes(secret))),
       .job_tag = 1,
       .rank = self,
       .members = members,
       .transport = way == "sealed" ? net::Transport::kAlways : net::Transport::kSealed,
       .shares_memory = way == "memory",
       .lanes = static_cast<std::uint32_t>(argc > 4 ? std::atoi(argv[4]) : 1),
       .listener = std::move(listeners[self])},
      deadline()));
  const std::vector<float> ones(ranks, 1.0F);
  collective::BucketMemory memory;
  bench::measure(
      "ours-" + way, static_cast<int>(self), static_cast<int>(ranks),
      [&](float* values, std::size_t count) {
        all_reduce(*group, ones, bucket_floats, {values, count});
      },
      [&](std::size_t count) {
        memory = group->allocate(count);  // as for a trainer's gradients and values
        return memory.floats();
      });
  must(group->leave(deadline()));
  group.reset();
  if (self != 0) return 0;
  int failed = 0;
  for (int status = 0; ::wait(&status) > 0;) failed |= status;
  return failed == 0 ? 0 : 1;
}
