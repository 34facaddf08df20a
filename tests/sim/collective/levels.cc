// Sums on hosts and between them, and the order in which any bucket is added up.
#include "tests/sim/collective/packed.h"
#include "tests/sim/collective/world.h"

namespace paddle::sim {

using collective::Operation;
using collective::Pattern;

std::vector<std::uint64_t> some_hosts(std::uint32_t ranks, Rng& rng) {
  const std::uint64_t count = 2 + rng.below(4);
  std::vector<std::uint64_t> hosts(ranks);
  for (std::uint64_t& host : hosts) host = rng.below(count);
  return hosts;
}

bool World::has_levels() const {
  return hosts_ != nullptr &&
         options_.bucket_floats * sizeof(float) > collective::whole_bytes_max(options_.ranks);
}

// As Group posts a reduction or a gathering.
void World::post_bucket(std::uint32_t self, Pattern pattern) {
  Rank& rank = ranks_[self];
  const bool is_reduction = pattern == Pattern::kReduce;
  if (!has_levels()) {
    Operation operation = bucket_operation(rank, pattern);
    if (is_reduction) operation.weights = rank.shares;
    return post(self, std::move(operation));
  }
  const auto post_level = [&](Pattern level, bool follows) {
    Operation operation = bucket_operation(rank, level);
    operation.shape.hosts = hosts_;
    operation.follows = follows;
    if (level == Pattern::kReduceOnHost) operation.weights = rank.shares;
    if (level == Pattern::kReduceBetween) operation.weights.assign(options_.ranks, 1.0F);
    post(self, std::move(operation));
  };
  post_level(is_reduction ? Pattern::kReduceOnHost : Pattern::kGatherBetween, false);
  post_level(is_reduction ? Pattern::kReduceBetween : Pattern::kGatherOnHost, true);
}

float World::sum_of(const Rank& rank, std::uint64_t salt, std::size_t i) const {
  const bool is_bucket = salt == 0;
  const auto term = [&](std::uint32_t from) {
    return rank.shares[from] * gradient(rank.step, salt, from, i);
  };
  float sum = 0;
  if (is_bucket && has_levels()) {
    for (std::uint32_t host = 0; host < hosts_->count(); ++host) {
      float of_host = 0;
      for (const std::uint32_t from : hosts_->ranks(host)) of_host += term(from);
      sum += of_host;
    }
    return sum;
  }
  const bool packs = options_.is_packed && is_bucket;
  for (std::uint32_t from = 0; from < options_.ranks; ++from) {
    sum += packs && from != owner_of(i) ? rounded(term(from)) : term(from);
  }
  return packs ? rounded(sum) : sum;
}

void World::count(std::uint32_t from, std::uint32_t to, const GroupCore::Outgoing& out) {
  ++outcome_.frames;
  if (out.header.type != static_cast<std::uint8_t>(FrameType::kSegment)) return;
  outcome_.segment_bytes += out.tail.size();
  const bool leaves = !options_.hosts.empty() && options_.hosts[from] != options_.hosts[to];
  if (leaves) outcome_.bytes_between_hosts += out.tail.size();
  // A rank that dies in the middle of a phase has sent a part of what it had to.
  const bool dies = options_.victim == from && ranks_[from].step > 1 &&
                    out.header.flags == static_cast<std::uint16_t>(options_.dies_in);
  if (dies) at(now_, What::kKill, from);
}

}  // namespace paddle::sim
