// Admission, expiry, shrinking and eviction of a sparse table's rows.
#include <filesystem>
#include <list>
#include <map>

#include <gtest/gtest.h>

#include "engine/table/parameter_set.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/engine/client/client_fixture.h"
#include "tests/unit/engine/pserver/parameters.h"

namespace paddle::table {
namespace {

using Ids = std::vector<std::uint64_t>;

wire::ParameterSet with_policy(const wire::TablePolicy& policy, std::uint32_t ports = 1) {
  auto set = test::small_set("adam", 1, 1, ports);
  *set.mutable_parameters(test::kTable)->mutable_table() = policy;
  return set;
}

class PolicyTable {
 public:
  explicit PolicyTable(const wire::TablePolicy& policy)
      : set_(with_policy(policy)), table(set_, test::kTable) {
    EXPECT_TRUE(parameter::validate(set_));
  }
  void name(const Ids& ids) {
    ASSERT_TRUE(table.reserve(ids.size()));
    table.apply(0.1F, ids, std::vector<float>(ids.size() * 3, 1.0F));
  }
  bool has(std::uint64_t id) const { return table.count_absent({&id, 1}) == 0; }
  std::vector<float> read(std::uint64_t id) const {
    std::vector<float> value(3, -1.0F);
    table.read({&id, 1}, value);
    return value;
  }

 private:
  wire::ParameterSet set_;

