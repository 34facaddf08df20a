// A table in a card's memory beside table::SparseTable, bit for bit.
#include "engine/group/card_table.h"

#include <map>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/group/card_table.h"
#include "engine/snapshot/reader.h"
#include "engine/table/sparse_table.h"
#include "tests/support/device/fake_device.h"
#include "tests/support/saved_row.h"
#include "tests/support/temporary_folder.h"

namespace paddle::strategy {
namespace {

constexpr std::size_t kRowWidth = 5;
constexpr std::uint64_t kTableIds = 9000;  // more than a table has room for at first

wire::ParameterSet table_set(const std::string& method, bool has_average = true) {
  wire::ParameterSet set;
  wire::ParameterSpec& spec = *set.add_parameters();
  spec.set_name("table");
  spec.add_dims(0);
  spec.add_dims(kRowWidth);
  spec.set_sparse(true);
  spec.set_initial_std(0.5F);
  spec.set_learning_rate(0.5F);
  wire::Optimizer& optimizer = *set.mutable_optimizer();
  optimizer.set_method(method);
  optimizer.set_learning_rate(0.05F);
  optimizer.set_l2(1e-3F);
  optimizer.set_clip_value(0.7F);
  if (has_average) {
    optimizer.mutable_average()->set_window(0.5F);
    optimizer.mutable_average()->set_window_min(2);
  }
  set.set_dense_strategy(wire::STRATEGY_COLLECTIVE);
  set.set_seed(7);
  set.set_num_trainers(1);
  set.set_sparse_shards(1);
  return set;
}

// Spread over all 64 bits, sorted.
std::vector<std::uint64_t> row_ids(std::uint64_t batch, std::size_t count) {
  Rng rng(batch);
  std::vector<std::uint64_t> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(mix64(rng.below(kTableIds)));
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

class TableOnCard {
 public:
  explicit TableOnCard(const wire::ParameterSet& set, std::uint64_t seed = test::kLate)
      : device_({.seed = seed}),
        stream_(*device::Stream::open(device_)),
        done_(*device::Event::make(device_)),
        room_(device_),
        table_(set, 0, {&device_, stream_.handle()}) {
    const Status started = table_.start(0);
    EXPECT_TRUE(started) << started.error().message;
  }

  CardTable& table() { return table_; }
  std::vector<float> read(const std::vector<std::uint64_t>& ids, CardTable::Reads reads) {
    rows_.ids = ids;
    const Status found = table_.find(rows_, reads);
    EXPECT_TRUE(found) << found.error().message;
    EXPECT_TRUE(rows_.is_on_card());
    EXPECT_TRUE(rows_.values.empty());
    EXPECT_GE(rows_.card.rows_max, ids.size());
    return values(rows_);
  }
  // Values at the places of rows that were found.
  std::vector<float> values(const client::SparseRows& rows) {
    EXPECT_TRUE(room_.reserve(rows.ids.size() * kRowWidth));
    for (std::size_t i = 0; i < rows.ids.size(); ++i) {
      device_.download(stream_.handle(),
                       bytes(rows.card.place.value + rows.card.numbers[i] * kRowWidth),
                       bytes(room_.data() + i * kRowWidth), kRowWidth * sizeof(float));
    }
    finish();
    return {room_.data(), room_.data() + rows.ids.size() * kRowWidth};
  }
  // Updates the rows that were last read.
  Status update(const std::vector<float>& gradients, float rate) {
    return update(rows_, gradients, rate);
  }
  Status update(const client::SparseRows& rows, const std::vector<float>& gradients, float rate) {
    EXPECT_TRUE(room_.reserve(gradients.size()));
    std::ranges::copy(gradients, room_.data());
    device_.upload(stream_.handle(), bytes(room_.data()), bytes(rows.card.place.gradient),
                   gradients.size() * sizeof(float));
    finish();
    return table_.update(rows, rate);
  }
  device::ComputeStream compute_stream() { return {&device_, stream_.handle()}; }

 private:
  static std::byte* bytes(float* of) { return reinterpret_cast<std::byte*>(of); }
  void finish() {
    device_.record(stream_.handle(), done_.handle());
    EXPECT_TRUE(device_.wait(done_.handle(), SteadyClock().now() + std::chrono::seconds(20)));
  }

  test::FakeDevice device_;
  device::Stream stream_;
  device::Event done_;
  device::PinnedMemory<float> room_;
  CardTable table_;
  client::SparseRows rows_;
};

std::vector<float> row_gradients(std::uint64_t batch, std::size_t rows) {
  Rng rng(1000 + batch);
  std::vector<float> made(rows * kRowWidth);
  for (float& value : made) value = static_cast<float>(rng.normal());
  return made;
}

// Batches [begin, end) on both, with a test of other ids before each; no batch has no row.
void train_both(TableOnCard& card, table::SparseTable& host, std::uint64_t begin,
                std::uint64_t end) {
  for (std::uint64_t batch = begin; batch < end; ++batch) {
    const std::vector<std::uint64_t> tested = row_ids(batch + 500, 40);
    std::vector<float> right(tested.size() * kRowWidth);
    host.read_averages(tested, right);
    EXPECT_EQ(card.read(tested, CardTable::Reads::kToTest), right) << batch;
    const std::vector<std::uint64_t> ids = row_ids(batch, batch % 4 == 3 ? 1 : 1500 * (batch % 3));
    right.resize(ids.size() * kRowWidth);
    host.read(ids, right);
    EXPECT_EQ(card.read(ids, CardTable::Reads::kToTrain), right) << batch;
    const std::vector<float> gradients = row_gradients(batch, ids.size());
    const float rate = 0.1F / static_cast<float>(batch + 1);
    ASSERT_TRUE(host.reserve(ids.size()));
    EXPECT_TRUE(host.apply(rate, ids, gradients));
    const Status updated = card.update(gradients, rate);
    EXPECT_TRUE(updated) << updated.error().message;
    EXPECT_EQ(card.table().totals().rows, host.rows());
  }
  EXPECT_TRUE(card.table().finish());
}

void save_table(CardTable& table, const wire::ParameterSet& set, const std::string& directory) {
  snapshot::SnapshotInfo info;
  info.optimizer = set.optimizer();
  auto writer = snapshot::SnapshotWriter::create(directory, info);
  ASSERT_TRUE(writer) << writer.error().message;
  const Status saved = table.save(*writer);
  ASSERT_TRUE(saved) << saved.error().message;
  ASSERT_TRUE(writer->finish());
}

// Also puts the rows of the snapshot into `loaded`, as a pserver does.
void expect_rows(const std::string& directory, const table::SparseTable& right,
                 table::SparseTable* loaded = nullptr) {
  const auto reader = snapshot::SnapshotReader::open(directory);
  ASSERT_TRUE(reader) << reader.error().message;
  std::vector<table::RowIndex::Entry> entries;
  right.scan(0, right.rows(), entries);
  std::map<std::uint64_t, table::Row> rows;
  for (const auto& entry : entries) rows.emplace(entry.id, right.row(entry));
  if (loaded != nullptr) {
    ASSERT_TRUE(loaded->reserve(rows.size()));
  }
  ASSERT_TRUE(reader->read_rows("table", [&](const table::Row& saved) -> Status {
    test::SavedRow row = test::saved_row(saved);
    optim::swap_average(row.value, row.state);
    const auto found = rows.find(row.id);
    EXPECT_TRUE(found != rows.end()) << row.id;
    if (found == rows.end()) return {};
    EXPECT_TRUE(std::ranges::equal(row.value, found->second.value));
    EXPECT_TRUE(std::ranges::equal(row.state, found->second.state));
    EXPECT_EQ(row.marks, found->second.marks.pack());
    if (loaded != nullptr) {
      EXPECT_TRUE(loaded->put({row.id, saved.marks, row.value, row.state, {}}));
    }
    rows.erase(found);
    return {};
  }));
  EXPECT_TRUE(rows.empty()) << rows.size() << " rows are missing";
}

class CardTableOf : public testing::TestWithParam<std::string> {};

TEST_P(CardTableOf, Trap38RowsAndStateAreThoseOfAPserversTableAndGoOnFromASnapshot) {
  const wire::ParameterSet set = table_set(GetParam());
  const test::TemporaryFolder folder;
  table::SparseTable host(set, 0);
  TableOnCard card(set);
  train_both(card, host, 0, 8);
  EXPECT_GT(host.rows(), 4096U);
  save_table(card.table(), set, folder / "pass-00000");
  table::SparseTable moved(set, 0);
  expect_rows(folder / "pass-00000", host, &moved);

  TableOnCard again(set, 11);
  const auto reader = snapshot::SnapshotReader::open(folder / "pass-00000");
  ASSERT_TRUE(reader);
  const snapshot::SnapshotSource source(set, *reader);
  const Status loaded = again.table().load(*reader, source);
  ASSERT_TRUE(loaded) << loaded.error().message;
  train_both(again, moved, 8, 11);
  train_both(card, host, 8, 11);
  save_table(again.table(), set, folder / "pass-00001");
  expect_rows(folder / "pass-00001", host);
}

std::vector<std::string> table_methods() {
  std::vector<std::string> names;
  for (const optim::Method& method : optim::methods()) names.emplace_back(method.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Methods, CardTableOf, testing::ValuesIn(table_methods()),
                         [](const auto& one) { return one.param; });

// Rows of the next batch, some of them new in both, are found when this batch's update is given.
TEST_P(CardTableOf, RowsFoundAheadAreThoseAfterTheUpdate) {
  const wire::ParameterSet set = table_set(GetParam());
  const test::TemporaryFolder folder;
  table::SparseTable host(set, 0);
  TableOnCard card(set);
  client::SparseRows now;
  client::SparseRows next;
  const auto ids_of = [](std::uint64_t batch) { return row_ids(batch, 100 + 400 * (batch % 3)); };
  bool is_found = false;
  std::size_t found_ahead = 0;
  for (std::uint64_t batch = 0; batch < 30; ++batch) {
    now.ids = ids_of(batch);
    if (!is_found) {
      ASSERT_TRUE(card.table().find(now, CardTable::Reads::kToTrain));
    }
    std::vector<float> right(now.ids.size() * kRowWidth);
    host.read(now.ids, right);
    ASSERT_EQ(card.values(now), right) << batch;
    const std::vector<float> gradients = row_gradients(batch, now.ids.size());
    ASSERT_TRUE(host.reserve(now.ids.size()));
    ASSERT_TRUE(host.apply(0.1F, now.ids, gradients));
    ASSERT_TRUE(card.update(now, gradients, 0.1F));
    next.ids = ids_of(batch + 1);
    const Result<bool> ahead = card.table().find_ahead(next);
    ASSERT_TRUE(ahead) << ahead.error().message;
    is_found = *ahead;
    found_ahead += is_found ? 1 : 0;
    ASSERT_EQ(card.table().totals().rows, host.rows());
    std::swap(now, next);
  }
  EXPECT_GT(found_ahead, 20U);
  EXPECT_LT(found_ahead, 30U) << "there was room for all from the beginning";
  save_table(card.table(), set, folder / "pass-00000");
  expect_rows(folder / "pass-00000", host);
}

TEST(CardTable, TwoRunsHaveTheSameBitsWhateverRunsFirst) {
  const wire::ParameterSet set = table_set("adagrad", false);
  std::vector<std::vector<float>> found;
  for (const std::uint64_t seed : {1ULL, 2ULL}) {
    TableOnCard card(set, seed);
    for (std::uint64_t batch = 0; batch < 6; ++batch) {
      const auto ids = row_ids(batch, 900);
      static_cast<void>(card.read(ids, CardTable::Reads::kToTrain));
      ASSERT_TRUE(card.update(row_gradients(batch, ids.size()), 0.1F));
    }
    found.push_back(card.read(row_ids(2, 900), CardTable::Reads::kToTrain));
  }
  EXPECT_EQ(found[0], found[1]);
}

TEST(CardTable, AStaticTableHasNoRowsAndKeepsItsInitialValues) {
  wire::ParameterSet set = table_set("adam");
  set.mutable_parameters(0)->set_is_static(true);
  const table::SparseTable host(set, 0);
  TableOnCard card(set);
  const auto ids = row_ids(1, 20);
  std::vector<float> right(ids.size() * kRowWidth);
  host.read(ids, right);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(card.read(ids, CardTable::Reads::kToTrain), right);
    EXPECT_TRUE(card.update(row_gradients(1, ids.size()), 0.1F));
  }
  EXPECT_EQ(card.table().totals().rows, 0U);
}

TEST(CardTable, AGradientThatIsNotFiniteEndsTheJobNamingTheTable) {
  const wire::ParameterSet set = table_set("sgd", false);
  TableOnCard card(set);
  const auto ids = row_ids(1, 20);
  static_cast<void>(card.read(ids, CardTable::Reads::kToTrain));
  std::vector<float> gradients = row_gradients(1, ids.size());
  gradients[17] = std::nanf("");
  EXPECT_TRUE(card.update(gradients, 0.1F));
  const Status finished = card.table().finish();
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().code, Errc::kFailed);
  EXPECT_NE(finished.error().message.find("'table'"), std::string::npos);
}

TEST(CardTable, ACardThatHangsHasFailed) {
  const wire::ParameterSet set = table_set("sgd", false);
  test::FakeDevice device;
  const auto stream = *device::Stream::open(device);
  CardTable table(set, 0, {&device, stream.handle()}, std::chrono::milliseconds(20));
  ASSERT_TRUE(table.start(0));
  client::SparseRows rows;
  rows.ids = row_ids(1, 20);
  ASSERT_TRUE(table.find(rows, CardTable::Reads::kToTrain));
  device.hang_order(2);
  ASSERT_TRUE(table.update(rows, 0.1F));
  const Status hung = table.finish();
  ASSERT_FALSE(hung);
  EXPECT_EQ(hung.error().code, Errc::kFailed) << "no peer that is lost, for whom a job waits";
  EXPECT_NE(hung.error().message.find("0 (Fake)"), std::string::npos) << hung.error().message;
}

TEST(CardTable, Trap33ATableThatDoesNotFitIsNamedWithWhatItNeedsAndWhatIsLeft) {
  wire::ParameterSet set = table_set("adam");
  set.mutable_parameters(0)->mutable_table()->set_bytes_max(3ULL << 30U);
  test::FakeDevice device;  // of 1 GiB
  const auto stream = *device::Stream::open(device);
  const std::vector<std::uint64_t> any{0};
  const auto made = CardTables::create(set, {&device, stream.handle()}, any);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Errc::kResource);
  EXPECT_NE(made.error().message.find("table 'table' needs 2"), std::string::npos)
      << made.error().message;
  EXPECT_NE(made.error().message.find("(Fake)"), std::string::npos) << made.error().message;
  EXPECT_NE(made.error().hint.find("--pservers"), std::string::npos);
  // 84 bytes a row: the value, two moments, the average, and the number of updates.
  const std::vector<std::uint64_t> words{20'000'000};
  const auto of_words = CardTables::create(table_set("adam"), {&device, stream.handle()}, words);
  ASSERT_FALSE(of_words);
  EXPECT_NE(of_words.error().message.find("needs 1603 MiB of its GPU for 20000000 rows"),
            std::string::npos)
      << of_words.error().message;
}

TEST(CardTable, MoreRowsThanBytesMaxAllowsAreRefused) {
  wire::ParameterSet set = table_set("sgd", false);
  set.mutable_parameters(0)->mutable_table()->set_bytes_max(1);  // 1024 rows at least
  TableOnCard card(set);
  client::SparseRows rows;
  rows.ids = row_ids(1, 1500);
  const Status found = card.table().find(rows, CardTable::Reads::kToTrain);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::kResource);
  EXPECT_NE(found.error().message.find("1024 rows"), std::string::npos) << found.error().message;
}

