#include "base/fd.h"
#include "base/rng.h"
#include "tests/support/files/memory_files.h"
#include "tests/unit/engine/snapshot/snapshot_fixture.h"

namespace paddle::snapshot {
namespace {

const std::vector<std::string> kFiles = {"MANIFEST", "_fc.wbias", "_fc.wbias.state",
                                         "my table.sparse-00000"};

constexpr int kFlips = 10'000;

void expect_refused(const std::string& directory, const std::string& file, const std::string& what,
                    FileSystem& files = kernel_file_system()) {
  const auto reader = SnapshotReader::open(directory, files);
  ASSERT_FALSE(reader) << file << " " << what;
  EXPECT_EQ(reader.error().code, Errc::kData);
  EXPECT_NE(reader.error().message.find(file), std::string::npos) << reader.error().message;
}

// The folder of snapshots `root` at the same path in memory, where damage takes no time.
test::MemoryFiles in_memory(const std::string& root) {
  test::MemoryFiles files;
  for (std::size_t end = 0; end != root.npos;) {
    end = root.find('/', end + 1);
    const std::string parent = root.substr(0, end);
    EXPECT_TRUE(files.exists(parent) || files.make_directory(parent));
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string path = entry.path();
    if (entry.is_directory()) {
      EXPECT_TRUE(files.make_directory(path));
    } else {
      const auto directory = files.open_directory(entry.path().parent_path());
      const auto file = (*directory)->create(entry.path().filename());
      EXPECT_TRUE((*file)->append(as_bytes(*read_file(path))));
    }
  }
  return files;
}

// Cuts each of the files to every length, and appends a byte to it.
void expect_truncations_refused(const std::string& root, const std::string& directory,
                                const std::vector<std::string>& paths) {
  test::MemoryFiles files = in_memory(root);
  for (const std::string& path : paths) {
    const std::string whole = *files.read_file(path, kManifestBytesMax);
    const std::string file = path.substr(path.rfind('/') + 1);
    ASSERT_FALSE(whole.empty());
    for (std::size_t size = 0; size < whole.size(); ++size) {
      files.write(path, whole.substr(0, size));
      expect_refused(directory, file, "cut to " + std::to_string(size), files);
    }
    files.write(path, whole + '\0');
    expect_refused(directory, file, "with a byte more", files);
    files.write(path, whole);
  }
  EXPECT_TRUE(SnapshotReader::open(directory, files));
}

void expect_flips_refused(const std::string& root, const std::string& directory,
                          const std::vector<std::string>& paths) {
  test::MemoryFiles files = in_memory(root);
  Rng rng(2026);
  for (int i = 0; i < kFlips; ++i) {
    const std::string& path = paths[rng.below(paths.size())];
    const std::string whole = *files.read_file(path, kManifestBytesMax);
    std::string flipped = whole;
    const std::uint64_t bit = rng.below(whole.size() * 8);
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    files.write(path, flipped);
    expect_refused(directory, path.substr(path.rfind('/') + 1), "bit " + std::to_string(bit),
                   files);
    files.write(path, whole);
  }
  EXPECT_TRUE(SnapshotReader::open(directory, files));
}

std::vector<std::string> full_files(const std::string& directory) {
  std::vector<std::string> files;
  for (const std::string& file : kFiles) files.push_back(directory + "/" + file);
  return files;
}

// The files of a delta, and those that it needs of its base.
std::vector<std::string> delta_files(const std::string& directory, const std::string& base) {
  std::vector<std::string> files{base + "/MANIFEST", base + "/my table.sparse-00000"};
  for (const std::string& file : full_files(directory)) files.push_back(file);
  files.push_back(directory + "/my table.sparse-removed");
  return files;
}

TEST_F(SnapshotTest, EveryTruncationIsRefusedByName) {
  write();
  expect_truncations_refused(root_, directory_, full_files(directory_));
}

TEST_F(SnapshotTest, EveryTruncationOfADeltaOrItsBaseIsRefusedByName) {
  write_delta();
  expect_truncations_refused(root_, directory_, delta_files(directory_, base_));
}

TEST_F(SnapshotTest, EveryBitFlipIsRefusedByName) {
  write();
  expect_flips_refused(root_, directory_, full_files(directory_));
}

TEST_F(SnapshotTest, EveryBitFlipOfADeltaOrItsBaseIsRefusedByName) {
  write_delta();
  expect_flips_refused(root_, directory_, delta_files(directory_, base_));
}

TEST_F(SnapshotTest, ADeltaWithoutItsOwnBaseIsRefusedByName) {
  write_delta();
  std::filesystem::rename(base_, root_ + "/elsewhere");
  auto reader = SnapshotReader::open(directory_);
  ASSERT_FALSE(reader);
  EXPECT_NE(reader.error().message.find("pass-00001"), std::string::npos);
  // Another full snapshot has its name.
  const std::string delta = directory_;
  directory_ = base_;
  write();
  reader = SnapshotReader::open(delta);
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code, Errc::kData);
  EXPECT_NE(reader.error().message.find("of the base of"), std::string::npos)
      << reader.error().message;
  // A delta cannot be a base.
  EXPECT_FALSE(base_of(delta));
}

TEST_F(SnapshotTest, ABaseOfAnotherShapeIsRefused) {
  const auto write_table = [&](const std::string& directory, std::uint32_t state_width,
                               std::optional<BaseSnapshot> base) {
    SnapshotInfo facts = info();
    facts.base = std::move(base);
    auto writer = SnapshotWriter::create(directory, facts);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->begin_sparse(sparse_spec(), state_width));
    ASSERT_TRUE(writer->end_sparse());
    ASSERT_TRUE(writer->finish());
  };
  const std::string base = root_ + "/base";
  write_table(base, 2, {});
  write_table(directory_, 2, *base_of(base));
  EXPECT_TRUE(SnapshotReader::open(directory_));
  write_table(directory_, 1, *base_of(base));
  const auto reader = SnapshotReader::open(directory_);
  ASSERT_FALSE(reader);
  EXPECT_NE(reader.error().message.find("table 'my table' has another shape"), std::string::npos)
      << reader.error().message;
}