 public:
  SparseTable table;
};

wire::TablePolicy counting(std::uint32_t count) {
  wire::TablePolicy policy;
  policy.set_entry_count(count);
  return policy;
}

// One sighting too few, just enough, and one more.
TEST(TablePolicy, Trap15ARowExistsFromItsNthSightingOn) {
  PolicyTable named(counting(3));
  const std::vector<float> zeros(3, 0.0F);
  named.name({7});
  named.name({7, 8});
  EXPECT_FALSE(named.has(7));
  EXPECT_EQ(named.read(7), zeros);
  EXPECT_EQ(named.table.entry().candidates(), 2U);
  named.name({7});
  EXPECT_TRUE(named.has(7));
  EXPECT_NE(named.read(7), zeros);
  EXPECT_EQ(named.table.entry().candidates(), 1U);
  EXPECT_FALSE(named.has(8));
  const auto admitted = named.read(7);
  named.name({7});
  EXPECT_NE(named.read(7), admitted);
  EXPECT_EQ(named.table.rows(), 1U);
}

// At the given probability, and drawn once, however often an id comes.
TEST(TablePolicy, Trap07ProbabilityIsDrawnOncePerId) {
  wire::TablePolicy policy;
  policy.set_entry_probability(0.2F);
  PolicyTable once(policy);
  PolicyTable often(policy);
  Ids ids;
  for (std::uint64_t id = 0; id < 20'000; ++id) ids.push_back(id);
  once.name(ids);
  for (int i = 0; i < 10; ++i) often.name(ids);
  EXPECT_NEAR(static_cast<double>(once.table.rows()), 4000, 200);
  EXPECT_EQ(once.table.rows(), often.table.rows());
  for (const std::uint64_t id : ids) ASSERT_EQ(once.has(id), often.has(id)) << id;
}

// 0, the ids around 2^63 and the last ones are ids like any other.
TEST(TablePolicy, Trap07ProbabilityHoldsOverTheWholeRangeOfIds) {
  constexpr std::uint64_t kIds = 5000;
  wire::TablePolicy policy;
  policy.set_entry_probability(0.2F);
  PolicyTable named(policy);
  std::uint64_t rows = 0;
  for (const std::uint64_t first : Ids{0, (1ULL << 63U) - kIds / 2, 0 - kIds}) {
    Ids ids;
    for (std::uint64_t i = 0; i < kIds; ++i) ids.push_back(first + i);
    named.name(ids);
    EXPECT_NEAR(static_cast<double>(named.table.rows() - rows), 1000, 120) << first;
    rows = named.table.rows();
    for (const std::uint64_t id : ids) {
      const std::vector<float> value = named.read(id);
      ASSERT_EQ(value == std::vector<float>(3, 0.0F), !named.has(id)) << id;
    }
  }
}

TEST(TablePolicy, RowsGoAfterPassesThatDoNotNameThem) {
  wire::TablePolicy policy = counting(2);
  policy.set_expire_passes(2);
  PolicyTable named(policy);
  Ids all;
  for (std::uint64_t id = 0; id < 1000; ++id) all.push_back(id * 977);
  const Ids kept(all.begin() + 300, all.begin() + 400);
  named.name(all);
  named.name(all);
  named.name({1});  // a candidate
  ASSERT_EQ(named.table.rows(), 1000U);
  EXPECT_EQ(*named.table.end_pass(), 0U);
  EXPECT_EQ(*named.table.end_pass(), 0U);
  std::map<std::uint64_t, std::vector<float>> before;
  named.name(kept);
  for (const std::uint64_t id : kept) before[id] = named.read(id);
  EXPECT_EQ(named.table.entry().candidates(), 1U);
  EXPECT_EQ(*named.table.end_pass(), 900U);
  EXPECT_EQ(named.table.entry().candidates(), 0U);
  EXPECT_EQ(named.table.rows(), kept.size());
  for (const std::uint64_t id : all) EXPECT_EQ(named.has(id), before.contains(id)) << id;
  // The last rows took the freed numbers, with all of their columns.
  for (const auto& [id, value] : before) EXPECT_EQ(named.read(id), value);
  std::vector<RowIndex::Entry> entries;
  named.table.scan(0, 1000, entries);
  for (const auto& entry : entries) EXPECT_EQ(named.table.row(entry).marks.updates, 2U);
}

TEST(TablePolicy, RowsGoForTheirScoreWithoutAnyOtherPolicy) {
  wire::TablePolicy policy;
  wire::ShrinkPolicy& shrink = *policy.mutable_shrink();
  shrink.set_label("click");
  shrink.set_decay(0.5F);
  shrink.set_threshold(1);
  shrink.set_nonclick_coefficient(0.1F);
  shrink.set_click_coefficient(1);
  PolicyTable named(policy);
  ASSERT_TRUE(named.table.reserve(2));
  // A gradient of 3, and the shows and clicks of each row in the batch.
  named.table.apply(0.1F, Ids{7, 9}, std::vector<float>{1, 1, 1, 4, 4, 1, 1, 1, 4, 1});
  named.table.apply(0.1F, Ids{7, 9}, std::vector<float>{1, 1, 1, 1, 1, 1, 1, 1, 1, 0});
  ASSERT_TRUE(named.table.end_pass());
  EXPECT_TRUE(named.has(7)) << "2.5 of 5 clicks";
  EXPECT_FALSE(named.has(9)) << "0.7: half of a click and of a tenth of 4";
  EXPECT_EQ(named.table.take_shrunk(), 1U);
}

TEST(TablePolicy, EvictionTakesTheRowNotNamedForLongest) {
  constexpr std::uint64_t kRows = 2000;
  wire::TablePolicy policy;
  policy.set_bytes_max(1);
  policy.set_evict(true);
  const std::uint64_t per_row = PolicyTable(policy).table.bytes_for(1);
  policy.set_bytes_max(kRows * per_row);
  PolicyTable named(policy);
  std::list<std::uint64_t> recent;  // the last one is the oldest
  std::map<std::uint64_t, std::list<std::uint64_t>::iterator> place;
  Rng rng(11);
  std::uint64_t evicted = 0;
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t id = rng.below(rng.below(2) == 0 ? 1500 : 100'000);
    named.name({id});
    if (const auto found = place.find(id); found != place.end()) {
      recent.erase(found->second);
    } else if (place.size() == kRows) {
      place.erase(recent.back());
      recent.pop_back();
      ++evicted;
    }
    recent.push_front(id);
    place[id] = recent.begin();
  }
  EXPECT_EQ(named.table.rows(), kRows);
  for (const std::uint64_t id : recent) ASSERT_TRUE(named.has(id)) << id;
  EXPECT_GT(evicted, 1000U);
  EXPECT_EQ(named.table.take_evicted(), evicted);
}

class Job {
 public:
  explicit Job(const wire::ParameterSet& set) : client(client::client_of(set)) {}
  Status push(const Ids& ids) {
    std::vector<client::SparseRows> rows{
        {test::kTable, ids, {}, std::vector<float>(ids.size() * 3, 1)}};
    return client->push(1, 0, {}, rows);
  }
  std::vector<float> pull(const Ids& ids) {
    std::vector<client::SparseRows> rows{{test::kTable, ids, {}, {}}};
    EXPECT_TRUE(client->pull_rows(rows));
    return rows[0].values;
  }
  std::unique_ptr<client::ParameterClient> client;
};

// Sightings before a snapshot count after it, on another number of ports too.
TEST(TablePolicy, Trap15AdmissionSurvivesASnapshotOntoOtherPorts) {
  const test::TemporaryFolder folder;
  wire::TablePolicy policy = counting(3);
  policy.set_expire_passes(1);
  const std::string path = folder / "pass-00000";
  Ids seen_thrice;
  Ids seen_twice;
  for (std::uint64_t id = 0; id < 50; ++id) {
    seen_thrice.push_back(id);
    seen_twice.push_back(1000 + id);
  }
  Job before(with_policy(policy, 1));
  ASSERT_TRUE(before.client->ready());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(before.push(seen_thrice));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(before.push(seen_twice));
  const auto totals = before.client->finish_pass({});
  ASSERT_TRUE(totals);
  const client::TableTotals& table = totals->tables.at(test::kTable);
  EXPECT_EQ(table.rows, 50U);
  EXPECT_EQ(table.candidates, 50U);
  EXPECT_EQ(table.payload_bytes, 50U * (3 * 3 * sizeof(float) + sizeof(std::uint32_t)));
  EXPECT_GT(table.bytes, table.payload_bytes);
  ASSERT_TRUE(before.client->snapshots().save(path));

  Job after(with_policy(policy, 3));
  ASSERT_TRUE(after.client->snapshots().load(path));
  ASSERT_TRUE(after.client->ready());
  EXPECT_EQ(after.pull(seen_thrice), before.pull(seen_thrice));
  EXPECT_EQ(after.pull(seen_twice), std::vector<float>(150, 0.0F));
  ASSERT_TRUE(after.push(seen_twice));  // the third time
  EXPECT_NE(after.pull(seen_twice), std::vector<float>(150, 0.0F));
  // The snapshot has the age of rows: they expire after one more pass without them.
  const auto next = after.client->finish_pass({});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->tables.at(test::kTable).expired, 50U);
  EXPECT_EQ(next->tables.at(test::kTable).rows, 50U);
}

// Neither a save nor a failed save changes anything that a later save or pass needs.
TEST(TablePolicy, Trap08SavingTwiceOrInVainLosesNothing) {
  const test::TemporaryFolder folder;
  wire::TablePolicy policy = counting(2);
  policy.set_expire_passes(2);
  Job saving(with_policy(policy, 2));
  Job never(with_policy(policy, 2));
  for (Job* const job : {&saving, &never}) {
    ASSERT_TRUE(job->client->ready());
    for (const Ids& ids : {Ids{1, 2, 3}, Ids{1, 2, 4}, Ids{1}}) ASSERT_TRUE(job->push(ids));
    ASSERT_TRUE(job->client->finish_pass({}));
  }
  folder.write("taken/thesis.txt", "mine");
  EXPECT_FALSE(saving.client->snapshots().save(folder / "taken"));
  for (const char* name : {"first", "second"}) {
    ASSERT_TRUE(saving.client->snapshots().save(folder / name));
  }
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "first")) {
    const std::string name = entry.path().filename().string();
    EXPECT_EQ(test::TemporaryFolder::read(entry.path()),
              test::TemporaryFolder::read(folder / ("second/" + name)))
        << name;
    ++files;
  }
  EXPECT_GT(files, 3U);
  // Sightings and ages continue as if nothing had been saved: 3 and 4 are admitted, 2 expires.
  for (Job* const job : {&saving, &never}) ASSERT_TRUE(job->push({1, 3, 4}));
  for (int pass = 0; pass < 2; ++pass) {
    const auto saved = saving.client->finish_pass({});
    const auto unsaved = never.client->finish_pass({});
    ASSERT_TRUE(saved && unsaved);
    EXPECT_EQ(saved->tables.at(test::kTable).rows, unsaved->tables.at(test::kTable).rows);
    EXPECT_EQ(saved->tables.at(test::kTable).expired, unsaved->tables.at(test::kTable).expired);
    EXPECT_EQ(saved->tables.at(test::kTable).candidates,
              unsaved->tables.at(test::kTable).candidates);
  }
  EXPECT_EQ(saving.pull({1, 2, 3, 4}), never.pull({1, 2, 3, 4}));
  EXPECT_NE(saving.pull({3}), std::vector<float>(3, 0.0F));
}

TEST(TablePolicy, ATableOverItsBudgetIsATypedError) {
  wire::TablePolicy policy;
  policy.set_bytes_max(1);  // so the least: 1024 rows
  Job job(with_policy(policy));
  ASSERT_TRUE(job.client->ready());
  Ids ids;
  for (std::uint64_t id = 0; id < 1024; ++id) ids.push_back(id);
  ASSERT_TRUE(job.push(ids));
  ASSERT_TRUE(job.push(ids));  // none is new
  const Status full = job.push({5000});
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Errc::kResource);
  EXPECT_NE(full.error().message.find("bytes_max"), std::string::npos) << full.error().message;
}

}  // namespace
}  // namespace paddle::table
