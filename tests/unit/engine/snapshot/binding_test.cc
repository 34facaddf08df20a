// A snapshot is one thing: nothing of another one, and nothing that cannot be, is taken for its
// own.
#include <sys/stat.h>

#include "base/rng.h"
#include "base/version.h"
#include "tests/unit/engine/snapshot/snapshot_fixture.h"

namespace paddle::snapshot {
namespace {

constexpr std::size_t kTables = 2;

class BindingTest : public SnapshotTest {
 protected:
  // Writes the state of `job` after a pass: the shapes are always the same, the numbers are not.
  void write_pass(const std::string& directory, std::uint64_t pass) {
    SnapshotInfo facts = info();
    facts.pass = pass;
    facts.step = 100 * pass;
    auto writer = SnapshotWriter::create(directory, facts);
    ASSERT_TRUE(writer) << writer.error().message;
    const float number = static_cast<float>(pass);
    const std::vector<float> value{number, -2.5F};
    const std::vector<float> state{number, 2, 3, 4};
    ASSERT_TRUE(writer->add_dense(dense_spec(), value, state, 17));
    auto table = sparse_spec();
    table.set_dims(1, width_);
    for (std::size_t i = 0; i < kTables; ++i) {
      table.set_name("t" + std::to_string(i));
      ASSERT_TRUE(writer->begin_sparse(table, 0));
      test::SavedRow row;
      for (row.id = 0; row.id < 3; ++row.id) {
        row.value.assign(width_, number + static_cast<float>(row.id));
        ASSERT_TRUE(writer->add_rows(test::encoded({row})));
      }
      ASSERT_TRUE(writer->end_sparse());
    }
    ASSERT_TRUE(writer->finish());
  }
  // A snapshot of the pass after, beside a fresh directory_.
  void write_both() {
    std::filesystem::remove_all(directory_);
    write_pass(directory_, 4);
    if (!std::filesystem::exists(other_)) write_pass(other_, 5);
  }
  // Opens and reads everything, as a load does.
  static Status read(const std::string& directory) {
    PADDLE_TRY(const SnapshotReader reader, SnapshotReader::open(directory));
    for (const wire::ParameterSpec& spec : reader.parameters()) {
      std::vector<float> value, state;
      std::uint64_t count = 0;
      PADDLE_TRY_STATUS(
          spec.sparse()
              ? reader.read_rows(spec.name(), [](const table::Row&) -> Status { return {}; })
              : reader.read_dense(spec.name(), value, state, count));
    }
    return {};
  }
  void expect_refused(const std::string& file, const std::string& what) {
    const Status found = read(directory_);
    ASSERT_FALSE(found) << file << ": " << what;
    EXPECT_EQ(found.error().code, Errc::kData) << found.error().message;
    EXPECT_NE(found.error().message.find(file), std::string::npos)
        << file << " is not in: " << found.error().message;
    EXPECT_NE(found.error().message.find(what), std::string::npos)
        << what << " is not in: " << found.error().message;
  }
  std::string at(const std::string& file) const { return directory_ + "/" + file; }
  // Puts a number into a file of one block, and makes all checksums those of the new content.
  void replace_float(const std::string& file, float from, float to) {
    std::string text = content(at(file));
    const auto bytes = [](const float& number) {
      return std::string(reinterpret_cast<const char*>(&number), sizeof number);
    };
    const std::size_t place = text.find(bytes(from));
    ASSERT_NE(place, std::string::npos);
    text.replace(place, sizeof(float), bytes(to));
    if (file != "_fc.wbias") {
      const std::size_t header = 56 + file.size() + 4;  // as BlockHeader says
      const std::size_t body = text.size() - header - 4;
      BlockCrc crc(as_bytes(text).first(header));
      store_le(reinterpret_cast<std::byte*>(text.data()) + header + body,
               crc.next(as_bytes(text).subspan(header, body)));
    }
    overwrite(at(file), text);
    forge(directory_);
  }

