// The format of one savepoint.
#include "base/crc32c.h"
#include "engine/snapshot/savepoint_folder.h"
#include "tests/unit/engine/snapshot/savepoint_fixture.h"

namespace paddle::snapshot {
namespace {

class SavepointFileTest : public SavepointFixture {
 protected:
  SavepointFileTest() {
    EXPECT_TRUE(files_.make_directories(kFolder));
    directory_ = *files_.open_directory(kFolder);
  }

  SavepointMark write_file(const SavepointHeader& header, const std::vector<std::string>& records) {
    auto writer = SavepointFileWriter::create(*directory_, "savepoint", header);
    EXPECT_TRUE(writer);
    std::uint32_t kind = 7;
    for (const std::string& record : records) EXPECT_TRUE(writer->add(kind++, as_bytes(record)));
    const auto mark = writer->finish();
    EXPECT_TRUE(mark);
    return *mark;
  }

  // The text of all records, or the error.
  std::string read_file() {
    auto reader = SavepointFileReader::open(*directory_, "savepoint");
    if (!reader) return "error: " + reader.error().message;
    std::string text;
    for (;;) {
      const auto more = reader->next();
      if (!more) {
        EXPECT_EQ(more.error().code, Errc::kData);
        return "error: " + more.error().message;
      }
      if (!*more) return text;
      text += fmt::format("{}={};", reader->kind(), as_text(reader->payload()));
    }
  }

  void replace(std::string text) { files_.write(path_of("savepoint"), text); }

  test::MemoryFiles files_;
  std::unique_ptr<Directory> directory_;
};

TEST_F(SavepointFileTest, HeaderAndRecordsAreReadAsWritten) {
  const SavepointHeader header{
      .fingerprint = 1ULL << 63U, .number = 12, .after = SavepointMark{11, 0xabcdef01}};
  const SavepointMark mark = write_file(header, {"one", "", "three"});
  auto reader = SavepointFileReader::open(*directory_, "savepoint");
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->header().fingerprint, header.fingerprint);
  EXPECT_EQ(reader->header().number, 12U);
  EXPECT_EQ(reader->header().after, header.after);
  while (*reader->next()) {
  }
  EXPECT_EQ(reader->mark(), mark);
  EXPECT_EQ(read_file(), "7=one;8=;9=three;");
}

TEST_F(SavepointFileTest, AFullSavepointWithoutRecordsIsWhole) {
  write_file({.fingerprint = 1, .number = 0, .after = {}}, {});
  EXPECT_EQ(read_file(), "");
  EXPECT_FALSE(SavepointFileReader::open(*directory_, "savepoint")->header().after);
}

TEST_F(SavepointFileTest, TheMarkDependsOnWhatTheSavepointFollowsAndHolds) {
  const auto mark = [&](const SavepointHeader& header, const std::vector<std::string>& records) {
    EXPECT_TRUE(files_.remove_all(path_of("savepoint")));
    return write_file(header, records).crc;
  };
  const SavepointHeader header{.fingerprint = 1, .number = 12, .after = SavepointMark{11, 5}};
  const std::uint32_t first = mark(header, {"one", "two"});
  EXPECT_EQ(mark(header, {"one", "two"}), first);
  EXPECT_NE(mark(header, {"one", "twa"}), first);
  EXPECT_NE(mark(header, {"onet", "wo"}), first);
  EXPECT_NE(mark({.fingerprint = 1, .number = 12, .after = SavepointMark{11, 6}}, {"one", "two"}),
            first);
  EXPECT_NE(mark({.fingerprint = 2, .number = 12, .after = SavepointMark{11, 5}}, {"one", "two"}),
            first);
}

TEST_F(SavepointFileTest, EveryTruncationBitFlipAndTrailingByteIsFound) {
  write_file({.fingerprint = 1, .number = 12, .after = SavepointMark{11, 5}}, {"one", "", "three"});
  const std::string whole = content(files_, "savepoint");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    replace(whole.substr(0, size));
    EXPECT_TRUE(read_file().starts_with("error: savepoint: ")) << size;
  }
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    replace(flipped);
    EXPECT_TRUE(read_file().starts_with("error: savepoint: ")) << bit;
  }
  replace(whole + '\0');
  EXPECT_EQ(read_file(), "error: savepoint: 1 bytes after its end");
  replace(whole + whole);
  EXPECT_TRUE(read_file().starts_with("error: savepoint: "));
  replace(std::string(whole.size(), '\0'));
  EXPECT_TRUE(read_file().starts_with("error: savepoint: "));
}

// Header of 44 bytes; each record has 12 bytes before its payload and 4 after it.
TEST_F(SavepointFileTest, RecordsThatChangedPlacesOrAreMissingAreFound) {
  write_file({.fingerprint = 1, .number = 12, .after = {}}, {"one", "two", "six"});
  const std::string whole = content(files_, "savepoint");
  const auto record = [&](std::size_t i) { return whole.substr(44 + 19 * i, 19); };
  const std::string head = whole.substr(0, 44);
  const std::string last = whole.substr(44 + 19 * 3);
  replace(head + record(1) + record(0) + record(2) + last);
  EXPECT_TRUE(read_file().starts_with("error: savepoint: record 0 expected CRC32C")) << read_file();
  replace(head + record(0) + record(2) + last);
  EXPECT_TRUE(read_file().starts_with("error: savepoint: record 1 expected CRC32C")) << read_file();
  replace(head + record(0) + record(1) + last);
  EXPECT_TRUE(read_file().starts_with("error: savepoint: record 2 expected CRC32C")) << read_file();
}

// A length that the file cannot hold is refused before memory is taken for it, even where the file
// is large.
TEST_F(SavepointFileTest, LengthsAreCheckedBeforeMemoryIsTaken) {
  write_file({.fingerprint = 1, .number = 12, .after = {}}, {"one"});
  std::string text = content(files_, "savepoint");
  for (const std::uint64_t length :
       std::vector<std::uint64_t>{~0ULL, ~0ULL - 3, kSavepointRecordBytesMax + 1, 1ULL << 20U}) {
    store_le<std::uint64_t>(reinterpret_cast<std::byte*>(text.data()) + 48, length);
    replace(text);
    EXPECT_EQ(read_file(),
              fmt::format("error: savepoint: record 0 of {} bytes is damaged or cut off: {} "
                          "bytes are left",
                          length, text.size() - 56));
  }
}

TEST_F(SavepointFileTest, AnotherFormatWithARightChecksumIsRefused) {
  write_file({.fingerprint = 1, .number = 12, .after = {}}, {"one"});
  std::string text = content(files_, "savepoint");
  auto* const bytes = reinterpret_cast<std::byte*>(text.data());
  store_le<std::uint32_t>(bytes + 4, 2);
  store_le<std::uint32_t>(bytes + 40, crc32c(as_bytes(text).first(40)));
  replace(text);
  EXPECT_EQ(read_file(),
            "error: savepoint: expected a savepoint of format 1, found another header");
}

}  // namespace
}  // namespace paddle::snapshot
