#include <fmt/format.h>

#include "engine/snapshot/format.h"
#include "tests/unit/engine/snapshot/snapshot_fixture.h"

namespace paddle::snapshot {
namespace {

TEST_F(SnapshotTest, RoundTrip) {
  write();
  const auto reader = SnapshotReader::open(directory_ + "/");
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->info().optimizer.SerializeAsString(), info().optimizer.SerializeAsString());
  EXPECT_EQ(reader->info().pass, 4U);
  EXPECT_EQ(reader->info().samples, info().samples);
  EXPECT_EQ(reader->info().step, info().step);
  EXPECT_EQ(reader->info().seed, info().seed);
  EXPECT_EQ(reader->info().trainer_cursors, info().trainer_cursors);
  EXPECT_EQ(reader->info().pass_batches, info().pass_batches);
  const auto parameters = reader->parameters();
  ASSERT_EQ(parameters.size(), 2U);
  EXPECT_EQ(parameters[0].SerializeAsString(), dense_spec().SerializeAsString());
  EXPECT_EQ(parameters[1].SerializeAsString(), sparse_spec().SerializeAsString());

  std::vector<float> value;
  std::vector<float> state;
  std::uint64_t update_count = 0;
  ASSERT_TRUE(reader->read_dense("_fc.wbias", value, state, update_count));
  EXPECT_EQ(value, (std::vector<float>{1.0F, -2.5F}));
  EXPECT_EQ(state, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(update_count, 17U);

  std::vector<test::SavedRow> found;
  ASSERT_TRUE(reader->read_rows("my table", [&](const table::Row& row) -> Status {
    found.push_back(test::saved_row(row));
    return {};
  }));
  ASSERT_EQ(found.size(), rows().size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].id, rows()[i].id);
    EXPECT_EQ(found[i].marks, rows()[i].marks);
    EXPECT_EQ(found[i].value, rows()[i].value);
    EXPECT_EQ(found[i].state, rows()[i].state);
  }
  EXPECT_FALSE(reader->read_dense("my table", value, state, update_count));
  EXPECT_FALSE(std::filesystem::exists(directory_ + ".tmp"));
}

TEST_F(SnapshotTest, AManifestOfAPassHasTheOrderOfTheDataAndTheRecordsOfEachTrainer) {
  SnapshotInfo facts = info();
  facts.base.reset();
  facts.place = PassPlace{{.batch_size = 8,
                           .shuffle_records = 200,
                           .files_at_once = 3,
                           .global_shuffle = true,
                           .uneven = "drop",
                           .reader = ~0ULL},
                          {24, 0, 31},
                          {~0ULL, 0, 5}};
  Manifest manifest{.id = snapshot_id(facts), .info = facts, .model = {}, .parameters = {}};
  const std::string text = encode_manifest(manifest);
  EXPECT_TRUE(text.starts_with("snapshot format=4 ")) << text;
  const auto read = decode_manifest(text);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_TRUE(read->info.place);
  EXPECT_EQ(read->info.place->order, facts.place->order);
  EXPECT_EQ(read->info.place->records, facts.place->records);
  EXPECT_EQ(read->info.place->data, facts.place->data);
  EXPECT_EQ(read->info.pass_batches, facts.pass_batches);
  facts.place->order.shuffle_records = 201;
  EXPECT_NE(snapshot_id(facts), snapshot_id(manifest.info)) << "what it rests on is bound to it";
  facts.place.reset();
  manifest.info = facts;
  EXPECT_FALSE(decode_manifest(encode_manifest(manifest))->info.place);
}

TEST_F(SnapshotTest, AManifestOfAPassIsRefusedWithoutThePlaceOfATrainer) {
  SnapshotInfo facts = info();
  facts.base.reset();
  for (const std::vector<std::uint64_t>& records :
       {std::vector<std::uint64_t>{}, std::vector<std::uint64_t>{1, 2}}) {
    facts.place = PassPlace{{.batch_size = 8}, records, {1, 2, 3}};
    const Manifest manifest{.id = snapshot_id(facts), .info = facts, .model = {}, .parameters = {}};
    EXPECT_FALSE(decode_manifest(encode_manifest(manifest))) << records.size();
  }
  facts.place = PassPlace{{.batch_size = 0}, {1, 2, 3}, {1, 2, 3}};
  EXPECT_FALSE(decode_manifest(
      encode_manifest({.id = snapshot_id(facts), .info = facts, .model = {}, .parameters = {}})));
}