  std::uint64_t width_ = 8;
  const std::vector<std::string> files_ = {"MANIFEST", "_fc.wbias", "_fc.wbias.state",
                                           "t0.sparse-00000", "t1.sparse-00000"};
  void SetUp() override {
    SnapshotTest::SetUp();
    other_ = root_ + "/pass-00001";
  }
  std::string other_;
};

TEST_F(BindingTest, AFileOfAnotherSnapshotIsRefusedByName) {
  for (const std::string& file : files_) {
    write_both();
    std::filesystem::copy_file(other_ + "/" + file, at(file),
                               std::filesystem::copy_options::overwrite_existing);
    // The files are not those of a swapped MANIFEST; whichever comes first is named.
    expect_refused(file == "MANIFEST" ? "_fc.wbias" : file, "");
  }
}

TEST_F(BindingTest, ABlockFileOfAnotherSnapshotIsRefusedEvenWhenMANIFESTSaysItsHash) {
  for (const std::string& file : {files_[2], files_[3]}) {
    write_both();
    std::filesystem::copy_file(other_ + "/" + file, at(file),
                               std::filesystem::copy_options::overwrite_existing);
    forge(directory_);
    expect_refused(file, "it belongs to snapshot ");
  }
}

TEST_F(BindingTest, ExchangedFilesAreRefusedByName) {
  for (const bool forges : {false, true}) {
    write_both();
    std::filesystem::rename(at("t0.sparse-00000"), at("x"));
    std::filesystem::rename(at("t1.sparse-00000"), at("t0.sparse-00000"));
    std::filesystem::rename(at("x"), at("t1.sparse-00000"));
    if (forges) forge(directory_);
    expect_refused("t0.sparse-00000", "its header belongs to another file, 't1.sparse-00000'");
  }
}

TEST_F(BindingTest, ExchangedRepeatedAndMissingBlocksAreRefusedByName) {
  constexpr std::size_t kStored = kBlockBytes + 4;  // with its CRC32C
  width_ = kBlockBytes / sizeof(float);             // three rows take three blocks and a little
  const std::string file = "t0.sparse-00000";
  const auto edit = [&](auto&& change, bool forges, const std::string& what) {
    write_both();
    std::string text = content(at(file));
    ASSERT_GT(text.size(), 3 * kStored);
    change(text);
    overwrite(at(file), text);
    if (forges) forge(directory_);
    expect_refused(file, forges ? what : "");
  };
  const std::size_t header = 56 + file.size() + 4;  // as BlockHeader says
  const auto swap = [&](std::string& text) {
    const std::string one = text.substr(header, kStored);
    text.replace(header, kStored, text.substr(header + kStored, kStored));
    text.replace(header + kStored, kStored, one);
  };
  const auto repeat = [&](std::string& text) {
    text.replace(header + kStored, kStored, text.substr(header, kStored));
  };
  const auto drop = [&](std::string& text) { text.erase(header, kStored); };
  for (const bool forges : {false, true}) {
    edit(swap, forges, "block expected CRC32C");
    edit(repeat, forges, "block expected CRC32C");
    edit(drop, forges, "expected whole rows");
  }
}

TEST_F(BindingTest, MutationsOfAWholeSnapshotAreRefusedByName) {
  write_both();
  Rng rng(17);
  for (int i = 0; i < 120; ++i) {
    const std::string& file = files_[rng.below(files_.size())];
    const std::string whole = content(at(file));
    std::string text = whole;
    const std::size_t place = rng.below(text.size());
    switch (i % 4) {
      case 0:
        text[place] = static_cast<char>(text[place] ^ (1 << rng.below(8)));
        break;
      case 1:
        text.resize(place);
        break;
      case 2:
        text += std::string(1 + rng.below(5000), '\0');
        break;
      default:
        text.replace(place, std::min<std::size_t>(4096, text.size() - place), 1, '\xff');
    }
    if (text == whole) continue;
    overwrite(at(file), text);
    expect_refused(file, "");
    overwrite(at(file), whole);
  }
  EXPECT_TRUE(read(directory_));
}

TEST_F(BindingTest, WhatIsNoPlainFileIsRefusedByNameAndAtOnce) {
  for (const std::string& file : files_) {
    write_both();
    std::filesystem::remove(at(file));
    expect_refused(file, "");
    ASSERT_EQ(::mkfifo(at(file).c_str(), 0600), 0);
    expect_refused(file, "");
    std::filesystem::remove(at(file));
    std::filesystem::create_directory(at(file));
    expect_refused(file, "");
    std::filesystem::remove(at(file));
    std::filesystem::create_symlink("/dev/zero", at(file));
    expect_refused(file, "");
  }
}

// Training that went on from such a count would wrap around and take every push for a repeat.
TEST_F(BindingTest, CountsThatCannotBeAreRefused) {
  const std::pair<const char*, const char*> counts[] = {
      {"pass=4 ", "pass=4294967296 "},
      {"pass=4 ", "pass=18446744073709551615 "},
      {"step=400 ", "step=281474976710657 "},
      {"step=400 ", "step=18446744073709551614 "},
      {"step=400 ", "step=-1 "},
      {"samples=987654321012", "samples=18446744073709551615"},
      {"cursor=7", "cursor=18446744073709551615"},
      {"cursor=0", "cursor=4611686018427387904"},
      {"cursor=9", "cursor=281474976710657"},
      {"batches=4", "batches=18446744073709551615"},
  };
  for (const auto& [from, to] : counts) {
    write_both();
    forge(directory_, from, to);
    expect_refused("MANIFEST", to);
  }
}

TEST_F(BindingTest, NumbersThatAreNotFiniteAreRefused) {
  for (const char* const number : {"nan", "inf", "-inf", "-1"}) {
    write_both();
    forge(directory_, "learning_rate=0.003", fmt::format("learning_rate={}", number));
    expect_refused("MANIFEST", "learning_rate");
    write_both();
    forge(directory_, "learning_rate=2", fmt::format("learning_rate={}", number));
    expect_refused("MANIFEST", "learning_rate");
  }
  write_both();
  forge(directory_, "method=adam", "method=magic");
  expect_refused("MANIFEST", "magic");
  write_both();
  forge(directory_, "name=t1\n", "name=t0\n");
  expect_refused("MANIFEST", "");
}

// The writer refuses them too, so they are put into the files as a forger would.
TEST_F(BindingTest, ValuesThatAreNotFiniteAreRefusedByName) {
  constexpr float kMark = 54321;
  auto spec = sparse_spec();
  spec.mutable_table()->mutable_shrink()->set_decay(0.5F);
  for (const float number :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    const auto expect_all = [&](std::vector<float> value, std::vector<float> state,
                                test::SavedRow row, const std::string& file) {
      std::filesystem::remove_all(directory_);
      auto writer = SnapshotWriter::create(directory_, info());
      ASSERT_TRUE(writer);
      ASSERT_TRUE(writer->add_dense(dense_spec(), value, state, 17));
      ASSERT_TRUE(writer->begin_sparse(spec, 2));
      ASSERT_TRUE(writer->add_rows(test::encoded({row}, true)));
      ASSERT_TRUE(writer->end_sparse());
      ASSERT_TRUE(writer->finish());
      replace_float(file, kMark, number);
      expect_refused(file, fmt::format("{}, not a finite number", number));
    };
    const std::vector<float> value{1, 2};
    const std::vector<float> state{1, 2, 3, 4};
    const test::SavedRow row = rows().front();
    test::SavedRow marked = row;
    expect_all({1, kMark}, state, row, "_fc.wbias");
    expect_all(value, {1, 2, kMark, 4}, row, "_fc.wbias.state");
    marked.value[2] = kMark;
    expect_all(value, state, marked, "my table.sparse-00000");
    marked = row;
    marked.state[5] = kMark;
    expect_all(value, state, marked, "my table.sparse-00000");
    marked = row;
    marked.score.shows = kMark;
    expect_all(value, state, marked, "my table.sparse-00000");
  }
}

// Files with holes: they take no room, and would take hours to read.
TEST_F(BindingTest, AFileThatIsLongerThanItsValuesIsRefusedBeforeItIsRead) {
  constexpr std::uint64_t kHole = 1ULL << 40U;
  for (const std::string& file : files_) {
    if (file == "MANIFEST") continue;
    write_both();
    const std::string manifest = content(at("MANIFEST"));
    const std::size_t end = manifest.rfind(" name=" + file + "\n");
    const std::size_t begin = manifest.rfind("file size=", end);
    const std::string line = manifest.substr(begin, end - begin);
    const std::string hole =
        fmt::format("file size={}{}", kHole, line.substr(line.find(" sha256=")));
    std::error_code failed;
    std::filesystem::resize_file(at(file), kHole, failed);
    if (failed) GTEST_SKIP() << "no file system for a file of 1 TiB";
    forge(directory_, line, hole, /*hashes=*/false);
    expect_refused(file, "bytes of values");
  }
}

TEST_F(BindingTest, EqualStatesAreEqualSnapshots) {
  write_pass(directory_, 4);
  write_pass(other_, 4);
  for (const std::string& file : files_) EXPECT_EQ(content(at(file)), content(other_ + "/" + file));
}

TEST_F(BindingTest, AnotherFormatIsRefusedWithBothNumbers) {
  const auto refuses = [this](const std::string& format) {
    const auto opened = SnapshotReader::open(directory_);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::kVersion);
    EXPECT_EQ(opened.error().message,
              fmt::format("{}: MANIFEST: it has snapshot format {}, but this program, of release "
                          "{}, reads format {}",
                          directory_, format, kProgramVersion, kSnapshotFormat));
    EXPECT_TRUE(opened.error().hint.starts_with("use the release that wrote it"));
  };
  write_pass(directory_, 4);
  const std::string ours = fmt::format("format={}", kSnapshotFormat);
  forge(directory_, ours, "format=5");
  refuses("5");
  forge(directory_, "format=5", "format=0");
  refuses("0");
  // Its other lines, and its checksum, may have another form.
  overwrite(at("MANIFEST"), "snapshot format=1 engine=0.1.0\nprogress pass=1\ncrc32c 0149fd9f\n");
  refuses("1");
  overwrite(at("MANIFEST"), "snapshot format=7\n");
  refuses("7");
  std::filesystem::remove(at("MANIFEST"));
  // The writer replaces no snapshot that it cannot read.
  overwrite(at("MANIFEST"), "snapshot format=7\n");
  EXPECT_EQ(SnapshotWriter::create(directory_, info()).error().code, Errc::kVersion);
}

TEST_F(BindingTest, ADamagedFormatIsDamageAndNoOtherFormat) {
  write_pass(directory_, 4);
  std::string text = content(at("MANIFEST"));
  text.replace(text.find("format="), 8, "format=6");
  overwrite(at("MANIFEST"), text);
  expect_refused("MANIFEST", "expected last line");
}

}  // namespace
}  // namespace paddle::snapshot
