// init --from: what a file's first records are, and what is guessed from them.
#include "cli/job/table_guess.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "cli/job/table_job.h"
#include "cli/job/table_sample.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

// `count` lines, each made by its number.
std::string table_lines(int count, const std::function<std::string(int)>& line) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line(i) + "\n";
  return text;
}

Result<TableSample> sampled(const std::string& text) {
  return sample_text(text, text.size(), "t");
}

std::string kind_word(ColumnKind kind) {
  constexpr std::array<std::string_view, 9> kWords{
      "number", "tail", "category", "text", "id", "date", "constant", "empty", "unusable"};
  return std::string(kWords[static_cast<std::size_t>(kind)]);
}

// "age number, sex category, y label binary [no yes]"; or the error's message and hint.
std::string guessed(const std::string& text, const std::string& label = "") {
  const auto sample = sampled(text);
  if (!sample) return sample.error().message + " | " + sample.error().hint;
  const auto guess = guess_table(*sample, label, "t");
  if (!guess) return guess.error().message + " | " + guess.error().hint;
  std::string shown;
  for (std::size_t i = 0; i < sample->columns.size(); ++i) {
    shown += (i == 0 ? "" : ", ") + sample->columns[i].name + " ";
    if (i != guess->label) {
      shown += kind_word(guess->columns[i].kind);
      continue;
    }
    shown += "label ";
    if (guess->task == Task::kNumber) shown += "number";
    if (guess->task != Task::kNumber)
      shown += fmt::format("{} [{}]", guess->task == Task::kBinary ? "binary" : "classes",
                           fmt::join(guess->classes, " "));
  }
  return shown;
}

// A key that is always "" has no shape until it has a value.
TEST(TableSample, OfJsonLinesFindsTheShapeOfAKeyAtItsFirstValue) {
  const auto sample = sampled(table_lines(60, [](int i) {
    return fmt::format(R"({{"x":{},"note":"","late":{}}})", i,
                       i < 30       ? "null"
                       : i % 2 == 0 ? "[1,2]"
                                    : "[3,null]");
  }));
  ASSERT_TRUE(sample);
  ASSERT_EQ(sample->columns.size(), 3U);
  EXPECT_EQ(sample->columns[1].values.size(), 60U);
  EXPECT_TRUE(std::ranges::all_of(sample->columns[1].values, &std::string_view::empty));
  EXPECT_EQ(sample->columns[2].width, 2U);
  ASSERT_EQ(sample->columns[2].values.size(), 120U);
  EXPECT_EQ(sample->columns[2].values[59], "");
  EXPECT_EQ(sample->columns[2].values[60], "1");
  EXPECT_EQ(sample->columns[2].values[63], "");
}

TEST(TableSample, OfJsonLinesTakesAnotherShapeWhileAllValuesAreMissing) {
  const auto sample = sampled(table_lines(40, [](int i) {
    return i < 20 ? std::string(i % 2 == 0 ? R"({"v":[null,null]})" : R"({"v":[null,null,null]})")
                  : std::string(R"({"v":[1,2,3]})");
  }));
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->columns[0].unusable, "");
  EXPECT_EQ(sample->columns[0].width, 3U);
  EXPECT_EQ(sample->columns[0].values.size(), 120U);
  EXPECT_EQ(sample->columns[0].values[119], "3");
}

struct GuessCase {
  std::string name;
  std::string text;
  std::string expected;  // of guessed()
  std::string label = "";
};