// The 24 bytes of a two-element bias as v0.10 wrote them.
TEST_F(SnapshotTest, DenseFileIsV010ByteForByte) {
  write();
  const std::string expected("\0\0\0\0\4\0\0\0\2\0\0\0\0\0\0\0\0\0\x80\x3f\0\0\x20\xc0", 24);
  EXPECT_EQ(content(directory_ + "/_fc.wbias"), expected);
  const auto header = as_bytes(expected).first<kParameterFileHeaderBytes>();
  EXPECT_TRUE(check_parameter_file_header(header, 2));
  const auto other = check_parameter_file_header(header, 3);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message, "expected element count 3, found 2");
}

TEST_F(SnapshotTest, SeveralBlocksAndFiles) {
  wire::ParameterSpec table = sparse_spec();
  constexpr std::uint64_t kWidth = 1U << 18U;  // 1 MiB a row: 70 rows need two files
  table.set_dims(1, kWidth);
  auto writer = SnapshotWriter::create(directory_, info());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->begin_sparse(table, 0));
  test::SavedRow row;
  row.value.resize(kWidth);
  for (std::uint64_t id = 0; id < 70; ++id) {
    row.id = id;
    row.value.back() = static_cast<float>(id);
    ASSERT_TRUE(writer->add_rows(test::encoded({row})));
  }
  ASSERT_TRUE(writer->end_sparse());
  ASSERT_TRUE(writer->finish());
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/my table.sparse-00001"));
  const auto reader = SnapshotReader::open(directory_);
  ASSERT_TRUE(reader) << reader.error().message;
  std::uint64_t next = 0;
  ASSERT_TRUE(reader->read_rows("my table", [&](const table::Row& found) -> Status {
    EXPECT_EQ(found.id, next);
    EXPECT_EQ(found.value.back(), static_cast<float>(next));
    ++next;
    return {};
  }));
  EXPECT_EQ(next, 70U);
}

// The body of a file of rows, written out by hand: no later form of a row may change it.
TEST_F(SnapshotTest, AFileOfRowsHasTheirBytesBetweenHeaderAndChecksum) {
  write();
  std::string body;
  for (const test::SavedRow& row : rows()) {
    const auto add = [&body](const auto& value) {
      body.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    add(row.id);
    add(row.marks);
    for (const float value : row.value) add(value);
    for (const float value : row.state) add(value);
  }
  const std::string file = content(directory_ + "/my table.sparse-00000");
  ASSERT_GT(file.size(), body.size() + 4);
  EXPECT_EQ(file.substr(file.size() - 4 - body.size(), body.size()), body);
}

TEST_F(SnapshotTest, HowRowsAreCutIntoCallsDoesNotChangeTheFiles) {
  constexpr std::uint64_t kWidth = 1U << 18U;  // 1 MiB a row: 70 rows need two files
  wire::ParameterSpec table = sparse_spec();
  table.set_dims(1, kWidth);
  std::vector<test::SavedRow> rows;
  for (std::uint64_t id = 0; id < 70; ++id) {
    rows.push_back(
        {.id = id, .value = std::vector<float>(kWidth, static_cast<float>(id)), .state = {}});
  }
  std::vector<std::string> manifests;
  for (const std::size_t at_once : {1, 64, 70}) {
    auto writer = SnapshotWriter::create(directory_, info());
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->begin_sparse(table, 0));
    for (std::size_t i = 0; i < rows.size(); i += at_once) {
      const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(i);
      const std::size_t count = std::min(at_once, rows.size() - i);
      ASSERT_TRUE(
          writer->add_rows(test::encoded({begin, begin + static_cast<std::ptrdiff_t>(count)})));
    }
    ASSERT_TRUE(writer->end_sparse());
    ASSERT_TRUE(writer->finish());
    manifests.push_back(content(directory_ + "/MANIFEST"));
  }
  EXPECT_EQ(manifests[1], manifests[0]);
  EXPECT_EQ(manifests[2], manifests[0]);
}

