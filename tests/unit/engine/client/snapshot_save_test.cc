// Snapshots of tables that drop rows by score, and snapshots of changes only.
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "engine/snapshot/reader.h"
#include "engine/snapshot/retention.h"
#include "engine/snapshot/writer.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/engine/client/client_fixture.h"

namespace paddle::client {
namespace {

constexpr std::uint32_t kTable = 2;
using Ids = std::vector<std::uint64_t>;

wire::ParameterSet set_of(const std::string& method, std::uint32_t dense, std::uint32_t sparse) {
  auto set = test::small_set(method, 1, dense, sparse);
  set.set_delta_snapshots(true);
  wire::TablePolicy& policy = *set.mutable_parameters(kTable)->mutable_table();
  policy.set_entry_count(2);
  policy.set_expire_passes(2);
  wire::SlotEntry& entry = *policy.add_entry();
  entry.set_slot("all");
  entry.set_entry_count(1);
  wire::ShrinkPolicy& shrink = *policy.mutable_shrink();
  shrink.set_label("click");
  shrink.set_decay(0.9F);
  shrink.set_threshold(0.5F);
  shrink.set_nonclick_coefficient(0.1F);
  shrink.set_click_coefficient(1);
  return set;
}

class Job {
 public:
  explicit Job(const wire::ParameterSet& set) : client(client::client_of(set)) {}
  // Pushes a batch with this many clicks on each id; slot 0 admits an id when it is seen twice.
  void push(const Ids& ids, float clicks, float slot = 1) {
    std::vector<client::SparseRows> rows{{kTable, ids, {}, {}, {}}};
    for (const std::uint64_t id : ids) {
      for (int i = 0; i < 3; ++i) rows[0].gradients.push_back(0.01F * static_cast<float>(id % 97));
      rows[0].notes.insert(rows[0].notes.end(), {clicks + 2, clicks, slot});
    }
    std::vector<client::DenseParameter> dense{{0, {}, LargeArray<float>(24, 0.5F)},
                                              {1, {}, LargeArray<float>(4, -0.25F)}};
    const Status pushed = client->push(4, 1, dense, rows);
    ASSERT_TRUE(pushed) << pushed.error().message;
  }
  client::TableTotals finish() {
    const auto totals = client->finish_pass({});
    EXPECT_TRUE(totals);
    return totals->tables.at(kTable);
  }
  std::unique_ptr<client::ParameterClient> client;
};

Ids range(std::uint64_t begin, std::uint64_t end) {
  Ids ids;
  for (std::uint64_t id = begin; id < end; ++id) ids.push_back(id * 1'000'003);
  return ids;
}

struct Content {
  std::map<std::uint64_t, std::vector<float>> rows;  // marks, score, value, state
  std::vector<float> value, state;
  bool operator==(const Content&) const = default;
};

Content content_of(const std::string& directory) {
  Content content;
  const auto reader = snapshot::SnapshotReader::open(directory);
  EXPECT_TRUE(reader) << reader.error().message;
  if (!reader) return content;
  EXPECT_TRUE(reader->read_rows("words", [&](const table::Row& row) -> Status {
    std::vector<float> all{static_cast<float>(row.marks.updates),
                           static_cast<float>(row.marks.pack() >> 32U), row.score.shows,
                           row.score.clicks};
    all.insert(all.end(), row.value.begin(), row.value.end());
    all.insert(all.end(), row.state.begin(), row.state.end());
    EXPECT_TRUE(content.rows.emplace(row.id, std::move(all)).second) << row.id;
    return {};
  }));
  std::uint64_t count = 0;
  EXPECT_TRUE(reader->read_dense("fc.w", content.value, content.state, count));
  return content;
}

TEST(Shrink, RowsGoWhenTheirDecayedScoreIsTooLow) {
  Job job(set_of("adagrad", 1, 2));
  ASSERT_TRUE(job.client->ready());
  job.push(range(0, 10), 0);    // shows 2: 0.1 * 2 * 0.9 is too little
  job.push(range(10, 20), 1);   // shows 3, clicks 1: (0.1 * 2 + 1) * 0.9^n
  job.push(range(20, 30), 10);  // shows 12, clicks 10: far over the threshold
  auto table = job.finish();
  EXPECT_EQ(table.shrunk, 10U);
  EXPECT_EQ(table.rows, 20U);
  EXPECT_EQ(table.expired, 0U);
  // Scores fall as 1.2 * 0.9^n over n passes; rows unseen for more than two expire.
  for (int pass = 2; pass <= 8; ++pass) {
    if (pass % 2 == 0) job.push(range(20, 30), 0);
    table = job.finish();
    EXPECT_EQ(table.shrunk, 0U) << pass;
    EXPECT_EQ(table.expired, pass == 3 ? 10U : 0U) << pass;
  }
  EXPECT_EQ(table.rows, 10U);
}

TEST(Shrink, ScoresDecayByTheFormula) {
  const test::TemporaryFolder folder;
  Job job(set_of("sgd", 1, 1));
  ASSERT_TRUE(job.client->ready());
  job.push({7}, 3);
  job.push({7}, 1);  // shows 8, clicks 4
  EXPECT_EQ(job.finish().shrunk, 0U);
  EXPECT_EQ(job.finish().shrunk, 0U);
  ASSERT_TRUE(job.client->snapshots().save(folder / "pass-00000"));
  const auto row = content_of(folder / "pass-00000").rows.at(7);
  EXPECT_EQ(row[2], 8 * 0.9F * 0.9F);
  EXPECT_EQ(row[3], 4 * 0.9F * 0.9F);
}

TEST(Shrink, NotesThatCannotBeAreRefused) {
  for (const std::vector<float>& notes : {std::vector<float>{-1, 0, 0}, {1, 1, 2}, {1, 1, -1}}) {
    Job job(set_of("sgd", 1, 1));
    ASSERT_TRUE(job.client->ready());
    std::vector<client::SparseRows> rows{{kTable, {7}, {}, {1, 1, 1}, notes}};
    EXPECT_FALSE(job.client->push(4, 1, {}, rows));
  }
}

TEST(EntryOfSlots, EachSlotHasItsOwnCount) {
  Job job(set_of("sgd", 1, 1));
  ASSERT_TRUE(job.client->ready());
  job.push({7}, 10, 0);
  job.push({8}, 10, 1);
  job.push({9}, 10, 0);
  job.push({9}, 10, 1);  // a slot that admits at once
  const auto table = job.finish();
  EXPECT_EQ(table.rows, 2U);
  EXPECT_EQ(table.candidates, 1U);
}

// Trains between two snapshots, so that rows are made, changed, aged and removed.
void train_on(Job& job, std::uint64_t round) {
  job.push(range(round * 10, round * 10 + 40), 5);    // some old, some new
  job.push(range(1000, 1010 + round), 0);             // no clicks: removed at once
  job.push(range(2000 + round, 2010 + round), 5, 0);  // candidates, some for long
  job.finish();
}

TEST(DeltaSnapshot, WithItsBaseHoldsTheSameBitsAsAFullOne) {
  for (const char* const method : {"adagrad", "adam"}) {
    const test::TemporaryFolder folder;
    auto set = set_of(method, 2, 3);
    set.mutable_optimizer()->mutable_average()->set_window(0.5F);  // saved in place of the values
    Job job(set);
    Job twin(set);
    for (Job* one : {&job, &twin}) {
      ASSERT_TRUE(one->client->ready());
      train_on(*one, 0);
    }
    ASSERT_TRUE(job.client->snapshots().save(folder / "pass-00000"));
    for (std::uint64_t round = 1; round < 6; ++round) {
      for (Job* one : {&job, &twin}) train_on(*one, round);
      const std::string delta = folder / snapshot::pass_name(round);
      const std::string full = folder / ("full-" + std::to_string(round));
      const Status saved = job.client->snapshots().save_delta(delta, folder / "pass-00000");
      ASSERT_TRUE(saved) << saved.error().message;
      ASSERT_TRUE(twin.client->snapshots().save(full));
      EXPECT_EQ(content_of(delta), content_of(full)) << round;
      EXPECT_GT(content_of(full).rows.size(), 40U);
    }

    // On other numbers of ports, training continues with the same bits.
    for (const char* const name : {"pass-00005", "full-5"}) {
      auto other = set;
      other.set_dense_shards(1);
      other.set_sparse_shards(2);
      Job restored(other);
      const Status loaded = restored.client->snapshots().load(folder / name);
      ASSERT_TRUE(loaded) << loaded.error().message;
      ASSERT_TRUE(restored.client->ready());
      train_on(restored, 6);
      ASSERT_TRUE(restored.client->snapshots().save(folder / ("on-" + std::string(name))));
    }
    train_on(job, 6);
    ASSERT_TRUE(job.client->snapshots().save(folder / "on"));
    EXPECT_EQ(content_of(folder / "on-pass-00005"), content_of(folder / "on"));
    EXPECT_EQ(content_of(folder / "on-full-5"), content_of(folder / "on"));
  }
}

TEST(DeltaSnapshot, HoldsOnlyWhatChangedSinceTheLastFullOne) {
  const test::TemporaryFolder folder;
  auto set = set_of("sgd", 1, 1);
  set.mutable_parameters(kTable)->clear_table();
  Job job(set);
  ASSERT_TRUE(job.client->ready());
  const auto push = [&job](const Ids& ids) {
    std::vector<client::SparseRows> rows{{kTable, ids, {}, std::vector<float>(ids.size() * 3, 1)}};
    ASSERT_TRUE(job.client->push(4, 1, {}, rows));
  };
  const auto size = [&](const std::string& name) {
    return std::filesystem::file_size(folder / (name + "/words.sparse-00000"));
  };
  push(range(0, 1000));
  ASSERT_TRUE(job.client->snapshots().save(folder / "pass-00000"));
  push({0});
  ASSERT_TRUE(job.client->snapshots().save_delta(folder / "pass-00001", folder / "pass-00000"));
  const auto one_row = size("pass-00001");
  EXPECT_LT(one_row, 200U);
  push({5});
  ASSERT_TRUE(job.client->snapshots().save_delta(folder / "pass-00002", folder / "pass-00000"));
  EXPECT_GT(size("pass-00002"), one_row);  // since the full one, not since the last
  ASSERT_TRUE(job.client->snapshots().save(folder / "pass-00003"));
  ASSERT_TRUE(job.client->snapshots().save_delta(folder / "pass-00004", folder / "pass-00003"));
  EXPECT_LT(size("pass-00004"), one_row);
  EXPECT_EQ(content_of(folder / "pass-00004"), content_of(folder / "pass-00003"));
  // A delta is no base.
  EXPECT_FALSE(job.client->snapshots().save_delta(folder / "pass-00005", folder / "pass-00004"));
}

TEST(SnapshotRows, ARowLargerThanATransferGoesByItself) {
  const test::TemporaryFolder folder;
  auto set = test::small_set("adam", 1, 1, 2);
  constexpr std::uint64_t kWidth = 1U << 20U;  // 12 MiB a row, and 8 MiB of them go at once
  set.mutable_parameters(kTable)->set_dims(1, kWidth);
  Job job(set);
  ASSERT_TRUE(job.client->ready());
  std::vector<client::SparseRows> rows{{kTable, {1, 2, 3}, {}, std::vector<float>(3 * kWidth, 1)}};
  ASSERT_TRUE(job.client->push(4, 1, {}, rows));
  ASSERT_TRUE(job.client->snapshots().save(folder / "pass-00000"));
  Job restored(set);
  ASSERT_TRUE(restored.client->snapshots().load(folder / "pass-00000"));
  ASSERT_TRUE(restored.client->ready());
  ASSERT_TRUE(restored.client->snapshots().save(folder / "pass-00001"));
  const Content before = content_of(folder / "pass-00000");
  EXPECT_EQ(before.rows.size(), 3U);
  EXPECT_EQ(content_of(folder / "pass-00001"), before);
}

// Cuts the last bytes off the rows that a shard exports, or names another state width.
class ShorteningLink final : public net::Link {
 public:
  ShorteningLink(std::unique_ptr<net::Link> inner, FrameType type, std::size_t bytes)
      : inner_(std::move(inner)), type_(type), bytes_(bytes) {}
  Status send(Frame frame, std::span<const ByteSpan> pieces, TimePoint deadline) override {
    return inner_->send(std::move(frame), pieces, deadline);
  }
  Result<Frame> receive(TimePoint deadline, const net::TailPlace& place) override {
    auto frame = inner_->receive(deadline, place);
    if (!frame || frame->header.type != static_cast<std::uint8_t>(type_)) return frame;
    if (bytes_ > 0) {
      frame->tail.resize(frame->tail.size() - bytes_);
      return frame;
    }
    wire::ExportedRows exported;
    EXPECT_TRUE(exported.ParseFromString(frame->head));
    exported.set_state_width(exported.state_width() + 1);
    frame->head = exported.SerializeAsString();
    return frame;
  }
  std::string peer() const override { return inner_->peer(); }