TEST(CardTables, PoliciesThatACardHasNotAreRefusedByName) {
  using Change = void (*)(wire::ParameterSet&);
  const std::map<std::string, Change> changes{
      {"entry_count",
       [](auto& set) { set.mutable_parameters(0)->mutable_table()->set_entry_count(2); }},
      {"expire_passes",
       [](auto& set) { set.mutable_parameters(0)->mutable_table()->set_expire_passes(2); }},
      {"shrink", [](auto& set) { set.mutable_parameters(0)->mutable_table()->mutable_shrink(); }},
      {"evict", [](auto& set) { set.mutable_parameters(0)->mutable_table()->set_evict(true); }},
      {"clip_norm", [](auto& set) { set.mutable_optimizer()->set_clip_global_norm(1); }},
      {"full_snapshot_period", [](auto& set) { set.set_delta_snapshots(true); }},
      {"sparse", [](auto& set) { set.set_sparse_strategy(wire::STRATEGY_ASYNC); }},
  };
  EXPECT_TRUE(CardTables::check(table_set("adam")));
  for (const auto& [name, change] : changes) {
    wire::ParameterSet set = table_set("adam");
    change(set);
    const Status checked = CardTables::check(set);
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error().code, Errc::kUsage);
    EXPECT_NE(checked.error().message.find(name), std::string::npos) << checked.error().message;
    EXPECT_NE(checked.error().message.find("'table'"), std::string::npos);
    EXPECT_NE(checked.error().hint.find("--pservers"), std::string::npos);
  }
}

}  // namespace
}  // namespace paddle::strategy
