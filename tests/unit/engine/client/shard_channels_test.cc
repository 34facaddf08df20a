// A trainer's channels to shards that make savepoints: what its pushes ask for, how it goes back,
// and how it leaves.
#include "engine/client/shard_channels.h"

#include <algorithm>

#include "engine/snapshot/folder_savepoint_store.h"
#include "tests/support/files/memory_files.h"
#include "tests/unit/engine/client/client_fixture.h"

namespace paddle::client {
namespace {

// Traffic on a link to a shard in this process, and whether the shard is gone.
struct Wire {
  std::vector<wire::PushPart> pushes;
  std::vector<FrameType> requests;
  Duration patience{};  // with the last answer
  bool is_gone = false;
};

class WatchedLink final : public net::Link {
 public:
  WatchedLink(std::shared_ptr<pserver::Shard> shard, std::shared_ptr<Wire> wire,
              std::uint32_t trainer)
      : link_(net::make_local_link(std::move(shard), {Role::kTrainer, trainer})),
        wire_(std::move(wire)) {}

  Status send(Frame frame, std::span<const ByteSpan> pieces, TimePoint deadline) override {
    if (wire_->is_gone) return Error{Errc::kUnreachable, "closed by peer"};
    const auto type = static_cast<FrameType>(frame.header.type);
    wire_->requests.push_back(type);
    if (type == FrameType::kPushDense) note<wire::PushDense>(frame);
    if (type == FrameType::kPushRows) note<wire::PushRows>(frame);
    return link_->send(std::move(frame), pieces, deadline);
  }
  Result<Frame> receive(TimePoint deadline, const net::TailPlace& place) override {
    wire_->patience = deadline - clock_.now();
    return link_->receive(deadline, place);
  }
  std::string peer() const override { return "watched"; }

 private:
  template <class Push>
  void note(const Frame& frame) {
    Push push;
    EXPECT_TRUE(push.ParseFromString(frame.head));
    wire_->pushes.push_back(push.part());
  }

  std::unique_ptr<net::Link> link_;
  std::shared_ptr<Wire> wire_;
  SteadyClock clock_;
};

class ShardChannelsTest : public testing::Test {
 protected:
  static wire::ParameterSet set() {
    auto set = test::small_set("sgd", 1, 1, 1);
    set.set_snapshot_seconds(10);
    return set;
  }
  // Dense shard 0 and sparse shard 0, in new processes that find the savepoints of those before.
  void start_shards(std::uint64_t generation) {
    for (const std::size_t i : {0U, 1U}) start_shard(i, generation);
  }
  void start_shard(std::size_t i, std::uint64_t generation) {
    const auto open = [this, i](std::uint64_t shard) {
      return snapshot::FolderSavepointStore::open("/" + std::to_string(i), shard, nullptr, files_);
    };
    shards_[i] = std::make_shared<pserver::Shard>(pserver::ShardOptions{
        .make_policy = strategy::make_update_policy,
        .is_sparse = i == 1,
        .num_gradient_servers = trainers_,
        .server_generation = generation,
        .lost_trainer_grace = std::chrono::seconds(30),
        .open_savepoints =
            [open](std::uint64_t shard) -> Result<std::unique_ptr<snapshot::SavepointStore>> {
          PADDLE_TRY(auto store, open(shard));
          return std::unique_ptr<snapshot::SavepointStore>(std::move(store));
        }});
  }
  Result<std::unique_ptr<ShardChannels>> try_join(const wire::ParameterSet& set,
                                                  std::uint32_t trainer = 0) {
    ShardChannels::Links links[2];
    for (const std::size_t i : {0U, 1U}) {
      wires_[i] = std::make_shared<Wire>();
      links[i].push_back(std::make_unique<WatchedLink>(shards_[i], wires_[i], trainer));
    }
    return ShardChannels::join({.parameters = set,
                                .lane = {.trainer_id = trainer, .incarnation = ++incarnation_},
                                .passes = passes_},
                               std::move(links[0]), std::move(links[1]));
  }
  std::unique_ptr<ShardChannels> join(const wire::ParameterSet& set) {
    auto joined = try_join(set);
    EXPECT_TRUE(joined) << joined.error().message;
    if (!joined) return nullptr;
    EXPECT_TRUE((*joined)->ready());
    return *std::move(joined);
  }
  Status push(ShardChannels& channels, float gradient) {
    for (DenseParameter& one : dense_) {
      one.gradient.assign(one.parameter == 0 ? 24 : 4, gradient);
    }
    rows_[0].gradients.assign(rows_[0].ids.size() * 3, gradient);
    return channels.push({1, kSamples, 2.5}, dense_, rows_);
  }
  void tick(Duration later = {}) {
    later_ += later;
    for (int i = 0; i < 4; ++i) {
      for (const auto& shard : shards_) {
        std::vector<net::Outgoing> out;
        shard->on_tick(clock_.now() + later_, out);
      }
    }
  }
  // A savepoint of both shards after the push after the next one.
  void savepoint(ShardChannels& channels) {
    tick();
    EXPECT_TRUE(push(channels, 0.5F));
    EXPECT_TRUE(push(channels, 0.5F));
    tick(std::chrono::seconds(10));
    EXPECT_TRUE(push(channels, 0.5F));
    EXPECT_TRUE(push(channels, 0.5F));
    tick();
  }
  std::vector<float> rows() {
    std::vector<float> values(rows_[0].ids.size() * 3);
    shards_[1]->sparse(test::kTable)->read(rows_[0].ids, values);
    return values;
  }
  std::vector<float> dense() {
    return {shards_[0]->dense()->values().begin(), shards_[0]->dense()->values().end()};
  }

