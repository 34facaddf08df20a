// Trainers as ranks of a group, for which a shard tells what to expect.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include "engine/group/group_client.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/engine/client/client_fixture.h"
#include "tests/unit/engine/group/group_fixture.h"
#include "tests/unit/engine/group/on_shard.h"

namespace paddle::strategy {
using client::DenseParameter;

inline std::vector<DenseParameter> parameters_of(const wire::ParameterSet& set) {
  std::vector<DenseParameter> all(static_cast<std::size_t>(set.parameters_size()));
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i].parameter = i;
  return all;
}

inline wire::ParameterSet returning(wire::ParameterSet set) {
  set.set_trainers_return(true);
  return set;
}

// The memory that supervisors keep for all lives of their trainers.
struct Memories {
  explicit Memories(std::uint32_t ranks) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      all.emplace_back(::memfd_create("savepoints", 0));
  }
  // A savepoint after every step.
  GroupSavepoints::Options of(std::uint32_t rank) const {
    return {.memory = UniqueFd(::dup(all[rank].get())), .share = 0};
  }
  void lose(std::uint32_t rank) { all[rank] = UniqueFd(::memfd_create("savepoints", 0)); }

  std::vector<UniqueFd> all;
};

// A trainer in its place.
struct Rank {
  std::uint32_t rank;
  client::ParameterClient& client;
  std::vector<DenseParameter> dense;
  std::uint64_t done = 0;   // batches of the job
  std::uint64_t scale = 1;  // as OnShard's

  Status push() {
    for (DenseParameter& one : dense) {
      fill_gradient(one.gradients(), rank, done, one.parameter);
    }
    const Status pushed =
        client.push(scale * samples_of(rank, done), cost_of(rank, done), dense, {});
    ++done;
    return pushed;
  }
  void run_pass(std::uint64_t batches) {
    for (std::uint64_t i = 0; i < batches; ++i) {
      const Status pushed = push();
      ASSERT_TRUE(pushed) << pushed.error().message;
    }
  }
  // Between two passes.
  void meet() { EXPECT_TRUE(client.pause_pass({})); }
};

inline void expect_values(const Rank& rank, const OnShard& expected) {
  for (const DenseParameter& parameter : rank.dense) {
    EXPECT_TRUE(same_bits(parameter.values(), expected.values(parameter.parameter)))
        << "rank " << rank.rank << ", p" << parameter.parameter;
  }
}

// Values and optimizer state in a snapshot.
inline void expect_saved(const snapshot::SnapshotReader& reader, const wire::ParameterSet& set,
                         const OnShard& expected) {
  for (std::uint32_t p = 0; p < parameters_of(set).size(); ++p) {
    std::vector<float> value, state;
    std::uint64_t count = 0;
    ASSERT_TRUE(reader.read_dense(set.parameters(static_cast<int>(p)).name(), value, state, count));
    optim::swap_average(value, state);
    EXPECT_TRUE(same_bits(value, expected.values(p)));
    for (std::uint32_t plane = 1; plane <= expected.state_width(); ++plane) {
      const auto part =
          std::span<const float>(state).subspan((plane - 1) * value.size(), value.size());
      EXPECT_TRUE(same_bits(part, expected.plane(p, plane))) << "plane " << plane;
    }
  }
}

// A pass of which trainer 0 saves a snapshot, and a second one in which a trainer is lost.
inline void run_pass_and_lose(std::uint32_t victim, Rank& rank, std::uint64_t batches,
                              const std::string& saved) {
  rank.run_pass(batches);
  ASSERT_TRUE(rank.client.finish_pass({}));
  if (rank.rank == 0) {
    EXPECT_TRUE(rank.client.snapshots().save(saved));
  }
  rank.meet();
  Status pushed = rank.push();
  if (rank.rank == victim) {
    EXPECT_TRUE(pushed);
    return;
  }
  for (int i = 0; i < 10 && pushed; ++i) pushed = rank.push();
  ASSERT_FALSE(pushed);
  const std::string name = "rank " + std::to_string(victim) + " (";
  EXPECT_NE(pushed.error().message.find(name), std::string::npos) << pushed.error().message;
}

// A trainer that has joined, from the begin of the job: trainer 0 goes on from `resumed`, if it is
// there.
inline void train(const wire::ParameterSet& set, client::ParameterClient& client,
                  std::uint32_t trainer, const std::string& resumed,
                  const std::function<void(Rank&)>& work) {
  if (trainer == 0 && !resumed.empty()) {
    const auto reader = snapshot::SnapshotReader::open(resumed);
    ASSERT_TRUE(reader) << reader.error().message;
    const Status loaded = client.snapshots().resume(*reader);
    ASSERT_TRUE(loaded) << loaded.error().message;
  }
  const Status ready = client.ready();
  ASSERT_TRUE(ready) << ready.error().message;
  Rank rank{trainer, client, parameters_of(set)};
  ASSERT_TRUE(client.pull_dense(rank.dense));
  for (DenseParameter& one : rank.dense) {
    if (one.gradients().empty()) one.gradient.resize(one.value.size());
  }
  work(rank);
}

// Runs `work` as every rank of a group, from the begin of the job to its end. Flags are by rank;
// none: all have the usual ones.
inline void as_trainers(const wire::ParameterSet& set, std::vector<collective::GroupOptions> all,
                        const std::function<void(Rank&)>& work, const std::string& resumed = "",
                        const std::vector<GroupClient::Flags>& flags = {}) {
  collective::as_ranks(std::move(all), [&](collective::GroupOptions options) {
    const std::uint32_t rank = options.rank;
    auto group = collective::Group::join(std::move(options), collective::soon());
    ASSERT_TRUE(group) << group.error().message;
    auto client = GroupClient::create(set, *std::move(group), {},
                                      flags.empty() ? GroupClient::Flags() : flags[rank]);
    ASSERT_TRUE(client) << client.error().message;
    train(set, **client, rank, resumed, work);
  });
}
inline void as_trainers(const wire::ParameterSet& set, const std::function<void(Rank&)>& work,
                        const std::string& resumed = "",
                        const collective::Way& way = collective::ways().front()) {
  as_trainers(set, collective::options_of(set.num_trainers(), way), work, resumed);
}

}  // namespace paddle::strategy
