// Shards whose savepoints lie in a file system in memory, which outlives them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/snapshot/folder_savepoint_store.h"
#include "tests/support/files/memory_files.h"
#include "tests/unit/engine/pserver/one_shard.h"

namespace paddle::pserver {

constexpr auto kPeriod = std::chrono::seconds(10);

inline wire::ParameterSet savepoint_set(std::uint32_t trainers, const std::string& method = "sgd") {
  auto set = test::small_set(method, trainers);
  set.set_snapshot_seconds(10);
  return set;
}

inline wire::ParameterSet async_set(std::uint32_t trainers) {
  auto set = savepoint_set(trainers);
  set.set_dense_strategy(wire::STRATEGY_ASYNC);
  set.set_sparse_strategy(wire::STRATEGY_ASYNC);
  return set;
}

class SavepointsFixture : public testing::Test {
 protected:
  // Options of a shard whose pserver was started again, unless `generation` gives another number.
  ShardOptions options(bool is_sparse = false, std::uint32_t index = 0,
                       std::uint64_t generation = 0) {
    return {.index = index,
            .is_sparse = is_sparse,
            .server_generation = generation,
            .lost_trainer_grace = std::chrono::seconds(30),
            .open_savepoints =
                [this](std::uint64_t shard) -> Result<std::unique_ptr<snapshot::SavepointStore>> {
              PADDLE_TRY(auto store,
                         snapshot::FolderSavepointStore::open(kFolder, shard, nullptr, files));
              return std::unique_ptr<snapshot::SavepointStore>(std::move(store));
            }};
  }
  static std::vector<net::Outgoing> tick(OneShard& one, Duration time = {}) {
    std::vector<net::Outgoing> out;
    one.now += time;
    one.shard.on_tick(one.now, out);
    return out;
  }
  // All trainers push the next batch of a round.
  static std::vector<net::Outgoing> round(OneShard& one, std::uint64_t sequence, float gradient,
                                          std::uint32_t trainers = 2) {
    std::vector<net::Outgoing> out;
    for (std::uint32_t id = 0; id < trainers; ++id) {
      one.step = one.shard.step();
      out = one.shard.dense() != nullptr ? one.push(id, sequence, gradient)
                                         : one.push_row(id, sequence, 4 + id, gradient);
    }
    return out;
  }
  // A round after which a savepoint is made, which is whole then, as the one before must be.
  static void savepoint_round(OneShard& one, std::uint64_t sequence, float gradient,
                              std::uint32_t trainers = 2) {
    settle(one);
    one.asks_savepoint = true;
    round(one, sequence, gradient, trainers);
    one.asks_savepoint = false;
    settle(one);
  }
  // Until what is under way is whole.
  static void settle(OneShard& one) {
    for (int i = 0; i < 8; ++i) tick(one);
  }
  // The trainers join again, as after the loss of a pserver.
  static wire::Position join_again(OneShard& one, std::uint32_t trainers = 2) {
    ++one.incarnation;
    wire::Position position;
    for (std::uint32_t id = trainers; id-- > 0;) {
      const auto out = one.join(id);
      EXPECT_TRUE(is(out, FrameType::kPosition));
      if (!out.empty()) position = parse<wire::Position>(out[0]);
      if (!out.empty()) one.generation = out[0].frame.header.server_generation;
    }
    return position;
  }
  static std::vector<net::Outgoing> go_back(OneShard& one, std::uint64_t savepoint,
                                            std::uint32_t trainer = 0) {
    wire::GoBack message;
    message.set_savepoint(savepoint);
    auto out = one.send(trainer, FrameType::kGoBack, message);
    if (is(out, FrameType::kPosition)) one.generation = out[0].frame.header.server_generation;
    return out;
  }
  static std::vector<net::Outgoing> pause(OneShard& one, std::uint32_t trainer, std::uint64_t pass,
                                          std::uint64_t pauses) {
    wire::FinishPass message;
    message.set_pass(pass);
    message.set_pause(true);
    message.set_pauses(pauses);
    return one.send(trainer, FrameType::kFinishPass, message);
  }
  static std::vector<std::uint64_t> savepoints_of(const wire::Position& position) {
    return {position.savepoints().begin(), position.savepoints().end()};
  }
  static std::vector<float> rows_of(const OneShard& one) {
    const std::vector<std::uint64_t> ids{4, 5};
    std::vector<float> values(ids.size() * 3);
    one.shard.sparse(test::kTable)->read(ids, values);
    return values;
  }
  // Files of savepoints, such as "savepoint-000000000001.full".
  std::vector<std::string> names() {
    const auto found = files.list(kFolder);
    return found ? *found : std::vector<std::string>();
  }
  static std::string full(std::uint64_t savepoint) {
    return fmt::format("savepoint-{:012}.full", savepoint);
  }
  static std::string delta(std::uint64_t savepoint) {
    return fmt::format("savepoint-{:012}.delta", savepoint);
  }
  void damage(const std::string& name) {
    const std::string path = std::string(kFolder) + "/" + name;
    std::string content = *files.read_file(path, 1U << 20U);
    content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 1);
    files.write(path, content);
  }

  static constexpr const char* kFolder = "/job/savepoints";
  test::MemoryFiles files;
};

}  // namespace paddle::pserver
