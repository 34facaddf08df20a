// A job of made-up gradients on one pserver's shard, whose merge and updates a group must match.
#pragma once

#include <cmath>
#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/math/optimizer.h"
#include "engine/pserver/merge.h"
#include "engine/snapshot/reader.h"
#include "engine/table/dense_table.h"
#include "engine/table/parameter_set.h"

namespace paddle::strategy {

// Elements of the dense parameters; of the first, the first frame of a step carries all. Groups of
// two or more ranks cut the others into slices.
inline const std::vector<std::uint64_t> kSmall{24, 7};
inline const std::vector<std::uint64_t> kSliced{17'001, 20, 333};
inline const std::vector<std::uint64_t> kManyBuckets{600'000, 5, 500'000};

inline wire::ParameterSet set_of(const std::string& method, const std::vector<std::uint64_t>& sizes,
                                 std::uint32_t trainers) {
  wire::ParameterSet set;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    wire::ParameterSpec& spec = *set.add_parameters();
    spec.set_name("p" + std::to_string(i));
    spec.add_dims(sizes[i]);
    spec.add_dims(1);
    spec.set_initial_std(0.5F);
    spec.set_learning_rate(1);
    spec.set_is_static(i == 2);
  }
  wire::Optimizer& optimizer = *set.mutable_optimizer();
  optimizer.set_method(method);
  optimizer.set_learning_rate(0.05F);
  optimizer.set_l2(1e-3F);
  optimizer.set_clip_value(0.7F);
  optimizer.mutable_schedule()->set_name("poly");
  optimizer.mutable_schedule()->set_a(0.1);
  optimizer.mutable_schedule()->set_b(0.5);
  optimizer.mutable_average()->set_window(0.5F);
  optimizer.mutable_average()->set_window_min(2);
  set.set_dense_strategy(wire::STRATEGY_COLLECTIVE);
  set.set_seed(7);
  set.set_num_trainers(trainers);
  set.set_min_block_size(8);
  set.set_async_lagged_grad_discard_ratio(1.5F);
  return set;
}

inline wire::ParameterSet sync_set(wire::ParameterSet set) {
  set.set_dense_strategy(wire::STRATEGY_SYNC);
  set.set_dense_shards(1);
  return set;
}

// Anything, with zeros of both signs and numbers too small for a full mantissa.
inline const std::vector<float>& numbers() {
  static const std::vector<float> all = [] {
    std::vector<float> made(8191);
    for (std::size_t i = 0; i < made.size(); ++i) {
      const std::uint64_t bits = mix64(i);
      made[i] = static_cast<float>(static_cast<double>(bits >> 40U) / (1 << 23) - 1);
      if (bits % 31 == 0) made[i] = -0.0F;
      if (bits % 37 == 0) made[i] = 1e-40F;
    }
    return made;
  }();
  return all;
}

// The gradient of a trainer for a batch of the job, counted from 0: always the same.
inline void fill_gradient(std::span<float> gradient, std::uint32_t rank, std::uint64_t batch,
                          std::uint32_t parameter) {
  const std::vector<float>& all = numbers();
  std::size_t at = hash_combine(hash_combine(rank, batch), parameter) % all.size();
  for (std::size_t done = 0; done < gradient.size();) {
    const std::size_t some = std::min(gradient.size() - done, all.size() - at);
    std::copy_n(all.data() + at, some, gradient.data() + done);
    done += some;
    at = 0;
  }
}
inline std::uint64_t samples_of(std::uint32_t rank, std::uint64_t batch) {
  return 1 + (rank * 5 + batch * 3) % 7;
}
inline double cost_of(std::uint32_t rank, std::uint64_t batch) {
  return 0.1 * rank + 0.01 * static_cast<double>(batch) + 1;
}

// Trainers by node, ascending.
using Nodes = std::vector<std::vector<std::uint32_t>>;

// The job on one shard, by its merge and its table.
class OnShard {
 public:
  // Every batch has `scale` times its samples. The gradients of a node are added up first.
  explicit OnShard(const wire::ParameterSet& set, std::uint64_t scale = 1, Nodes nodes = {})
      : scale_(scale),
        nodes_(std::move(nodes)),
        set_(sync_set(set)),
        table_(*table::DenseTable::create(set_, 0, 1ULL << 30U)) {}
  virtual ~OnShard() = default;