TEST_F(SnapshotTest, HalfARowIsNotAdded) {
  auto writer = SnapshotWriter::create(directory_, info());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->begin_sparse(sparse_spec(), 2));
  Bytes bytes = test::encoded(rows());
  bytes.pop_back();
  const Status refused = writer->add_rows(bytes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "rows of 'my table': expected 1 rows of 52 bytes, found 103 bytes");
}

TEST_F(SnapshotTest, UnfinishedIsNeverVisible) {
  {
    auto writer = SnapshotWriter::create(directory_, info());
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->add_dense(dense_spec(), std::vector<float>{1, 2}, {}, 0));
    EXPECT_FALSE(std::filesystem::exists(directory_));
  }
  EXPECT_TRUE(std::filesystem::is_empty(root_));
}

TEST_F(SnapshotTest, ReplacesAnEarlierSnapshotOnlyWhenComplete) {
  write(1.0F);
  {
    auto unfinished = SnapshotWriter::create(directory_, info());
    ASSERT_TRUE(unfinished);
    ASSERT_TRUE(SnapshotReader::open(directory_));
  }
  write(8.0F);
  std::vector<float> value;
  std::vector<float> state;
  std::uint64_t update_count = 0;
  const auto reader = SnapshotReader::open(directory_);
  ASSERT_TRUE(reader);
  ASSERT_TRUE(reader->read_dense("_fc.wbias", value, state, update_count));
  EXPECT_EQ(value[0], 8.0F);
  EXPECT_FALSE(std::filesystem::exists(directory_ + ".tmp"));
}

// An earlier snapshot stays where the new one could not be read again.
TEST_F(SnapshotTest, WhatCouldNotBeReadAgainReplacesNothing) {
  write(5.0F);
  const std::string before = content(directory_ + "/MANIFEST");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  {
    SnapshotInfo facts = info();
    facts.samples = ~0ULL;
    auto writer = SnapshotWriter::create(directory_, facts);
    ASSERT_TRUE(writer);
    const Status saved = writer->finish();
    ASSERT_FALSE(saved);
    EXPECT_NE(saved.error().message.find("could not be read again"), std::string::npos);
  }
  {
    auto writer = SnapshotWriter::create(directory_, info());
    ASSERT_TRUE(writer);
    const std::vector<float> bad{1, nan}, state{1, 2, 3, 4};
    EXPECT_FALSE(writer->add_dense(dense_spec(), bad, state, 17));
  }
  {
    auto writer = SnapshotWriter::create(directory_, info());
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->begin_sparse(sparse_spec(), 2));
    test::SavedRow row = rows().front();
    row.state[3] = nan;
    EXPECT_FALSE(writer->add_rows(test::encoded({row})));
  }
  EXPECT_EQ(content(directory_ + "/MANIFEST"), before);
  EXPECT_TRUE(SnapshotReader::open(directory_));
}

TEST_F(SnapshotTest, NeverReplacesAnotherFolder) {
  std::filesystem::create_directory(directory_);
  overwrite(directory_ + "/thesis.txt", "mine");
  const auto writer = SnapshotWriter::create(directory_, info());
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().message, directory_ + ": exists and is not a snapshot");
  EXPECT_EQ(content(directory_ + "/thesis.txt"), "mine");
}

TEST_F(SnapshotTest, RefusesUnsafeNamesAndSizes) {
  auto writer = SnapshotWriter::create(directory_, info());
  ASSERT_TRUE(writer);
  wire::ParameterSpec spec = dense_spec();
  spec.set_name("../escape");
  EXPECT_FALSE(writer->add_dense(spec, std::vector<float>{1, 2}, {}, 0));
  EXPECT_FALSE(writer->add_dense(dense_spec(), std::vector<float>{1}, {}, 0));
}

}  // namespace
}  // namespace paddle::snapshot
