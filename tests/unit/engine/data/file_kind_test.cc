#include "engine/data/file_kind.h"

#include <string>

#include <gtest/gtest.h>

namespace paddle::data {
namespace {

std::string kind_of(std::string_view head) {
  const Status text = check_is_text(head);
  return text ? "text" : text.error().message;
}

TEST(FileKind, TextIsText) {
  for (const char* const text :
       {"", "1", "1 2:3\n", "BZhang is a name", "BZh9 1:2", "ORCHESTRA\n", "PAR1,x\n", "ARROW1\n",
        "PK\n", "\xef\xbb\xbfname,age\n", "\xff", "{\"a\": 1}\n"}) {
    EXPECT_EQ(kind_of(text), "text") << text;
  }
  EXPECT_EQ(kind_of(std::string_view("a b\0 b\n", 7)), "text");
}

TEST(FileKind, TextOfSixteenBitsIsNamed) {
  for (const std::string_view head :
       {std::string_view("\xff\xfe"
                         "1\0,\0",
                         6),
        std::string_view("\xfe\xff\0"
                         "1\0,",
                         6),
        std::string_view("1\0,\0", 4), std::string_view("\0001\0,", 4)}) {
    EXPECT_EQ(kind_of(head), "it is UTF-16 text");
  }
  EXPECT_NE(check_is_text("\xff\xfe").error().hint.find("iconv -f UTF-16 -t UTF-8"),
            std::string::npos);
}

TEST(FileKind, TextOf32BitsIsNamedWithTheEncodingThatIconvReads) {
  const auto text = [](std::string_view bytes) { return check_is_text(bytes).error(); };
  for (const auto& [head, encoding] : std::vector<std::pair<std::string_view, std::string>>{
           {std::string_view("\xff\xfe\0\0a\0\0\0", 8), "UTF-32"},
           {std::string_view("\0\0\xfe\xff\0\0\0a", 8), "UTF-32"},
           {std::string_view("\xff\xfe\0\0", 4), "UTF-32"},
           {std::string_view("a\0\0\0,\0\0\0", 8), "UTF-32LE"},
           {std::string_view("\0\0\0a\0\0\0,", 8), "UTF-32BE"}}) {
    ASSERT_FALSE(check_is_text(head)) << encoding;
    EXPECT_EQ(text(head).message, "it is UTF-32 text") << encoding;
    EXPECT_NE(text(head).hint.find("iconv -f " + encoding + " -t UTF-8"), std::string::npos);
  }
  EXPECT_EQ(kind_of(std::string_view("a\0\0\0", 4)), "text");
}

TEST(FileKind, FilesOfOtherProgramsAreNamed) {
  EXPECT_EQ(kind_of(std::string_view("PK\x03\x04\x14\0\0\0", 8)),
            "it is a zip archive, as .xlsx and .npz files are, not lines of text");
  EXPECT_EQ(kind_of(std::string_view("PAR1\x15\0\x15", 7)),
            "it is a Parquet file, not lines of text");
  EXPECT_EQ(kind_of(std::string_view("\x93NUMPY\x01\0v\0", 10)),
            "it is a numpy array, not lines of text");
  EXPECT_EQ(kind_of(std::string_view("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0", 10)),
            "it is an old Excel spreadsheet, not lines of text");
  EXPECT_EQ(kind_of("\x04\x22\x4d\x18 and more"), "it is compressed by lz4, not lines of text");
  EXPECT_EQ(kind_of(std::string_view("]\0\0\x80\0\xff\xff", 7)),
            "it is compressed by lzma, not lines of text");
  EXPECT_EQ(kind_of("]1,2"), "text");
  EXPECT_EQ(kind_of("\x1f\x9d\x90"), "it is compressed by compress, not lines of text");
  std::string tar("train.csv");
  tar.resize(257, '\0');
  EXPECT_EQ(kind_of(tar + "ustar  "), "it is a tar archive, not lines of text");
  EXPECT_EQ(kind_of(std::string(257, 'x') + "ustar"), "text");
  EXPECT_EQ(kind_of(std::string_view("SQLite format 3\0", 16)),
            "it is an SQLite database, not lines of text");
}

}  // namespace
}  // namespace paddle::data
