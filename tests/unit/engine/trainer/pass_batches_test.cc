// The batches of a pass whose end all trainers agree on.
#include "engine/trainer/pass_batches.h"

#include "tests/unit/engine/trainer/loop_fixture.h"

namespace paddle::trainer {
namespace {

// Hears the answers of the others, one for each question; none left: they say no.
class HearingClient : public IdleClient {
 public:
  Result<bool> is_any(bool own) override {
    told.push_back(own);
    const bool others = told.size() <= answers.size() && answers[told.size() - 1];
    return own || others;
  }
  std::vector<bool> answers;
  std::vector<bool> told;
};

class PassBatchesTest : public LoopTest {
 protected:
  // The first slot of every batch: "1 2|3".
  std::string read(config::Uneven uneven, std::uint64_t skip = 0) {
    PassBatches batches(options_.train_data, dictionary_, client, {uneven, 0, skip, {}});
    std::string all;
    for (;;) {
      const auto batch = batches.next();
      if (!batch) return all + batch.error().message;
      if (!*batch) return all;
      std::string text;
      for (const float value : (*batch)->slots[0].values)
        text += std::to_string(static_cast<int>(value));
      all += text + "|";
    }
  }
  void write(const std::string& lines) { folder_.write("train.csv", lines); }

  HearingClient client;
};

TEST_F(PassBatchesTest, JoinEndsWithTheOwnData) {
  options_.train_data.batch_size = 2;
  EXPECT_EQ(read(config::Uneven::kJoin), "12|3|");
  EXPECT_EQ(read(config::Uneven::kJoin, 1), "3|");
  EXPECT_TRUE(client.told.empty());
}

TEST_F(PassBatchesTest, DropEndsWithTheFirstTrainerThatHasNoFullBatch) {
  options_.train_data.batch_size = 2;
  EXPECT_EQ(read(config::Uneven::kDrop), "12|") << "the last batch is short";
  EXPECT_EQ(client.told, (std::vector<bool>{false, true}));
  client.told.clear();
  options_.train_data.batch_size = 1;
  client.answers = {false, true};
  EXPECT_EQ(read(config::Uneven::kDrop), "1|") << "another trainer is at its end";
  client.told.clear();
  client.answers = {};
  EXPECT_EQ(read(config::Uneven::kDrop, 3), "");
}

TEST_F(PassBatchesTest, PadRepeatsTheDataUntilNobodyHasAny) {
  client.answers = std::vector<bool>(8, true);
  EXPECT_EQ(read(config::Uneven::kPad), "1|2|3|1|2|3|1|2|");
  EXPECT_EQ(client.told,
            (std::vector<bool>{true, true, true, false, false, false, false, false, false}));
  client.told.clear();
  client.answers = {};
  EXPECT_EQ(read(config::Uneven::kPad), "1|2|3|");
}

// A stopped job goes on with the batch that would have come next.
TEST_F(PassBatchesTest, PadGoesOnWithinTheRepeatedData) {
  for (std::uint64_t skip = 0; skip < 8; ++skip) {
    client.told.clear();
    client.answers = std::vector<bool>(8 - skip, true);
    const std::string all = "1|2|3|1|2|3|1|2|";
    EXPECT_EQ(read(config::Uneven::kPad, skip), all.substr(2 * skip)) << skip;
  }
}

TEST_F(PassBatchesTest, ATrainerWithoutABatchIsNamed) {
  options_.train_data.trainer_id = 2;
  options_.train_data.batch_size = 4;
  EXPECT_EQ(read(config::Uneven::kDrop),
            "trainer 2 has no full batch of 4, which uneven = 'drop' needs");
  write("");
  EXPECT_EQ(read(config::Uneven::kPad),
            "trainer 2 has no record, but uneven = 'pad' repeats records of every trainer");
  EXPECT_TRUE(client.told.empty());
}

// The loop takes the batches from here.
TEST_F(PassBatchesTest, ALoopDropsWhatIsLeft) {
  options_.uneven = config::Uneven::kDrop;
  options_.train.batch_size = options_.train_data.batch_size = 2;
  const Status done = run();
  ASSERT_TRUE(done) << done.error().message;
  ASSERT_EQ(client_.pushed.size(), 2U);
  for (const IdleClient::Pushed& push : client_.pushed) EXPECT_EQ(push.samples, 2U);
}

}  // namespace
}  // namespace paddle::trainer