std::vector<GuessCase> guess_cases() {
  const auto with_column = [](const std::string& name,
                              const std::function<std::string(int)>& value) {
    return name + ",y\n" +
           table_lines(100, [&](int i) { return fmt::format("{},{}", value(i), i % 2); });
  };
  std::vector<GuessCase> cases{
      {"Numbers", with_column("a", [](int i) { return fmt::format("{}.5", i % 37); }),
       "a number, y label binary [0 1]"},
      {"Exponents", with_column("a", [](int i) { return fmt::format("+{}e-3", i % 37); }),
       "a number, y label binary [0 1]"},
      {"MissingWords",
       with_column("a",
                   [](int i) {
                     return i % 5 == 0 ? "NA" : i % 7 == 0 ? "?" : fmt::format("{}.5", i);
                   }),
       "a number, y label binary [0 1]"},
      {"EmptyNumbers",
       with_column("a", [](int i) { return i % 5 == 0 ? "" : fmt::format("{}.5", i); }),
       "a number, y label binary [0 1]"},
      {"LongTail",
       "a,y\n" + table_lines(200,
                             [](int i) {
                               return fmt::format("{},{}", i == 50 ? 1'000'000 : i * 7 % 10, i % 2);
                             }),
       "a tail, y label binary [0 1]"},
      {"Categories", with_column("a", [](int i) { return fmt::format("city {}", i % 5); }),
       "a category, y label binary [0 1]"},
      {"QuotedFields",
       with_column("a", [](int i) { return fmt::format("\"a, \"\"b\"\" {}\"", i % 5); }),
       "a category, y label binary [0 1]"},
      {"NumbersWithOddTexts",
       with_column("a", [](int i) { return i == 5 ? "unknown" : fmt::format("{}", i % 20); }),
       "a category, y label binary [0 1]"},
      {"Sentences",
       with_column("a", [](int i) { return fmt::format("the quick brown fox {}", i); }),
       "a text, y label binary [0 1]"},
      {"IdentifyingTexts", with_column("a", [](int i) { return fmt::format("Smith{}", i); }),
       "t: no column can predict the label 'y' | left out are 'a': almost every record has another "
       "value; --label names another label"},
      {"CountedRecords",
       "n,a,y\n" +
           table_lines(50, [](int i) { return fmt::format("{},{},{}", i, i * 7 % 11, i % 2); }),
       "n id, a number, y label binary [0 1]"},
      {"IndexOfPandas",
       ",a,y\n" +
           table_lines(50, [](int i) { return fmt::format("{},{},{}", i, i * 7 % 11, i % 2); }),
       " id, a number, y label binary [0 1]"},
      {"CodesByName",
       "user_id,zip,shopId,a,y\n" +
           table_lines(99,
                       [](int i) { return fmt::format("{0},{0},{0},{0},{1}", i * i % 7, i % 2); }),
       "user_id category, zip category, shopId category, a number, y label binary [0 1]"},
      {"Dates",
       "a,d,y\n" + table_lines(60,
                               [](int i) {
                                 return fmt::format("{},2024-01-{:02},{}", i * 7 % 11, 1 + i % 28,
                                                    i % 2);
                               }),
       "a number, d date, y label binary [0 1]"},
      {"ConstantAndEmpty",
       "a,c,e,y\n" +
           table_lines(40, [](int i) { return fmt::format("{},x,,{}", i * 7 % 11, i % 2); }),
       "a number, c constant, e empty, y label binary [0 1]"},
      {"Semicolons",
       "a;b;y\n" +
           table_lines(40,
                       [](int i) { return fmt::format("{};x,{};{}", i * 7 % 11, i % 4, i % 2); }),
       "a number, b category, y label binary [0 1]"},
      {"Tabs",
       "a\tb\ty\n" +
           table_lines(
               40, [](int i) { return fmt::format("{}\tx, {}\t{}", i * 7 % 11, i % 4, i % 2); }),
       "a number, b category, y label binary [0 1]"},
      {"Bars",
       "a|y\n" + table_lines(40, [](int i) { return fmt::format("{}|{}", i * 7 % 11, i % 2); }),
       "a number, y label binary [0 1]"},
      {"Blanks",
       table_lines(40,
                   [](int i) { return fmt::format("{} {} {}", i * 7 % 11, i * 5 % 13, i % 2); }),
       "c1 number, c2 number, c3 label binary [0 1]"},
      {"NoHeader",
       table_lines(40,
                   [](int i) {
                     return fmt::format("{}, Private, {}", 17 + i * 7 % 50,
                                        i % 3 == 0 ? "<=50K" : ">50K");
                   }),
       "c1 number, c2 constant, c3 label binary [<=50K >50K]"},
      {"HeaderAboveTexts",
       "colour,shape\n" +
           table_lines(40, [](int i) { return fmt::format("c{},s{}", i % 3, i % 4); }),
       "colour category, shape label classes [s0 s1 s2 s3]"},
      {"NoHeaderAboveTexts",
       table_lines(40, [](int i) { return fmt::format("c{},s{}", i % 3, i % 4); }),
       "c1 category, c2 label classes [s0 s1 s2 s3]"},
      {"WindowsAndByteOrderMark",
       "\xef\xbb\xbf"
       "a,y\r\n" +
           table_lines(40, [](int i) { return fmt::format("{},{}\r", i * 7 % 11, i % 2); }),
       "a number, y label binary [0 1]"},
      {"LabelByName",
       "Survived,a\n" +
           table_lines(40, [](int i) { return fmt::format("{},{}", i % 2, i * 7 % 11); }),
       "Survived label binary [0 1], a number"},
      {"LabelByOption",
       "label,a\n" +
           table_lines(100, [](int i) { return fmt::format("{},{}", i % 2, i * 7 % 97 + 0.5); }),
       "label number, a label number", "a"},
      {"YesIsSecond",
       "a,y\n" + table_lines(40,
                             [](int i) {
                               return fmt::format("{},{}", i * 7 % 11,
                                                  i % 2 == 0 ? "Yes" : "Never");
                             }),
       "a number, y label binary [Never Yes]"},
      {"TrueBeforeOther",
       "a,y\n" + table_lines(40,
                             [](int i) {
                               return fmt::format("{},{}", i * 7 % 11,
                                                  i % 2 == 0 ? "click" : "view");
                             }),
       "a number, y label binary [view click]"},
      {"PlusAndMinus",
       "a,y\n" +
           table_lines(
               40, [](int i) { return fmt::format("{},{}", i * 7 % 11, i % 2 == 0 ? "1" : "-1"); }),
       "a number, y label binary [-1 1]"},
      {"ClassesAsNumbers",
       "a,y\n" +
           table_lines(60, [](int i) { return fmt::format("{},{}", i * 7 % 11, 8 + i % 3 * 2); }),
       "a number, y label classes [8 10 12]"},
      {"ManyWholeNumbers",
       "a,y\n" +
           table_lines(100, [](int i) { return fmt::format("{},{}", i * 7 % 11, i * 37 % 101); }),
       "a number, y label number"},
      {"JsonLines",
       table_lines(
           40,
           [](int i) {
             return fmt::format(
                 R"({{"n": {}, "t": "x{}", "num": "{}", "tags": ["a", "b{}"], "xy": [{}, 2.5], "o": {{}}, "click": {}}})",
                 i == 3 ? "null" : fmt::format("{}", i * 7 % 11), i % 3, i % 4, i % 5, i,
                 i % 2 == 0 ? "true" : "false");
           }),
       "n number, t category, num category, tags text, xy number, o unusable, click label binary "
       "[0 1]"},
      {"JsonKeysThatComeLater",
       "{\"y\": 1, \"a\": 1}\n" +
           table_lines(
               40, [](int i) { return fmt::format(R"({{"b": {}, "y": {}}})", i * 7 % 11, i % 2); }),
       "y label binary [0 1], a number, b number"},
      {"Libsvm",
       table_lines(40,
                   [](int i) {
                     return fmt::format("{} qid:3 1:{} 7:0.5 # x", i % 2 == 0 ? "+1" : "-1", i);
                   }),
       "label label binary [-1 +1]"},
      {"LibsvmRecordsWithoutFeatures",
       "0\n" + table_lines(40,
                           [](int i) {
                             return i % 9 == 0 ? "1" : fmt::format("{} {}:1", i % 2, 1 + i % 5);
                           }),
       "label label binary [0 1]"},
      {"NamesThatAreYears",
       "2021,2022,target\n" +
           table_lines(40,
                       [](int i) { return fmt::format("{}.5,{},{}", i * 7 % 11, i % 6, i % 2); }),
       "2021 number, 2022 number, target label binary [0 1]"},
      {"NamesThatCountAboveTexts",
       "0,1,kind\n" +
           table_lines(40,
                       [](int i) { return fmt::format("{}.5,{},k{}", i * 7 % 11, i % 6, i % 3); }),
       "0 number, 1 number, kind label classes [k0 k1 k2]"},
      {"NumbersAboveNamesOfPeople",
       table_lines(40, [](int i) { return fmt::format("{},{},p{}", i, i + 1, i); }),
       "t: column 'c3' is no label: it has 40 different texts in 40 records | name the label's "
       "column with --label; the columns are c1, c2, c3"},
      {"CoordinatesBesideALabel",
       "x,y,species\n" +
           table_lines(40,
                       [](int i) { return fmt::format("{}.5,{},s{}", i * 7 % 11, i % 6, i % 3); }),
       "x number, y number, species label classes [s0 s1 s2]"},
      {"CoordinatesBeforeTheLastColumn",
       "x,y,kind\n" +
           table_lines(40,
                       [](int i) { return fmt::format("{}.5,{},s{}", i * 7 % 11, i % 6, i % 3); }),
       "x number, y number, kind label classes [s0 s1 s2]"},
      {"LabelBehindX",
       "x,y\n" + table_lines(40, [](int i) { return fmt::format("{}.5,{}", i * 7 % 11, i % 2); }),
       "x number, y label binary [0 1]"},
      {"LibsvmOfNumbers", table_lines(40, [](int i) { return fmt::format("{}.5 3:1", i); }),
       "label label number"},
  };
  return cases;
}