  test::MemoryFiles files_;
  std::shared_ptr<pserver::Shard> shards_[2];  // dense, sparse
  std::shared_ptr<Wire> wires_[2];
  std::vector<DenseParameter> dense_ = dense_parameters();
  std::vector<SparseRows> rows_ = some_rows();
  SteadyClock clock_;
  Duration later_{};
  std::uint32_t incarnation_ = 0;
  std::uint64_t passes_ = UINT64_MAX;  // of the job
  std::uint32_t trainers_ = 1;
};

TEST_F(ShardChannelsTest, AnAnnouncedSavepointIsAskedOfAllShardsWithTheNextPush) {
  start_shards(2);
  const auto channels = join(set());
  savepoint(*channels);
  for (const auto& wire : wires_) {
    ASSERT_EQ(wire->pushes.size(), 4U);
    std::vector<bool> asked;
    std::vector<std::uint64_t> whole;
    for (const wire::PushPart& part : wire->pushes) {
      asked.push_back(part.savepoint());
      whole.push_back(part.whole_savepoint());
    }
    EXPECT_EQ(asked, (std::vector<bool>{false, false, false, true}));
    EXPECT_EQ(whole, (std::vector<std::uint64_t>{0, 1, 1, 1}));
  }
  ASSERT_TRUE(push(*channels, 1));
  ASSERT_TRUE(push(*channels, 1));
  EXPECT_EQ(wires_[1]->pushes.back().whole_savepoint(), 5U);
}

// Neither is known to be on the other shard.
TEST_F(ShardChannelsTest, NoSavepointIsWholeEverywhereWhileShardsNameDifferentOnes) {
  start_shards(2);
  const auto channels = join(set());
  savepoint(*channels);
  ASSERT_TRUE(push(*channels, 1));
  files_.fail(0, ENOSPC, true);
  tick(std::chrono::seconds(10));
  ASSERT_TRUE(push(*channels, 1));
  ASSERT_TRUE(push(*channels, 1));
  files_.stop_failing();
  tick();
  // The dense shard makes the next savepoint at once, the sparse one after some frames.
  tick(std::chrono::seconds(60));
  ASSERT_TRUE(push(*channels, 1));
  ASSERT_TRUE(push(*channels, 1));
  std::vector<net::Outgoing> out;
  shards_[0]->on_tick(clock_.now() + later_, out);
  ASSERT_TRUE(push(*channels, 1));
  ASSERT_TRUE(push(*channels, 1));
  EXPECT_EQ(wires_[0]->pushes.back().whole_savepoint(), 0U);
}

// Its thread may push rows while another receives answers to dense pushes.
TEST_F(ShardChannelsTest, APushOutsideRoundsAsksForNoSavepoint) {
  auto mixed = set();
  mixed.set_sparse_strategy(wire::STRATEGY_ASYNC);
  start_shards(2);
  const auto channels = join(mixed);
  savepoint(*channels);
  ASSERT_TRUE(push(*channels, 1));
  EXPECT_TRUE(std::ranges::any_of(wires_[0]->pushes, &wire::PushPart::savepoint));
  for (const wire::PushPart& part : wires_[1]->pushes) {
    EXPECT_FALSE(part.savepoint());
    EXPECT_EQ(part.whole_savepoint(), 0U);
  }
}

TEST_F(ShardChannelsTest, AJobThatLostAShardGoesBackWithAllInRounds) {
  start_shards(2);
  std::vector<float> values[2];
  {
    const auto channels = join(set());
    savepoint(*channels);
    values[0] = dense();
    values[1] = rows();
    ASSERT_TRUE(push(*channels, 7));
  }
  start_shard(1, 3);
  const auto channels = join(set());
  const JobProgress progress = channels->progress();
  EXPECT_TRUE(progress.is_running) << "nothing is loaded";
  EXPECT_EQ(progress.batches, 4U);
  EXPECT_EQ(progress.samples, 4 * kSamples);
  EXPECT_FALSE(channels->is_behind());
  EXPECT_EQ(dense(), values[0]);
  EXPECT_EQ(rows(), values[1]);
  ASSERT_TRUE(push(*channels, 7));
  EXPECT_EQ(shards_[0]->step(), 5U);
  EXPECT_EQ(shards_[1]->step(), 5U);
}

TEST_F(ShardChannelsTest, TheOldChannelsAreToldThatTheJobWentBack) {
  start_shards(2);
  const auto old = join(set());
  savepoint(*old);
  start_shard(1, 3);
  const auto channels = join(set());
  ASSERT_TRUE(channels);
  const auto pulled = old->pull(dense_);
  ASSERT_FALSE(pulled);
  EXPECT_NE(pulled.error().message, "");
}

TEST_F(ShardChannelsTest, ALostShardOutsideRoundsGoesBackAloneAndGetsWhatItLacks) {
  auto async = set();
  async.set_sparse_strategy(wire::STRATEGY_ASYNC);
  start_shards(2);
  {
    const auto channels = join(async);
    ASSERT_TRUE(push(*channels, 1));
    tick();
    tick(std::chrono::seconds(10));
    ASSERT_TRUE(push(*channels, 2));
  }
  start_shard(1, 3);
  const auto channels = join(async);
  EXPECT_EQ(shards_[0]->step(), 2U) << "it stays as it is";
  EXPECT_EQ(shards_[1]->step(), 1U);
  EXPECT_EQ(channels->progress().batches, 1U);
  EXPECT_TRUE(channels->is_behind());
  ASSERT_TRUE(push(*channels, 2));
  EXPECT_EQ(shards_[0]->step(), 2U);
  EXPECT_EQ(shards_[1]->step(), 2U);
}

TEST_F(ShardChannelsTest, WithoutASavepointThatAllHaveTheJobGoesBackToItsSnapshot) {
  start_shards(2);
  const auto old = join(set());
  savepoint(*old);
  files_ = test::MemoryFiles();
  start_shard(1, 3);
  const auto joined = try_join(set());
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, Errc::kUnreachable);
  EXPECT_NE(joined.error().message.find("no savepoint"), std::string::npos)
      << joined.error().message;
  EXPECT_NE(shards_[0]->failure(), "");
}

// A shard answers when it has read its savepoint, which may take longer than any other request.
TEST_F(ShardChannelsTest, ARollbackMayTakeLong) {
  start_shards(2);
  {
    const auto channels = join(set());
    tick();
  }
  start_shards(3);
  const auto joined = try_join(set());
  ASSERT_TRUE(joined) << joined.error().message;
  for (const auto& wire : wires_) {
    EXPECT_EQ(wire->requests.back(), FrameType::kGoBack);
    EXPECT_GT(wire->patience, std::chrono::minutes(5));
  }
  ASSERT_TRUE((*joined)->ready());
  EXPECT_LE(wires_[0]->patience, std::chrono::seconds(60));
}

// It had ended before its last pass.
TEST_F(ShardChannelsTest, ATrainerThatLeavesAfterTwoMeetingsEndsAJobToo) {
  passes_ = 9;
  start_shards(2);
  const auto channels = join(set());
  for (const bool pauses : {false, true, true}) ASSERT_TRUE(channels->end_pass({}, pauses));
  ASSERT_TRUE(channels->leave());
  const auto back = try_join(set());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_TRUE((*back)->progress().is_over);
}

TEST_F(ShardChannelsTest, APortThatATrainerHasLeftAfterTheLastPassSaysThatTheJobIsOver) {
  for (const std::uint64_t passes : {0U, 1U}) {
    auto two = set();
    two.set_num_trainers(2);
    passes_ = passes;
    trainers_ = 2;
    start_shards(2);
    ASSERT_TRUE(join(two)->leave());
    start_shard(1, 3);
    const auto back = try_join(two, 1);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ((*back)->progress().is_over, passes == 0) << "or it stops in a pass";
    if (passes > 0) continue;
    EXPECT_EQ(wires_[1]->requests, std::vector{FrameType::kJoin}) << "nothing goes back";
    ASSERT_TRUE((*back)->leave());
    EXPECT_TRUE(shards_[0]->finished());
  }
}

TEST_F(ShardChannelsTest, APortThatIsGoneKeepsNobodyFromTellingTheOthersThatItLeaves) {
  start_shards(2);
  const auto channels = join(set());
  wires_[0]->is_gone = true;
  const Status left = channels->leave();
  ASSERT_FALSE(left);
  EXPECT_EQ(left.error().code, Errc::kUnreachable);
  EXPECT_NE(left.error().message.find("dense port 0"), std::string::npos) << left.error().message;
  EXPECT_TRUE(shards_[1]->finished());
  EXPECT_FALSE(shards_[0]->finished());
}

TEST_F(ShardChannelsTest, AClientLeavesAPortThatIsGoneWithoutAnError) {
  start_shards(2);
  const auto client = strategy::make_client(join(set()), {});
  wires_[0]->is_gone = true;
  const Status left = client->leave();
  EXPECT_TRUE(left) << left.error().message;
  EXPECT_TRUE(shards_[1]->finished());
}

}  // namespace
}  // namespace paddle::client