 private:
  std::unique_ptr<net::Link> inner_;
  FrameType type_;
  std::size_t bytes_;
};

TEST(SnapshotRows, MalformedRowsOfAShardAreNamed) {
  const auto error_of = [](std::size_t bytes) {
    const test::TemporaryFolder folder;
    const auto set = test::small_set("adagrad", 1);
    ShardChannels::Links dense;
    ShardChannels::Links sparse;
    dense.push_back(local_shard(0, false));
    sparse.push_back(
        std::make_unique<ShorteningLink>(local_shard(0, true), FrameType::kExportedRows, bytes));
    auto shards = ShardChannels::join({.parameters = set}, std::move(dense), std::move(sparse));
    EXPECT_TRUE(shards);
    ShardClient client(*std::move(shards));
    EXPECT_TRUE(client.ready());
    std::vector<client::SparseRows> rows{{kTable, {1, 2}, {}, std::vector<float>(6, 1)}};
    EXPECT_TRUE(client.push(4, 1, {}, rows));
    const Status saved = static_cast<ParameterClient&>(client).snapshots().save(folder / "pass");
    EXPECT_FALSE(saved);
    EXPECT_FALSE(std::filesystem::exists(folder / "pass"));
    return saved ? std::string() : saved.error().message;
  };
  EXPECT_NE(error_of(1).find("rows of 'words' (expected 2 rows of 40 bytes, found 79 bytes)"),
            std::string::npos)
      << error_of(1);
  EXPECT_NE(error_of(40).find("(expected 2 rows of 40 bytes, found 40 bytes)"), std::string::npos)
      << error_of(40);
  EXPECT_NE(error_of(0).find("rows of 'words' (state width 2, here 1)"), std::string::npos)
      << error_of(0);
}

TEST(DeltaSnapshot, RetentionKeepsTheBasesOfWhatItKeeps) {
  const test::TemporaryFolder folder;
  auto set = set_of("sgd", 1, 1);
  Job job(set);
  ASSERT_TRUE(job.client->ready());
  const auto exists = [&folder](std::uint64_t pass) {
    return std::filesystem::exists(folder / snapshot::pass_name(pass));
  };
  for (std::uint64_t pass = 0; pass < 7; ++pass) {
    train_on(job, pass);
    const std::string base = folder / snapshot::pass_name(pass / 3 * 3);
    const std::string directory = folder / snapshot::pass_name(pass);
    ASSERT_TRUE(pass % 3 == 0 ? job.client->snapshots().save(directory)
                              : job.client->snapshots().save_delta(directory, base));
  }
  std::filesystem::create_directory(folder / "pass-00000x");
  ASSERT_TRUE(snapshot::keep_newest(folder.path(), 5, 2));
  for (const std::uint64_t kept : {3, 4, 5, 6}) EXPECT_TRUE(exists(kept)) << kept;
  for (const std::uint64_t gone : {0, 1, 2}) EXPECT_FALSE(exists(gone)) << gone;
  ASSERT_TRUE(snapshot::keep_newest(folder.path(), 5, 1));
  EXPECT_TRUE(exists(3));
  EXPECT_FALSE(exists(4));
  content_of(folder / "pass-00005");
  ASSERT_TRUE(snapshot::keep_newest(folder.path(), 6, 1));
  EXPECT_TRUE(exists(6));
  EXPECT_FALSE(exists(3));
  EXPECT_TRUE(std::filesystem::exists(folder / "pass-00000x"));
}

}  // namespace
}  // namespace paddle::client