class TableGuesses : public testing::TestWithParam<GuessCase> {};

TEST_P(TableGuesses, AreThoseOfAReader) {
  EXPECT_EQ(guessed(GetParam().text, GetParam().label), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(All, TableGuesses, testing::ValuesIn(guess_cases()),
                         [](const auto& one) { return one.param.name; });

TEST(TableSamples, NoteDelimiterHeaderAndWhatIsMissing) {
  const auto sample = sampled("a\tb\ty\n" + table_lines(40, [](int i) {
                                return fmt::format("{}\t{}\t{}", i % 4 == 0 ? "" : "1.5", i, i % 2);
                              }));
  ASSERT_TRUE(sample) << sample.error().message;
  EXPECT_EQ(sample->delimiter, '\t');
  EXPECT_TRUE(sample->has_header);
  EXPECT_TRUE(sample->is_header_sure);
  EXPECT_EQ(sample->records, 40U);
  const auto guess = guess_table(*sample, "", "t");
  ASSERT_TRUE(guess) << guess.error().message;
  EXPECT_EQ(guess->columns[0].missing, 10U);
  EXPECT_EQ(guess->label_sure, Sureness::kLikely);
}

TEST(TableSamples, ReadTheBeginningOfALargeFile) {
  const test::TemporaryFolder folder;
  const std::string lines = table_lines(100'000, [](int i) {
    return fmt::format("{},{},{}", i * 7 % 1001, std::string(200, 'x'), i % 2);
  });
  folder.write("large.csv", "a,b,y\n" + lines);
  const auto sample = sample_table(folder / "large.csv", "large.csv");
  ASSERT_TRUE(sample) << sample.error().message;
  EXPECT_FALSE(sample->is_whole);
  EXPECT_LE(sample->sample_bytes, kSampleBytesMax);
  EXPECT_LT(sample->records, 50'000U);
  EXPECT_NEAR(static_cast<double>(sample->records_all), 100'000, 2000);
  const auto guess = guess_table(*sample, "", "large.csv");
  ASSERT_TRUE(guess) << guess.error().message;
  EXPECT_NE(guess_rows(*sample, *guess).front().guess.find("guessed from the first"),
            std::string::npos);
}

TEST(TableSamples, MistakesAreNamed) {
  const std::string body =
      table_lines(40, [](int i) { return fmt::format("{},{}", i * 7 % 11, i % 2); });
  const std::string good = "a,y\n" + body;
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"", "t: it is empty"},
           {"\n \n", "t: it is empty"},
           {table_lines(40, [](int i) { return fmt::format("{}", i); }), "t: it has one column"},
           {"a,y\n1,0\n2,1\n", "t: it has 2 records"},
           {"a,a\n" + body, "t:1: columns 1 and 2 have the same name, 'a'"},
           {good + "1,2,3\n", "t:42: 3 fields, but most lines have 2, with ',' between them"},
           {"My table\n" + good, "t:1: 1 field, but most lines have 2"},
           {good + "\"one\ntwo\",1\n", "t:42: a quote is not closed in this line"},
           {"a,y\n" + table_lines(40, [](int i) { return fmt::format("{},1", i * 7 % 11); }),
            "t: column 'y' is no label: all labels are equal, '1'"},
           {good + "5,\n", "t: the label 'y' is missing in 1 record, first in record 41"},
           {"a,y\n" + table_lines(40, [](int i) { return fmt::format("{},name{}", i % 7, i); }),
            "t: column 'y' is no label: it has 40 different texts in 40 records"},
           {"a;b;y\n" +
                table_lines(40, [](int i) { return fmt::format("{},5;{};{}", i, i % 7, i % 2); }),
            "t: column 'a' writes numbers with commas, such as '"},
           {std::string("a,y\0", 4), "t: it has zero bytes"},
           {"\x1f\x8b\x08", "t: it is compressed by gzip"},
           {std::string("\xff\xfe"
                        "a\0",
                        4),
            "t: it is in UTF-16"},
           {"stra\xdf"
            "e,y\n" +
                body,
            "t: it is not UTF-8"},
           {"[{\"a\": 1}]\n", "t: it is a JSON array, not lines"},
           {"{\"a\": 1}\n{\"a\": \n", "t:2: "},
           {std::string("PAR1\0", 5), "t: it is a Parquet file"},
           {"sep=,\n" + good, "t:1: this line is only for spreadsheets"},
           {"a,text,y\n" +
                table_lines(40, [](int i) { return fmt::format("{},\"one\ntwo\",{}", i, i % 2); }),
            "t:2: a quote is not closed in this line, and a field cannot contain a line end"},
           {table_lines(40, [](int i) { return fmt::format("{} 1:nan 2:5", i % 2); }),
            "t:1: '1:nan' has no finite number | leave out features whose value is missing"},
           {"shop,a,y\n" +
                table_lines(40, [](int i) { return fmt::format("s{},{},{}", i % 3, i % 7, i); }) +
                "Total,,780\n",
            "t:42: the last line is a total, not a record | sed '$d' OLD >NEW"},
           {"a,day\n" +
                table_lines(40,
                            [](int i) { return fmt::format("{},2024-01-{:02}", i % 7, i % 28); }),
            "t: column 'day' is no label: its texts are dates | make a number of them"},
       }) {
    const std::string said = guessed(text);
    EXPECT_TRUE(said.starts_with(message)) << said << "\nexpected " << message;
    EXPECT_FALSE(said.ends_with(" | ") && text.find('"') == text.npos) << "no hint: " << said;
  }
  EXPECT_EQ(guessed(good, "Y"),
            "t: there is no column 'Y', did you mean 'y'? | the columns are a, y");
  const test::TemporaryFolder folder;
  for (const std::string name : {"absent.csv", "."})
    EXPECT_EQ(sample_table(folder / name, name).error().code, Errc::kUsage) << name;
}