  // A round of these trainers, at their batches of the job.
  void step(std::span<const std::uint32_t> trainers, const std::vector<std::uint64_t>& batches) {
    std::vector<std::vector<float>> gradients;
    std::vector<pserver::Push> pushes(trainers.size());
    std::vector<const pserver::Push*> round;
    for (std::size_t i = 0; i < trainers.size(); ++i) {
      const std::uint32_t trainer = trainers[i];
      std::vector<float>& all = gradients.emplace_back(table_.size());
      std::uint64_t offset = 0;
      for (int p = 0; p < set_.parameters_size(); ++p) {
        const std::uint64_t size = parameter::element_count(set_.parameters(p));
        fill_gradient(std::span(all).subspan(offset, size), trainer, batches[trainer],
                      static_cast<std::uint32_t>(p));
        offset += size;
      }
      pushes[i].samples = scale_ * samples_of(trainer, batches[trainer]);
      samples_ += pushes[i].samples;
      cost_ += cost_of(trainer, batches[trainer]);
      Bytes tail;
      append_bytes(tail, std::span<const float>(all));
      ASSERT_TRUE(pushes[i].add_dense(0, all.size(), all.size(), std::move(tail)));
      round.push_back(&pushes[i]);
    }
    std::vector<pserver::Push> sums(nodes_.size());
    if (!nodes_.empty()) add_up_nodes(trainers, sums, round);
    const auto merged = merge(trainers, gradients, round);
    EXPECT_EQ(table_.apply(optim::learning_rate(set_.optimizer(), {samples_, pass_}), merged), "");
  }
  void end_pass() { ++pass_; }
  // Goes on from a snapshot.
  void load(const std::string& directory) {
    const auto reader = snapshot::SnapshotReader::open(directory);
    ASSERT_TRUE(reader) << reader.error().message;
    samples_ = reader->info().samples;
    pass_ = reader->info().pass;
    std::uint64_t offset = 0;
    for (const wire::ParameterSpec& spec : set_.parameters()) {
      std::vector<float> value, state;
      std::uint64_t count = 0;
      ASSERT_TRUE(reader->read_dense(spec.name(), value, state, count));
      optim::swap_average(value, state);
      const std::size_t size = value.size();
      for (std::uint32_t plane = 0; plane <= state_width(); ++plane) {
        const auto from = plane == 0
                              ? std::span<const float>(value)
                              : std::span<const float>(state).subspan((plane - 1) * size, size);
        ASSERT_TRUE(table_.write(plane, offset, from, count));
      }
      offset += size;
    }
  }
  std::span<const float> values(std::uint32_t parameter) const { return plane(parameter, 0); }
  std::span<const float> plane(std::uint32_t parameter, std::uint32_t plane) const {
    std::uint64_t offset = 0;
    for (std::uint32_t i = 0; i < parameter; ++i) {
      offset += parameter::element_count(set_.parameters(static_cast<int>(i)));
    }
    return *table_.read(plane, offset,
                        parameter::element_count(set_.parameters(static_cast<int>(parameter))));
  }
  std::uint64_t samples() const { return samples_; }
  double cost() const { return cost_; }
  std::uint32_t state_width() const { return table_.state_width(); }

 protected:
  // The gradient of a round, from those of these trainers.
  virtual std::span<const float> merge(std::span<const std::uint32_t> /*trainers*/,
                                       std::span<const std::vector<float>> /*gradients*/,
                                       std::span<const pserver::Push* const> pushes) {
    return pserver::merge_dense(pushes, set_.merge(), scratch_, part_);
  }
  const wire::ParameterSet& set() const { return set_; }

 private:
  // In place of the pushes of a round come the sums of nodes, in the order of their first trainers.
  void add_up_nodes(std::span<const std::uint32_t> trainers, std::vector<pserver::Push>& sums,
                    std::vector<const pserver::Push*>& round) {
    std::map<std::uint32_t, const pserver::Push*> by_first;
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      std::vector<const pserver::Push*> pushes;
      std::uint32_t first = 0;
      for (std::size_t i = 0; i < trainers.size(); ++i) {
        if (std::ranges::count(nodes_[node], trainers[i]) == 0) continue;
        if (pushes.empty()) first = trainers[i];
        pushes.push_back(round[i]);
        sums[node].samples += round[i]->samples;
      }
      if (pushes.empty()) continue;
      const auto sum = pserver::merge_dense(pushes, set_.merge(), scratch_, part_);
      Bytes tail;
      append_bytes(tail, sum);
      ASSERT_TRUE(sums[node].add_dense(0, sum.size(), sum.size(), std::move(tail)));
      by_first[first] = &sums[node];
    }
    round.clear();
    for (const auto& [first, sum] : by_first) round.push_back(sum);
  }

  std::uint64_t scale_;
  Nodes nodes_;
  wire::ParameterSet set_;
  table::DenseTable table_;
  std::uint64_t samples_ = 0;
  std::uint64_t pass_ = 0;
  double cost_ = 0;
  std::vector<float> scratch_, part_;
};

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// A pass in which trainer i has batches[i] batches.
inline void run_on_shard(OnShard& shard, const std::vector<std::uint64_t>& batches,
                         std::vector<std::uint64_t>& done) {
  for (std::uint64_t step = 0;; ++step) {
    std::vector<std::uint32_t> active;
    for (std::uint32_t i = 0; i < batches.size(); ++i) {
      if (step < batches[i]) active.push_back(i);
    }
    if (active.empty()) return shard.end_pass();
    shard.step(active, done);
    for (const std::uint32_t i : active) ++done[i];
  }
}

// The first passes of the job; the batches that each trainer has done by then.
inline std::vector<std::uint64_t> run_on_shard(OnShard& shard,
                                               const std::vector<std::uint64_t>& batches,
                                               int passes = 1) {
  std::vector<std::uint64_t> done(batches.size());
  for (int pass = 0; pass < passes; ++pass) run_on_shard(shard, batches, done);
  return done;
}

}  // namespace paddle::strategy
