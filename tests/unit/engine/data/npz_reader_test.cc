// Tests of npz files as data: their types and shapes, what is refused, and records in their order.
#include "engine/data/npz_reader.h"

#include <filesystem>

#include "tests/unit/engine/data/npz_file.h"
#include "tests/unit/engine/data/resume_fixture.h"

namespace paddle::data {
namespace {

using config::SlotType;
using Arrays = std::map<std::string, std::string>;

class NpzTest : public ResumeTest {
 protected:
  NpzTest() {
    options_.data.format = "npz";
    options_.data.slots = {{.name = "label"},
                           {.name = "words", .type = SlotType::kIds},
                           {.name = "price", .type = SlotType::kFloat, .width = 2}};
  }
  // Three records.
  static Arrays arrays() {
    return {{"label.npy", npy_of<std::int64_t>("<i8", {1, 0, 1})},
            {"words.npy", npy_of<std::int32_t>("<i4", {7, 8, 9})},
            {"words_offsets.npy", npy_of<std::int64_t>("<i8", {0, 2, 2, 3})},
            {"price.npy", npy_of<float>("<f4", {0.5, 1, 1.5, 2, 2.5, 3}, 2)}};
  }
  std::string write(const Arrays& arrays, int level = 0, const std::string& name = "a.npz") {
    write_zip(folder_ / name, arrays, level);
    return folder_ / name;
  }
  std::vector<std::string> read_file(const Arrays& arrays, int level = 0) {
    options_.share.files = {write(arrays, level)};
    return read_all();
  }
  // The mistake of the arrays with one of them changed; "" leaves it out.
  std::string mistake_with(const std::string& name, const std::string& array) {
    Arrays changed = arrays();
    changed[name + ".npy"] = array;
    if (array.empty()) changed.erase(name + ".npy");
    return mistake_of(write(changed));
  }
};

const std::vector<std::string> kThree{"1|7 8|(0.5 1)", "0||(1.5 2)", "1|9|(2.5 3)"};

TEST_F(NpzTest, SlotsAreArraysOfTheirNames) {
  EXPECT_EQ(read_file(arrays()), kThree);
  EXPECT_EQ(read_file(arrays(), 6), kThree);
  Arrays more = arrays();
  more["other.npy"] = "no array";
  more["readme.txt"] = "hello";
  EXPECT_EQ(read_file(more), kThree);
}

TEST_F(NpzTest, IdsOfARecordMayBeARowOfTwoDimensions) {
  Arrays rows = arrays();
  rows.erase("words_offsets.npy");
  rows["words.npy"] = npy_of<std::uint64_t>("<u8", {1, 2, 3, 4, 5, ~0ULL}, 2);
  EXPECT_EQ(read_file(rows), (std::vector<std::string>{"1|1 2|(0.5 1)", "0|3 4|(1.5 2)",
                                                       "1|5 18446744073709551615|(2.5 3)"}));
}

TEST_F(NpzTest, TypesAreConverted) {
  options_.data.slots = {{.name = "x", .type = SlotType::kFloat, .width = 1}};
  const auto floats = [&](const std::string& array) { return read_file({{"x.npy", array}}); };
  const std::vector<std::string> whole{"(1)", "(2)"};
  EXPECT_EQ(floats(npy_of<double>("<f8", {1, 2})), whole);
  EXPECT_EQ(floats(npy_of<std::uint64_t>(">f8", {0xf03f, 0x40})), whole);
  EXPECT_EQ(floats(npy_of<std::uint16_t>("<f2", {0x3c00, 0x4000})), whole);
  EXPECT_EQ(floats(npy_of<std::uint16_t>(">f2", {0x003c, 0x0040})), whole);
  EXPECT_EQ(floats(npy_of<std::int8_t>("|i1", {1, 2})), whole);
  EXPECT_EQ(floats(npy_of<std::uint8_t>("|b1", {1, 7})), (std::vector<std::string>{"(1)", "(1)"}));
  EXPECT_EQ(floats(npy_of<std::int16_t>("=i2", {-1, 300})),
            (std::vector<std::string>{"(-1)", "(300)"}));
  EXPECT_EQ(floats(npy("'<f4'", "(2, 1, 1)", bytes_of_numbers<float>({1, 2}))), whole);
  EXPECT_EQ(floats(npy("'<f4'", "(2,)", bytes_of_numbers<float>({1, 2}), "True")), whole);
  options_.data.slots = {{.name = "x"}};
  EXPECT_EQ(floats(npy_of<std::uint32_t>(">u4", {0x01000000, 0x02010000})),
            (std::vector<std::string>{"1", "258"}));
  EXPECT_EQ(floats(npy_of<std::uint16_t>("<u2", {65535}, 1)), std::vector<std::string>{"65535"});
  // Labels are often floats.
  EXPECT_EQ(floats(npy_of<double>("<f8", {0, 3})), (std::vector<std::string>{"0", "3"}));
  EXPECT_EQ(floats(npy_of<float>("<f4", {-0.0F, 1})), (std::vector<std::string>{"0", "1"}));
}

TEST_F(NpzTest, LabelsThatDoNotCountFromZeroHaveAList) {
  options_.data.slots = {{.name = "y", .labels = {"1", "2", "-1"}}};
  const auto read = [&](const std::string& array) { return read_file({{"y.npy", array}}); };
  const std::vector<std::string> classes{"0", "2", "1"};
  EXPECT_EQ(read(npy_of<std::int8_t>("|i1", {1, -1, 2})), classes);
  EXPECT_EQ(read(npy_of<double>("<f8", {1, -1, 2})), classes);
  EXPECT_EQ(mistake_of(write({{"y.npy", npy_of<std::int8_t>("|i1", {1, 0})}})),
            "a.npz: record 2: array 'y' has 0, which is not a label of the slot");
}

TEST_F(NpzTest, ShapesOfPython2MayBeLongNumbers) {
  options_.data.slots = {{.name = "x", .type = SlotType::kFloat, .width = 2}};
  const std::string numbers = bytes_of_numbers<float>({1, 2, 3, 4, 5, 6});
  const std::vector<std::string> rows{"(1 2)", "(3 4)", "(5 6)"};
  for (const char* const shape : {"(3, 2)", "(3L, 2L)", "(3L, 2)", "(3L, 2L,)"})
    EXPECT_EQ(read_file({{"x.npy", npy("'<f4'", shape, numbers)}}), rows) << shape;
  options_.data.slots = {{.name = "x"}};
  EXPECT_EQ(read_file({{"x.npy", npy("'|u1'", "(3L,)", "\1\2\3")}}),
            (std::vector<std::string>{"1", "2", "3"}));
}

TEST_F(NpzTest, RefusesWhatIsNoNumberByItsArray) {
  EXPECT_EQ(mistake_with("label", npy("'|O'", "(3,)", "cos\nsystem\n(S'touch x'\ntR.")),
            "a.npz: array 'label': its elements are Python objects ('|O'), which are not loaded");
  EXPECT_EQ(mistake_with("label", npy("'<U5'", "(3,)", std::string(60, 'x'))),
            "a.npz: array 'label': its elements have the type '<U5', not numbers");
  EXPECT_EQ(mistake_with("label", npy("[('a', '<i4')]", "(3,)", std::string(12, 'x'))),
            "a.npz: array 'label': its elements are records, not numbers");
  EXPECT_EQ(mistake_with("label", npy_of<float>("<f4", {1, 2.5, 3})),
            "a.npz: record 2: array 'label' has 2.5, but an id is a whole number from 0");
  EXPECT_EQ(mistake_with("label", npy_of<double>("<f8", {1, 2, -3})),
            "a.npz: record 3: array 'label' has -3, but an id is a whole number from 0");
  EXPECT_EQ(mistake_with("label", npy_of<double>("<f8", {1, 1e20, 3})),
            "a.npz: record 2: array 'label' has 1e+20, but an id is a whole number from 0");
  EXPECT_EQ(mistake_with("price", npy("'<f4'", "(3, 2)", std::string(24, 'x'), "True")),
            "a.npz: array 'price': it is in Fortran order, column by column");
}

TEST_F(NpzTest, RefusesShapesThatDoNotFit) {
  EXPECT_EQ(mistake_with("price", npy_of<float>("<f4", {1, 2, 3})),
            "a.npz: array 'price': it has 1 numbers for each record, not 2");
  EXPECT_EQ(mistake_with("price", npy_of<float>("<f4", {1, 2, 3, 4}, 2)),
            "a.npz: array 'price': it has 2 records, but 'label' has 3");
  EXPECT_EQ(mistake_with("label", npy("'<i8'", "()", std::string(8, 'x'))),
            "a.npz: array 'label': it is a single number, not one for each record");
  EXPECT_EQ(mistake_with("label", ""), "a.npz: there is no array 'label'");
  EXPECT_EQ(mistake_with("words_offsets", ""),
            "a.npz: array 'words': it has one dimension, but the file has no 'words_offsets'");
  EXPECT_EQ(
      mistake_with("words", npy_of<std::int32_t>("<i4", {1, 2, 3, 4}, 2)),
      "a.npz: array 'words': it must have one dimension, because the file has 'words_offsets'");
}

TEST_F(NpzTest, RefusesOffsetsThatDoNotDivideTheIds) {
  const auto with = [&](const std::vector<std::int64_t>& offsets) {
    return mistake_with("words_offsets", npy_of<std::int64_t>("<i8", offsets));
  };
  const std::string at = "a.npz: array 'words_offsets': ";
  EXPECT_EQ(with({1, 2, 2, 3}), at + "it begins with 1, not with 0");
  EXPECT_EQ(with({0, 2, 1, 3}), at + "offsets must not decrease: 2 to 1");
  EXPECT_EQ(with({0, 2, 2, 4}), at + "it has the offset 4, but 'words' has 3 numbers");
  EXPECT_EQ(with({0, 1, 2, 2}), at + "it ends with 2, but 'words' has 3 numbers");
  EXPECT_EQ(with({}), at + "it is empty, but needs one number more than there are records");
  EXPECT_EQ(mistake_with("words_offsets", npy_of<float>("<f4", {0, 2, 2, 3})),
            at + "offsets must be whole numbers in one dimension");
}

TEST_F(NpzTest, ALyingShapeTakesNoMemory) {
  const std::string three(24, '\1');
  EXPECT_EQ(mistake_with("label", npy("'<i8'", "(1000000000000,)", three)),
            "a.npz: array 'label': its shape (1000000000000) does not match its 104 bytes");
  EXPECT_EQ(mistake_with("label", npy("'<i8'", "(2305843009213693955,)", three)).substr(0, 30),
            "a.npz: array 'label': its shap");
  EXPECT_EQ(mistake_with("price", npy("'<f4'", "(0, 99999999999)", "")),
            "a.npz: array 'price': it has 99999999999 numbers for each record, not 2");
  EXPECT_EQ(
      mistake_with("label", npy("'<i8'", "(3", three)),
      "a.npz: array 'label': its npy header is wrong: 'shape' is not a tuple of whole numbers");
  EXPECT_EQ(
      mistake_with("label", "\x93NUMPY\x02" + std::string(1, '\0') + "\xff\xff\xff\x7f" + "{"),
      "a.npz: array 'label': its npy header is wrong: it has 2147483647 bytes; the limit is 10000");
  // 64 MiB of zeros in a file of 64 KiB, of which a record is over the limit.
  write_zip(folder_ / "bomb.npz",
            {{"label.npy", npy_of<std::int64_t>("<i8", {1})},
             {"words.npy", npy("'|u1'", "(67108864,)", std::string(64U << 20U, '\0'))},
             {"words_offsets.npy", npy_of<std::int64_t>("<i8", {0, 64 << 20})},
             {"price.npy", npy_of<float>("<f4", {0.5, 1}, 2)}},
            9);
  EXPECT_EQ(mistake_of(folder_ / "bomb.npz"),
            "bomb.npz: array 'words': record 1 has 67108864 ids, over 16777216 bytes");
}

TEST_F(NpzTest, FilesThatAreNoArchiveAreRefused) {
  const std::string none = ": it is not a zip archive, or it is cut off or damaged";
  EXPECT_EQ(mistake_of(folder_.write("text.npz", "a,b\n")), "text.npz" + none);
  EXPECT_EQ(mistake_of(folder_.write("empty.npz", "")), "empty.npz" + none);
  const std::string whole = test::TemporaryFolder::read(write(arrays()));
  EXPECT_EQ(mistake_of(folder_.write("cut.npz", whole.substr(0, whole.size() / 2))),
            "cut.npz" + none);
  EXPECT_EQ(mistake_of(folder_.write("packed.npz", "\x1f\x8b\x08 and more")),
            "packed.npz: it is compressed by gzip, not a zip archive");
  EXPECT_EQ(mistake_of(folder_.write("one.npy", npy_of<float>("<f4", {1}))),
            "one.npy: it is one array, as numpy.save writes it");
}

TEST_F(NpzTest, DamageIsFoundByTheChecksum) {
  for (const int level : {0, 6}) {
    std::string bytes = test::TemporaryFolder::read(write(arrays(), level));
    const std::size_t at = bytes.find("price.npy") + (level == 0 ? 90 : 40);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    EXPECT_TRUE(mistake_of(folder_.write("bad.npz", bytes)).starts_with("bad.npz: array 'price': "))
        << mistake_of(folder_ / "bad.npz");
  }
}

TEST_F(NpzTest, EncryptedAndUnknownMembersAreRefused) {
  write_zip(folder_ / "secret.npz", arrays(), 6, "password");
  EXPECT_EQ(mistake_of(folder_ / "secret.npz"), "secret.npz: array 'label': it is encrypted");
}

TEST_F(NpzTest, BadRecordsAreNamedOrLeftOut) {
  EXPECT_EQ(mistake_with("label", npy_of<std::int64_t>("<i8", {1, -4, 1})),
            "a.npz: record 2: array 'label' has -4, but an id is a whole number from 0");
  Arrays wrong = arrays();
  wrong["price.npy"] = npy_of<float>("<f4", {0.5, 1, NAN, 2, 2.5, 3}, 2);
  EXPECT_EQ(mistake_of(write(wrong)),
            "a.npz: record 2: array 'price' has nan, which is not a finite float32");
  options_.data.skip_bad_records = true;
  const Outcome outcome = read();
  EXPECT_EQ(outcome.bad_records, 1U);
  EXPECT_EQ(outcome.records, (std::vector<std::string>{kThree[0], kThree[2]}));
}

TEST_F(NpzTest, AnObjectIsCopiedToAFileWithoutAName) {
  const std::string file = write(arrays(), 6);
  options_.data.command = {"sh", "-c", "cat \"$2.npz\"", "objects"};
  options_.folder = folder_.path() + "/w";
  std::filesystem::create_directory(options_.folder);
  options_.share.files = {file.substr(0, file.size() - 4)};
  EXPECT_EQ(read_all(), kThree);
  EXPECT_TRUE(std::filesystem::is_empty(options_.folder));
  EXPECT_EQ(mistake_of("b").substr(0, 30), "command 'sh -c cat \"$2.npz\" ob");
}

TEST_F(NpzTest, TrainersShareTheRecordsOfAFile) {
  options_.share = {{write(arrays())}, true};
  options_.num_trainers = 2;
  EXPECT_EQ(read_all(), (std::vector<std::string>{kThree[0], kThree[2]}));
  options_.trainer_id = 1;
  EXPECT_EQ(read_all(), std::vector<std::string>{kThree[1]});
}

TEST_F(NpzTest, PassesGoOnFromAnyBatch) {
  Rng rng(5);
  for (int file = 0; file < 3; ++file) {
    std::vector<std::int64_t> labels, words, offsets{0};
    std::vector<double> prices;
    for (int i = 0; i < 20'000 * (file + 1); ++i) {
      labels.push_back(i % 5000 == 7 ? -1 : i);
      for (std::uint64_t left = rng.below(7); left > 0; --left)
        words.push_back(static_cast<std::int64_t>(rng.below(1000)));
      offsets.push_back(static_cast<std::int64_t>(words.size()));
      prices.insert(prices.end(), {rng.uniform(), 1.0 / (i + 1)});
    }
    options_.share.files.push_back(write({{"label.npy", npy_of("<i8", labels)},
                                          {"words.npy", npy_of("<i8", words)},
                                          {"words_offsets.npy", npy_of("<i8", offsets)},
                                          {"price.npy", npy_of("<f8", prices, 2)}},
                                         file, fmt::format("part-{}.npz", file)));
  }
  options_.data.skip_bad_records = true;
  options_.data.threads = 3;
  options_.batch_size = 100;
  for (const std::uint64_t window : {std::uint64_t{0}, kWindow}) {
    options_.shuffle_records = window;
    for (options_.data.files_at_once = 1; options_.data.files_at_once < 3;
         ++options_.data.files_at_once) {
      expect_resumes();
    }
  }
}

}  // namespace
}  // namespace paddle::data