// The bytes of a number, the lowest one first.
std::string le_bytes(std::uint64_t value, int size) {
  std::string text;
  for (int i = 0; i < size; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

// An archive of members that are stored, as zip(1) and numpy.savez write it.
std::string zip_of(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string file, directory;
  for (const auto& [name, bytes] : members) {
    const std::string head = le_bytes(20, 2) + le_bytes(0, 8) + le_bytes(0, 4) +
                             le_bytes(bytes.size(), 4) + le_bytes(bytes.size(), 4) +
                             le_bytes(name.size(), 2) + le_bytes(0, 2);
    directory += "PK\x01\x02" + le_bytes(20, 2) + head + le_bytes(0, 8) + le_bytes(0, 2) +
                 le_bytes(file.size(), 4) + name;
    file += "PK\x03\x04" + head + name + bytes;
  }
  const std::size_t at = file.size();
  return file + directory + "PK\x05\x06" + le_bytes(0, 4) + le_bytes(members.size(), 2) +
         le_bytes(members.size(), 2) + le_bytes(directory.size(), 4) + le_bytes(at, 4) +
         le_bytes(0, 2);
}

// An array as numpy.save writes it.
std::string npy_of(const std::string& type, const std::string& shape, const std::string& numbers) {
  const std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }\n";
  return std::string("\x93NUMPY\x01\0", 8) + le_bytes(header.size(), 2) + header + numbers;
}

TEST(TableSamples, ArraysOfNumpyAreColumns) {
  std::string pixels, labels;
  for (std::uint32_t i = 0; i < 80; ++i)
    pixels += le_bytes(std::bit_cast<std::uint32_t>(i == 7 ? NAN : float(i % 9) / 2), 4);
  for (std::uint64_t i = 0; i < 40; ++i) labels += le_bytes(i % 3, 8);
  const test::TemporaryFolder folder;
  folder.write("t.npz", zip_of({{"pixels.npy", npy_of("<f4", "40, 2", pixels)},
                                {"names.npy", npy_of("<U4", "40,", std::string(640, 'x'))},
                                {"label.npy", npy_of("<i8", "40,", labels)}}));
  const auto sample = sample_table(folder / "t.npz", "t");
  ASSERT_TRUE(sample) << sample.error().message;
  EXPECT_EQ(sample->records, 40U);
  ASSERT_EQ(sample->columns.size(), 3U);
  EXPECT_EQ(sample->columns[0].width, 2U);
  EXPECT_EQ(sample->columns[0].values[3], "1.5");
  EXPECT_TRUE(
      sample->columns[1].unusable.starts_with("its elements have the type '<U4', not numbers"))
      << sample->columns[1].unusable;
  const auto guess = guess_table(*sample, "", "t");
  ASSERT_TRUE(guess) << guess.error().message;
  EXPECT_EQ(guess->classes, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(guess->columns[0].missing, 1U) << "NaN";
  EXPECT_NE(job_of_table(*sample, *guess, "t.npz", "data/table.npz").find("width = 2"),
            std::string::npos);

  folder.write("t.npz", zip_of({{"x.npy", npy_of("<f4", "80,", pixels)},
                                {"label.npy", npy_of("<i8", "40,", labels)}}));
  EXPECT_EQ(sample_table(folder / "t.npz", "t").error().message,
            "t: array 'label' has 40 records, others 80");
}

TEST(TableSamples, SpreadsheetsAndOtherArchivesAreNamed) {
  const test::TemporaryFolder folder;
  const auto message_of = [&](const std::string& bytes) {
    folder.write("t.zip", bytes);
    const auto sample = sample_table(folder / "t.zip", "t");
    return sample ? "good" : sample.error().message;
  };
  EXPECT_EQ(message_of(zip_of({{"xl/workbook.xml", "x"}})), "t: it is a spreadsheet");
  EXPECT_EQ(message_of(zip_of({{"table.csv", "a,b\n"}})),
            "t: it is a zip archive without arrays of numpy");
  EXPECT_EQ(message_of("PK\x03\x04 and so on"),
            "t: it is not a zip archive, or it is cut off or damaged");
  const std::string array = zip_of({{"label.npy", "\x93NUMPY no header of numpy"}});
  EXPECT_EQ(message_of(array), "t: it has 0 records");
  // Its end is reached, where the checksum, which zip_of() leaves out, is compared.
  const std::string early = zip_of({{"x.npy", npy_of("<f4", "40,", std::string(80, '\0'))}});
  EXPECT_EQ(message_of(early), "t: array 'x': its checksum is wrong");
}

// The guesses as they are printed: "what | guess | sure | change" for each row.
std::string rows_of(const TableSample& sample) {
  const auto guess = guess_table(sample, "", "t");
  if (!guess) return guess.error().message + " | " + guess.error().hint;
  std::string text;
  for (const GuessRow& row : guess_rows(sample, *guess))
    text += fmt::format("{} | {} | {} | {}\n", row.what, row.guess, sureness_text(row.sure),
                        row.change);
  return text;
}

std::string rows_of(const std::string& text) {
  const auto sample = sampled(text);
  return sample ? rows_of(*sample) : sample.error().message;
}

// The table after the first command in the text that begins with sed, as a user runs it.
std::string repaired(const std::string& table, const std::string& text) {
  const std::size_t begin = text.find("sed "), end = text.find(" OLD >NEW");
  if (begin == text.npos || end == text.npos) return "no command";
  const test::TemporaryFolder folder;
  folder.write("old", table);
  const std::string command =
      fmt::format("{} {} >{}", text.substr(begin, end - begin), folder / "old", folder / "new");
  return std::system(command.c_str()) == 0 ? test::TemporaryFolder::read(folder / "new") : "failed";
}

TEST(TableGuess, DecoratedNumbersAreNamedAndTheCommandMakesThemPlain) {
  const auto number = [](int i) { return fmt::format("{}.5", 100 + i * 37 % 801); };
  for (const auto& [what, form] :
       std::vector<std::pair<std::string, std::function<std::string(int)>>>{
           {"'$'", [&](int i) { return "$" + number(i); }},
           {"'$'", [&](int i) { return "-$" + number(i); }},
           {"'€'", [&](int i) { return number(i) + " €"; }},
           {"'%'", [](int i) { return fmt::format("{}%", i % 90); }},
           {"'km'", [&](int i) { return number(i) + " km"; }},
           {"'km/h'", [&](int i) { return number(i) + " km/h"; }},
           {"' ' between thousands",
            [](int i) { return fmt::format("{} 0{} 500", 1 + i, 10 + i % 80); }},
           {"''"
            "' between thousands",
            [](int i) { return fmt::format("{}'500", 1 + i); }},
           {"'\u202f' between thousands", [](int i) { return fmt::format("{}\u202f500", 1 + i); }},
           {"parentheses", [&](int i) { return i % 3 == 0 ? "(" + number(i) + ")" : number(i); }},
           {"'−' as minus", [&](int i) { return "−" + number(i); }},
       }) {
    const std::string table = "a,text,n,y\n" + table_lines(120, [&](int i) {
                                return fmt::format("{},5 kmh €,{},{}", form(i), i * 7 % 11, i % 2);
                              });
    const std::string rows = rows_of(table);
    EXPECT_NE(rows.find("a | a guess | it looks like numbers with " + what + ": sed -E"),
              std::string::npos)
        << rows;
    EXPECT_EQ(guessed(repaired(table, rows)),
              "a number, text constant, n number, y label binary [0 1]")
        << rows << repaired(table, rows).substr(0, 100);
  }
  for (const std::string value : {"A5", "5th floor", "12:30", "v1.2.3", "c5"}) {
    const std::string rows = rows_of("a,n,y\n" + table_lines(60, [&](int i) {
                                       return fmt::format("{}{},{},{}", value, i % 3, i % 7, i % 2);
                                     }));
    EXPECT_NE(rows.find("categories | a | sure"), std::string::npos) << rows;
  }
}

TEST(TableGuess, ADecoratedLabelIsNoClass) {
  const auto prices = [](int count, int distinct) {
    return "a,price\n" + table_lines(count, [&](int i) {
             return fmt::format("{},${}.50", i * 7 % 11, 100 + i * 7 % distinct);
           });
  };
  EXPECT_EQ(guessed(prices(97, 97))
                .find("t: column 'price' is no label: it has 97 different texts "
                      "in 97 records | it looks like numbers with '$': sed -E"),
            0U)
      << guessed(prices(97, 97));
  EXPECT_EQ(guessed(prices(970, 97)).find("t: column 'price' is no label"), 0U)
      << "many records of each do not make them classes";
  EXPECT_NE(rows_of(prices(100, 5)).find("a guess | it looks like numbers with '$'"),
            std::string::npos);
}

TEST(TableGuess, InfinityAndNumbersInQuotesAreNamed) {
  const std::string rows =
      rows_of("a,n,y\n" + table_lines(60, [](int i) {
                return fmt::format("{},{},{}", i == 9 ? "-inf" : "1.5", i % 7, i % 2);
              }));
  EXPECT_NE(rows.find("categories | a | a guess | it contains inf: empty these fields"),
            std::string::npos)
      << rows;
  const std::string quoted = rows_of(table_lines(60, [](int i) {
    return fmt::format(R"({{"a": "{}.5", "user_id": "{}", "y": {}}})", i % 7, i % 5, i % 2);
  }));
  EXPECT_NE(quoted.find("categories | a | a guess | its numbers are texts"), std::string::npos)
      << quoted;
  EXPECT_NE(quoted.find("categories | user_id | sure"), std::string::npos) << quoted;
}

TEST(TableGuess, TheCommandForCommasKeepsOtherColumns) {
  const auto table = [](const std::string& form, const std::string& other) {
    return "a;b;y\n" + table_lines(60, [&](int i) {
             return fmt::format("{}{}{};{};{}", form, i % 10, i % 7, other, i % 2);
           });
  };
  const std::string plain = table("3,", "word");
  EXPECT_EQ(guessed(repaired(plain, guessed(plain))), "a number, b constant, y label binary [0 1]");
  EXPECT_NE(repaired(plain, guessed(plain)).find("3.00;word"), std::string::npos);
  const std::string large = table("1.252,", "word");
  EXPECT_NE(repaired(large, guessed(large)).find("1252.00;word"), std::string::npos)
      << guessed(large);
  for (const auto& [form, other] : std::vector<std::pair<std::string, std::string>>{
           {"3,5", "red, green"}, {"1.252,", "12.5"}, {"1,234.", "word"}, {"1,2", "5,125"}}) {
    const std::string hint = guessed(table(form, other));
    EXPECT_EQ(hint.find("sed"), std::string::npos) << hint;
    EXPECT_NE(hint.find("English locale"), std::string::npos) << hint;
  }
}

TEST(TableGuess, NothingIsSureAfterTheFirstRecordsOnly) {
  const std::string text =
      "a,y\n" + table_lines(60, [](int i) { return fmt::format("{}.5,k{}", i % 7, i % 3); });
  const auto whole = sampled(text), part = sample_text(text, 5 * text.size(), "t");
  ASSERT_TRUE(whole && part);
  EXPECT_NE(rows_of(*whole).find("| sure |"), std::string::npos);
  EXPECT_EQ(rows_of(*part).find("| sure |"), std::string::npos) << rows_of(*part);
  EXPECT_NE(rows_of(*part).find(" B of "), std::string::npos) << rows_of(*part);
  const auto guess = guess_table(*part, "", "t");
  ASSERT_TRUE(guess);
  EXPECT_EQ(job_of_table(*part, *guess, "t", "t").find("all classes"), std::string::npos);

  const std::string equal =
      "a,y\n" + table_lines(60, [](int i) { return fmt::format("{}.5,1", i % 7); });
  const auto first = sample_text(equal, 5 * equal.size(), "t");
  ASSERT_TRUE(first);
  EXPECT_EQ(rows_of(*first),
            "t: column 'y' is no label: all labels in the first 60 of about 300 records are equal, "
            "'1' | mix the records: (head -n 1 OLD; sed 1d OLD | shuf) >NEW");
}

TEST(TableGuess, ColumnsWithoutUseAreListedWithTheirReasons) {
  const std::string said = guessed(table_lines(40, [](int i) {
    return fmt::format(
        R"({{"n": "{}.5", "w": [{}], "c": 5, "t": "one two three four {}", "y": {}}})", i,
        i % 2 == 0 ? "1, 2" : "1, 2, 3", i, i % 2);
  }));
  EXPECT_EQ(
      said,
      "t: no column can predict the label 'y' | left out are 'n': its numbers are texts: write "
      "them without quotes; 'w': its values have different shapes; 'c': all values are equal; "
      "'t': write a sentence as a list of its words; --label names another label");
}

TEST(TableGuess, ArraysThatNoSlotReadsAreListedWithTheirReasons) {
  std::string numbers, labels;
  for (std::uint32_t i = 0; i < 40; ++i) {
    numbers += le_bytes(std::bit_cast<std::uint32_t>(i == 7 ? HUGE_VALF : float(i % 9)), 4);
    labels += le_bytes(i % 2, 8);
  }
  const test::TemporaryFolder folder;
  folder.write("t.npz", zip_of({{"a.npy", npy_of("<f4", "40,", numbers)},
                                {"d.npy", npy_of("<M8[D]", "40,", std::string(320, '\0'))},
                                {"c.npy", npy_of("<c16", "40,", std::string(640, '\0'))},
                                {"y.npy", npy_of("<i8", "40,", labels)}}));
  const auto sample = sample_table(folder / "t.npz", "t");
  ASSERT_TRUE(sample) << sample.error().message;
  EXPECT_EQ(rows_of(*sample),
            "t: no column can predict the label 'y' | left out are 'a': it contains inf: save NaN "
            "instead; 'd': its elements are dates or times: save numbers, such as days since; 'c': "
            "its numbers are complex: save the real and imaginary parts; --label names another "
            "label");
}

TEST(TableGuess, ColumnsWithANoteHaveARowOfTheirOwn) {
  const std::string rows =
      rows_of("n,m,city,price,y\n" + table_lines(60, [](int i) {
                return fmt::format("{},{},c{},{}%,{}", i, 1990 + i, i % 3, i % 5, i % 2);
              }));
  for (const char* row :
       {"categories | city | sure | \n", "categories | price | a guess | it looks like",
        "left out | identifiers: n, m | likely | each number is the one before plus 1"})
    EXPECT_NE(rows.find(row), std::string::npos) << rows;
}

TEST(TableGuess, ClassesOneAndTwoDoNotSayWhichIsYes) {
  const std::string rows = rows_of(
      "a,y\n" + table_lines(300, [](int i) { return fmt::format("{}.5,{}", i % 7, 1 + i % 2); }));
  EXPECT_NE(rows.find("task | yes or no: yes is '2', no is '1' | a guess | the order of labels"),
            std::string::npos)
      << rows;
}

TEST(TableGuess, AFewPositivesAreNoted) {
  const auto rows = [](int every) {
    return rows_of("a,y\n" + table_lines(3000, [&](int i) {
                     return fmt::format("{}.5,{}", i % 7, i % every == 0 ? 1 : 0);
                   }));
  };
  EXPECT_NE(rows(300).find("held out | about 1 of 300 records with '1', too few for good tests"),
            std::string::npos)
      << rows(300);
  EXPECT_NE(rows(1000).find("held out | perhaps none of 300 records with '1'"), std::string::npos);
  EXPECT_EQ(rows(3).find("held out"), std::string::npos) << rows(3);
}

TEST(TableJobs, HaveTheKeysThatTheGuessesNeed) {
  const auto text_of = [](const std::string& table) {
    const auto sample = sampled(table);
    const auto guess = guess_table(*sample, "", "t");
    EXPECT_TRUE(guess);
    return job_of_table(*sample, *guess, "t.csv", "data/table.csv");
  };
  const std::string mixed =
      text_of("a;b;c;y\n" + table_lines(3000, [](int i) {
                return fmt::format("{};{};x{};{}", i % 9 == 0 ? "" : fmt::format("{}.5", i),
                                   i * 7 % 11, i % 3, i % 2 == 0 ? "no" : "yes");
              }));
  for (const char* line :
       {"test_fraction = 0.1", "header = true", "delimiter = \";\"", "labels = [\"no\", \"yes\"]",
        "missing = \"mean\"", "missing_indicator = true", "normalize = \"standard\"",
        "type = \"hash\"", "name = \"wide\"", "name = \"deep1\"", "type = \"binary_cross_entropy\"",
        "columns = [\"a\", \"b\", \"c\", \"y\"]"})
    EXPECT_NE(mixed.find(line), std::string::npos) << line << "\n" << mixed;
  const std::string linear = text_of("a,y\n" + table_lines(200, [](int i) {
                                       return fmt::format("{}.5,{}.25", i % 50, i * 37 % 101);
                                     }));
  for (const char* line : {"type = \"squared_error\"", "initial_mean = 5.0", "static = true"})
    EXPECT_NE(linear.find(line), std::string::npos) << line << "\n" << linear;
  EXPECT_EQ(linear.find("deep"), std::string::npos) << linear;
}

}  // namespace
}  // namespace paddle::cli
