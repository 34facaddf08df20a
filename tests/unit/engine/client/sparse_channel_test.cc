#include "engine/client/sparse_channel.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "engine/math/initial.h"
#include "tests/unit/engine/client/client_fixture.h"

namespace paddle::client {
namespace {

// Counts the pulls of rows in flight, and the bytes that answer them.
class CountingLink final : public net::Link {
 public:
  CountingLink(std::unique_ptr<net::Link> link, std::size_t& most, std::size_t* bytes = nullptr)
      : link_(std::move(link)), most_(most), bytes_(bytes) {}
  Status send(Frame frame, std::span<const ByteSpan> pieces, TimePoint deadline) override {
    if (frame.header.type == static_cast<std::uint8_t>(FrameType::kPullRows)) ++open_;
    most_ = std::max(most_, open_);
    return link_->send(std::move(frame), pieces, deadline);
  }
  Result<Frame> receive(TimePoint deadline, const net::TailPlace& place) override {
    auto frame = link_->receive(deadline, bytes_ == nullptr ? place : net::TailPlace());
    if (!frame || frame->header.type != static_cast<std::uint8_t>(FrameType::kRowValues)) {
      return frame;
    }
    --open_;
    if (bytes_ != nullptr) *bytes_ += frame->tail.size();
    return frame;
  }
  std::string peer() const override { return link_->peer(); }

 private:
  std::unique_ptr<net::Link> link_;
  std::size_t open_ = 0;
  std::size_t& most_;
  std::size_t* bytes_;
};

TEST(SparseChannel, PullsArePipelined) {
  const auto set = test::small_set("sgd", 1, 1, 1);
  std::size_t most = 0;
  std::vector<std::unique_ptr<net::Link>> dense;
  dense.push_back(local_shard(0, false));
  std::vector<std::unique_ptr<net::Link>> sparse;
  sparse.push_back(std::make_unique<CountingLink>(local_shard(0, true), most));
  auto joined = ShardChannels::join({.parameters = set}, std::move(dense), std::move(sparse));
  ASSERT_TRUE(joined);
  const auto client = *std::move(joined);
  ASSERT_TRUE(client->ready());
  std::vector<SparseRows> rows = {{2, {}, {}, {}}};
  for (std::uint64_t id = 0; id < 400'000; ++id) rows[0].ids.push_back(id);  // 8 MB
  ASSERT_TRUE(client->pull(rows));
  EXPECT_GT(most, 1U);
  EXPECT_LE(most, 8U);
  for (const std::size_t i : {0U, 100'000U, 399'999U}) {
    std::vector<float> row(3);
    optim::fill_initial_row(row, set.parameters(2), set.seed(), rows[0].ids[i]);
    EXPECT_EQ(std::vector<float>(rows[0].values.begin() + static_cast<std::ptrdiff_t>(3 * i),
                                 rows[0].values.begin() + static_cast<std::ptrdiff_t>(3 * i + 3)),
              row);
  }
  // A refusal ends all pulls in flight; answers to the others are late copies.
  ASSERT_TRUE(client->leave());
  const Status refused = client->pull(rows);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("has left"), std::string::npos);
  EXPECT_FALSE(client->pull(rows));
}

// Rows of one shard come in one piece, those of two shards in many.
TEST(SparseChannel, ValuesGoWhereTheCallerWantsThem) {
  for (const std::uint32_t shards : {1U, 2U}) {
    const auto set = test::small_set("sgd", 1, 1, shards);
    const auto channels = channels_of(set);
    ASSERT_TRUE(channels->ready());
    std::vector<SparseRows> rows(2, SparseRows{2, {}, {}, {}});
    for (std::uint64_t id = 0; id < 1000; ++id) {
      for (SparseRows& table : rows) table.ids.push_back(id);
    }
    ASSERT_TRUE(channels->pull(std::span(rows).first(1)));
    std::vector<float> place(3000);
    rows[1].placed_values = place;
    ASSERT_TRUE(channels->pull(std::span(rows).last(1)));
    EXPECT_EQ(place, rows[0].values);
    EXPECT_TRUE(rows[1].values.empty());
  }
}

// The rows of two shards are many runs, which are sent.
TEST(SparseChannel, AShardWithALoanWritesRowsToTheirPlace) {
  for (const std::uint32_t shards : {1U, 2U}) {
    auto set = test::small_set("adagrad", 1, 1, shards);
    *set.add_parameters() = set.parameters(test::kTable);
    set.mutable_parameters(3)->set_name("more words");
    set.mutable_parameters(3)->set_dims(1, 5);
    SparseChannel::Loans loans;
    std::size_t most = 0, bytes = 0;
    ShardChannels::Links dense, sparse;
    dense.push_back(local_shard(0, false));
    for (std::uint32_t i = 0; i < shards; ++i) {
      loans.push_back(std::make_shared<parameter::RowLoan>());
      sparse.push_back(
          std::make_unique<CountingLink>(local_shard(i, true, loans.back()), most, &bytes));
    }
    auto joined = ShardChannels::join({.parameters = set, .row_loans = loans}, std::move(dense),
                                      std::move(sparse));
    ASSERT_TRUE(joined);
    const auto lending = *std::move(joined);
    const auto sending = channels_of(set);
    ASSERT_TRUE(lending->ready() && sending->ready());
    for (std::uint64_t step = 1; step <= 3; ++step) {
      std::vector<SparseRows> rows{{2, {}, {}, {}}, {3, {}, {}, {}}};
      for (std::uint64_t id = 0; id < 100'000; ++id) {  // several frames
        rows[0].ids.push_back(id * step);
        if (id % 3 != 0) rows[1].ids.push_back(id);
      }
      auto expected = rows;
      ASSERT_TRUE(lending->pull(rows) && sending->pull(expected));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(rows[i].values, expected[i].values);
        EXPECT_NE(rows[i].values.back(), 0);
        rows[i].gradients = expected[i].gradients = rows[i].values;
      }
      ASSERT_TRUE(lending->push({step, 4, 1}, rows) && sending->push({step, 4, 1}, expected));
    }
    EXPECT_EQ(bytes == 0, shards == 1);
    EXPECT_GT(most, 1U);
    ASSERT_TRUE(lending->leave());
    std::vector<SparseRows> rows{{2, {1}, {}, {}}};
    EXPECT_FALSE(lending->pull(rows)) << "a refused pull leaves no loan";
    EXPECT_TRUE(loans[0]->values.empty());
  }
}

TEST(SparseChannel, RefusesRowsThatAreNotSortedOrOfAnotherSize) {
  const auto set = test::small_set("sgd", 1, 1, 2);
  const auto client = channels_of(set);
  ASSERT_TRUE(client->ready());
  for (const SparseRows& bad : std::vector<SparseRows>{{2, {5, 4}, {}, std::vector<float>(6)},
                                                       {2, {4, 4}, {}, std::vector<float>(6)},
                                                       {2, {4, 5}, {}, std::vector<float>(5)},
                                                       {0, {4, 5}, {}, std::vector<float>(6)},
                                                       {9, {4, 5}, {}, std::vector<float>(6)}}) {
    const Status pushed = client->push({1, 4, 1}, {&bad, 1});
    ASSERT_FALSE(pushed);
    EXPECT_EQ(pushed.error().code, Errc::kUsage);
  }
  const SparseRows good{2, {4, 5}, {}, std::vector<float>(6)};
  EXPECT_TRUE(client->push({1, 4, 1}, {&good, 1}));
}

}  // namespace
}  // namespace paddle::client
