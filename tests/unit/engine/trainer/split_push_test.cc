// A trainer that is lost in a push which one of two ports has applied, and its next process: the
// parameters end with the bits of an undisturbed training.
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "engine/net/local_link.h"
#include "engine/pserver/shard.h"
#include "engine/strategy/strategy_table.h"
#include "engine/trainer/start.h"
#include "tests/unit/engine/trainer/loop_fixture.h"

namespace paddle::trainer {
namespace {

constexpr std::uint32_t kPorts = 2;
constexpr std::uint32_t kPasses = 3;
constexpr std::uint32_t kBatches = 3;  // of each pass
constexpr std::uint32_t kNever = 100;

// Fails instead of sending this push, which no port after it receives either.
class LosingLink final : public net::Link {
 public:
  LosingLink(std::unique_ptr<net::Link> to, std::uint32_t lost_push)
      : to_(std::move(to)), pushes_left_(lost_push) {}
  Status send(Frame frame, std::span<const ByteSpan> pieces, TimePoint deadline) override {
    if (frame.header.type == static_cast<std::uint8_t>(FrameType::kPushDense) &&
        --pushes_left_ == 0)
      return Error{Errc::kUnreachable, "lost in the push"};
    return to_->send(std::move(frame), pieces, deadline);
  }
  Result<Frame> receive(TimePoint deadline, const net::TailPlace& place) override {
    return to_->receive(deadline, place);
  }
  std::string peer() const override { return to_->peer(); }

 private:
  std::unique_ptr<net::Link> to_;
  std::uint32_t pushes_left_;
};

// The pservers of a job, and the memory that outlives the processes of its trainer.
struct RunningJob {
  RunningJob() {
    for (std::uint32_t i = 0; i < kPorts; ++i) {
      ports.push_back(std::make_shared<pserver::Shard>(
          pserver::ShardOptions{.make_policy = strategy::make_update_policy,
                                .index = i,
                                .server_generation = 1,
                                .lost_trainer_grace = std::chrono::seconds(100)}));
    }
  }
  std::vector<std::shared_ptr<pserver::Shard>> ports;
  UniqueFd memory{::memfd_create("kept", 0)};
  std::uint32_t incarnation = 0;
};

class SplitPush : public LoopTest {
 protected:
  using Values = std::vector<LargeArray<float>>;

  void SetUp() override {
    LoopTest::SetUp();
    auto job = config::read_job(folder_ / "job.toml");
    ASSERT_TRUE(job);
    flags_.pservers = {"in this process"};
    flags_.ports_num = kPorts;
    flags_.ports_num_for_sparse = 0;
    set_ = parameter_set(*job, model_->parameters(), flags_);
    set_.set_min_block_size(1);
    options_.train.passes = kPasses;
    options_.train.snapshots_kept = 0;
  }
  void save_in(const std::string& name) { save_dir_ = folder_ / name; }
  void decide() {
    options_.test_data = options_.train_data;
    options_.train.best = "rmse";
  }
  // The next process of the trainer. It ends in the push of this number, which port 1 lacks.
  Status process(RunningJob& job, std::uint32_t lost_push = kNever) {
    client::ShardChannels::Links links;
    for (std::uint32_t i = 0; i < kPorts; ++i) {
      auto link = net::make_local_link(job.ports[i], {Role::kTrainer, 0});
      links.push_back(std::make_unique<LosingLink>(std::move(link), i == 1 ? lost_push : kNever));
    }
    PADDLE_TRY(auto channels,
               client::ShardChannels::join({.parameters = set_,
                                            .lane = {.incarnation = job.incarnation++},
                                            .passes = options_.train.passes},
                                           std::move(links), {}));
    const auto client = strategy::make_client(std::move(channels), {});
    LoopOptions loop = options_;
    PADDLE_TRY_STATUS(start_training(flags_, *client, loop.restored_from,
                                     [](const snapshot::SnapshotReader&) { return Status(); }));
    continue_from_servers(*client, loop);
    PADDLE_TRY(const auto kept, open_replay_log(UniqueFd(::dup(job.memory.get())), set_, *client,
                                                model_->empty_tally(), model_->dense()));
    loop.kept = kept.get();
    MetricsFile metrics = *MetricsFile::open(metrics_);
    Status done = Loop(std::move(loop), dictionary_, *model_, *client, metrics).run();
    samples_ = client->progress().samples;
    return done;
  }
  // After a training, in one process or in two.
  Values train(std::uint32_t lost_push = kNever) {
    RunningJob job;
    metrics_ = folder_ / "metrics-" + std::to_string(lost_push);
    if (!save_dir_.empty()) {
      flags_.save_dir = options_.save_dir = save_dir_ + std::to_string(lost_push);
      std::filesystem::create_directory(options_.save_dir);
    }
    if (lost_push != kNever) {
      const Status lost = process(job, lost_push);
      EXPECT_TRUE(!lost && lost.error().code == Errc::kUnreachable);
    }
    const Status done = process(job);
    EXPECT_TRUE(done) << done.error().message;
    Values values;
    for (const client::DenseParameter& one : model_->dense()) values.push_back(one.value);
    return values;
  }
  void expect_same_bits() {
    const Values whole = train();
    const std::uint32_t passes = kPasses - flags_.start_pass;
    for (std::uint32_t lost = 1; lost <= passes * kBatches; ++lost) {
      EXPECT_TRUE(train(lost) == whole) << "push " << lost;
      EXPECT_EQ(samples_, kPasses * kBatches) << "push " << lost;
      EXPECT_EQ(pass_lines(), passes) << "push " << lost;
    }
  }

  // The ends of passes in the metrics of all processes.
  std::size_t pass_lines() const {
    const std::string lines = test::TemporaryFolder::read(metrics_);
    std::size_t count = 0;
    for (std::size_t at = 0; (at = lines.find(R"({"kind":"pass")", at)) != std::string::npos; ++at)
      ++count;
    return count;
  }

  TrainOptions flags_;
  std::string save_dir_;  // "": no snapshots
  wire::ParameterSet set_;
  std::string metrics_;
  std::uint64_t samples_ = 0;  // of the whole job, as the pservers count them
};

TEST_F(SplitPush, OfAnyBatchIsRepeatedWithTheSameBits) {
  expect_same_bits();
}

TEST_F(SplitPush, AfterTheBarrierOfASaveIsRepeated) {
  save_in("save");
  expect_same_bits();
}

TEST_F(SplitPush, AfterADecisionIsRepeated) {
  decide();
  expect_same_bits();
}

TEST_F(SplitPush, AfterADecisionAndASaveIsRepeated) {
  save_in("save");
  decide();
  expect_same_bits();
}

TEST_F(SplitPush, AfterTheFirstDecisionOfAJobThatResumesIsRepeated) {
  save_in("save");
  train();
  flags_.init_model_path = options_.save_dir + "/pass-00000";
  flags_.start_pass = 1;
  save_in("resumed");
  decide();
  expect_same_bits();
}

}  // namespace
}  // namespace paddle::trainer