TEST_F(SnapshotTest, RowsOfADeltaAreThoseOfItsBaseAgedAndDecayedWhereItNamesNone) {
  write_delta();
  const auto reader = SnapshotReader::open(directory_);
  ASSERT_TRUE(reader) << reader.error().message;
  std::vector<std::uint64_t> ids;
  ASSERT_TRUE(reader->read_rows("my table", [&](const table::Row& row) -> Status {
    ids.push_back(row.id);
    if (row.id == 0) {
      EXPECT_EQ(row.value[0], 1);
    }
    if (row.id == 5) {
      EXPECT_EQ(row.score.shows, 2);  // 8 halved in two passes
      EXPECT_EQ(row.score.clicks, 1);
      EXPECT_EQ(row.marks.passes_unseen, 3);  // two more
    }
    return {};
  }));
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{5, 0, ~0ULL}));
}

TEST_F(SnapshotTest, MissingFilesAreRefusedByName) {
  for (const std::string& file : kFiles) {
    write();
    std::filesystem::remove(directory_ + "/" + file);
    expect_refused(directory_, file, "missing");
    std::filesystem::remove_all(directory_);
  }
}

// Trap 9: a table's files and the MANIFEST must agree; the error names a missing file.
TEST_F(SnapshotTest, Trap09FilesThatTheManifestDoesNotNameAreNotReadAndMissingOnesRefused) {
  wire::ParameterSpec table = sparse_spec();
  constexpr std::uint64_t kWidth = 1U << 18U;  // 1 MiB a row: 70 rows need two files
  table.set_dims(1, kWidth);
  auto writer = SnapshotWriter::create(directory_, info());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->begin_sparse(table, 0));
  test::SavedRow row;
  row.value.resize(kWidth);
  for (row.id = 0; row.id < 70; ++row.id) ASSERT_TRUE(writer->add_rows(test::encoded({row})));
  ASSERT_TRUE(writer->end_sparse());
  ASSERT_TRUE(writer->finish());
  const std::string second = directory_ + "/my table.sparse-00001";
  const std::string third = directory_ + "/my table.sparse-00002";
  std::filesystem::copy_file(second, third);
  const auto reader = SnapshotReader::open(directory_);
  ASSERT_TRUE(reader) << reader.error().message;
  std::uint64_t rows = 0;
  ASSERT_TRUE(reader->read_rows("my table", [&](const table::Row& /*found*/) -> Status {
    ++rows;
    return {};
  }));
  EXPECT_EQ(rows, 70U);
  std::filesystem::remove(second);
  expect_refused(directory_, "my table.sparse-00001", "missing");
}

// A forged MANIFEST has right checksums; widths that overflow or take all memory are refused.
TEST_F(SnapshotTest, AStateWidthThatNoOptimizerHasIsRefused) {
  for (const std::string width : {"17", "4294967295", "2147483648"}) {
    std::filesystem::remove_all(directory_);
    write();
    forge(directory_, "state_width=2", "state_width=" + width);
    expect_refused(directory_, "MANIFEST", width);
  }
}

// Files of so many bytes are verified by several threads.
TEST_F(SnapshotTest, OfSeveralDamagedFilesTheFirstIsNamed) {
  constexpr std::size_t kValues = 1U << 20U;
  auto writer = SnapshotWriter::create(directory_, info());
  ASSERT_TRUE(writer);
  std::vector<std::string> names;
  for (int i = 0; i < 6; ++i) {
    auto spec = dense_spec();
    spec.set_name("_fc.w" + std::to_string(i));
    spec.set_dims(0, kValues);
    names.push_back(spec.name());
    ASSERT_TRUE(writer->add_dense(spec, std::vector<float>(kValues, 0.5F), {}, 1));
  }
  ASSERT_TRUE(writer->finish());
  ASSERT_TRUE(SnapshotReader::open(directory_));
  for (std::size_t first = names.size(); first-- > 0;) {
    const std::string path = directory_ + "/" + names[first];
    std::string text = content(path);
    text.back() = static_cast<char>(text.back() ^ 1);
    overwrite(path, text);
    expect_refused(directory_, names[first], "and those behind it");
  }
}

// Reading detects damage that happens after opening.
TEST_F(SnapshotTest, DamageAfterOpenIsRefused) {
  write();
  const auto reader = SnapshotReader::open(directory_);
  ASSERT_TRUE(reader);
  for (const std::string& file : kFiles) {
    std::string text = content(directory_ + "/" + file);
    text.back() = static_cast<char>(text.back() ^ 1);
    overwrite(directory_ + "/" + file, text);
  }
  std::vector<float> value;
  std::vector<float> state;
  std::uint64_t update_count = 0;
  EXPECT_FALSE(reader->read_dense("_fc.wbias", value, state, update_count));
  EXPECT_TRUE(value.empty());
  EXPECT_FALSE(reader->read_rows("my table", [](const table::Row&) -> Status { return {}; }));
}

}  // namespace
}  // namespace paddle::snapshot
