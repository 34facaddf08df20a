// Tests of what the head of a file says about its lines.
#include "engine/data/chunk_reader.h"

#include "tests/unit/engine/data/data_fixture.h"
#include "tests/unit/engine/data/packing.h"

namespace paddle::data {
namespace {

using Records = std::vector<std::string>;

class ChunkReaderTest : public DataTest {
 protected:
  // Lines of all chunks; places are where the chunks began.
  std::string text_of(ChunkReader& reader, std::vector<ChunkPlace>* places = nullptr) {
    std::string text;
    Chunk chunk;
    for (;;) {
      const auto found = reader.next(chunk);
      EXPECT_TRUE(found);
      if (!found || !*found) return text;
      if (places != nullptr) places->push_back(chunk.begin);
      text += as_text(chunk.text);
    }
  }
};

const std::string kMark = "\xef\xbb\xbf";

TEST_F(ChunkReaderTest, AByteOrderMarkIsNoPartOfTheFirstLine) {
  options_.data.format = "ngram";
  options_.data.ngram = 3;
  EXPECT_EQ(parse(kMark + "a b\n"), parse("a b\n"));
  options_.data.format = "bow";
  EXPECT_EQ(parse(kMark + "1\ta\r\n2\tb\r\n"), (Records{"2|1", "3|2"}));
  options_.data.format = "libsvm";
  EXPECT_EQ(parse(kMark + "1 2:3\n"), (Records{"1|2:3"}));
  options_.data.format = "jsonl";
  options_.data.slots = {{.name = "a"}};
  EXPECT_EQ(parse(kMark + "{\"a\": 7}\n"), (Records{"7"}));
  options_.data.format = "multislot";
  EXPECT_EQ(parse(kMark + "1 7\n"), (Records{"7"}));
  options_.data.format = "csv";
  options_.data.columns = {"a"};
  options_.data.slots = {{.name = "a", .type = config::SlotType::kHash, .columns = {0}}};
  EXPECT_EQ(parse(kMark + "Bern\nBern\n"), parse("Bern\nBern\n"));
  options_.data.has_header = true;
  EXPECT_EQ(parse(kMark + "a\r\nBern\r\n"), parse("a\nBern\n"));
  EXPECT_EQ(parse(kMark + "\"a\"\r\nBern\r\n"), parse("a\nBern\n"));
  EXPECT_EQ(parse(kMark), Records{});
}

TEST_F(ChunkReaderTest, AByteOrderMarkIsLeftOutOfPackedFilesToo) {
  for (const auto& [name, content] :
       {std::pair{"file.gz", gzip(kMark + "1\ta\n")}, {"file.xz", xz(kMark + "1\ta\n")}}) {
    options_.share.files = {folder_.write(name, content)};
    EXPECT_EQ(read_all(), (Records{"2|1"})) << name;
  }
  options_.data.pipe_command = {"cat"};
  EXPECT_EQ(parse(kMark + "1\ta\n"), (Records{"2|1"}));
}

TEST_F(ChunkReaderTest, OnlyTheFirstMarkIsOne) {
  EXPECT_EQ(mistake(kMark + "1\ta\n" + kMark + "1\ta\n"),
            "bad.txt:2: the label '\\xef\\xbb\\xbf1' is not a whole number from 0 to 2^64-1");
}

TEST_F(ChunkReaderTest, CarriageReturnsAloneEndLines) {
  EXPECT_EQ(parse("1\ta\r2\tb\r\r3\tc"), (Records{"2|1", "3|2", "4|3"}));
  EXPECT_EQ(parse(kMark + "1\ta\r2\tb\r"), (Records{"2|1", "3|2"}));
  EXPECT_EQ(mistake("1\ta\rx\tb\r"),
            "bad.txt:2: the label 'x' is not a whole number from 0 to 2^64-1");
  options_.data.format = "csv";
  options_.data.columns = {"a", "b"};
  options_.data.slots = {{.name = "a", .columns = {0}}};
  options_.data.has_header = true;
  EXPECT_EQ(parse("a,b\r1,2\r3,4\r"), (Records{"1", "3"}));
  // In other files it is one byte of a line.
  options_.data.has_header = false;
  EXPECT_EQ(mistake("1,2\n3,4\r5,6\n"), "bad.txt:2: 3 fields, not 2");
}

TEST_F(ChunkReaderTest, ChunksOfMarkedFilesAreFoundAgain) {
  std::string lines;
  for (int i = 0; i < 100000; ++i) lines += fmt::format("{}\ta b c\n", i);
  std::string old_mac = lines;
  std::ranges::replace(old_mac, '\n', '\r');
  for (const std::string& content : {kMark + lines, kMark + old_mac, old_mac, lines}) {
    for (const bool is_packed : {false, true}) {
      const std::string path =
          folder_.write(is_packed ? "file.gz" : "file", is_packed ? gzip(content) : content);
      std::vector<ChunkPlace> places;
      ChunkReader whole(path, 0, {});
      ASSERT_EQ(text_of(whole, &places), lines);
      ASSERT_GT(places.size(), 3U);
      const std::uint64_t mark = content.size() - lines.size();
      for (const ChunkPlace& place : places) {
        ChunkReader part(path, 0, {});
        ASSERT_TRUE(part.go_to(place));
        ASSERT_EQ(text_of(part), lines.substr(place.offset - mark));
      }
    }
  }
}

}  // namespace
}  // namespace paddle::data
