#include <sstream>

#include "base/rng.h"
#include "engine/snapshot/export_formats.h"
#include "engine/snapshot/export_source.h"
#include "tests/unit/engine/snapshot/snapshot_fixture.h"

namespace paddle::exporting {
namespace {

TEST(SortedRowsTest, RiseByIdHoweverManyFitInMemory) {
  constexpr std::size_t kRows = 5000, kWidth = 3;
  const std::string folder = ::testing::TempDir();
  for (const std::size_t bytes_max : {std::size_t{1}, std::size_t{2000}, std::size_t{1} << 20U}) {
    SortedRows sorted(kWidth, folder, bytes_max);
    std::vector<std::uint64_t> ids(kRows);
    for (std::size_t i = 0; i < kRows; ++i) ids[i] = i * 0x9e3779b97f4a7c15ULL;
    if (bytes_max == 1) ids.resize(40);  // a run for each
    for (const std::uint64_t id : ids) {
      const float value = static_cast<float>(id >> 40U);
      const std::array<float, kWidth> values{value, -value, 1};
      ASSERT_TRUE(sorted.add(id, values));
    }
    std::ranges::sort(ids);
    EXPECT_EQ(sorted.rows(), ids.size());
    for (int time = 0; time < 2; ++time) {
      std::size_t at = 0;
      const Status all = sorted.for_each([&](std::uint64_t id, std::span<const float> values) {
        EXPECT_EQ(id, ids[at++]);
        const float value = static_cast<float>(id >> 40U);
        EXPECT_EQ(std::vector<float>(values.begin(), values.end()),
                  (std::vector<float>{value, -value, 1}));
        return Status();
      });
      ASSERT_TRUE(all) << all.error().message;
      EXPECT_EQ(at, ids.size());
    }
    const Status ended = sorted.for_each([](std::uint64_t, std::span<const float>) -> Status {
      return Error{Errc::kInterrupted, "enough"};
    });
    EXPECT_EQ(ended.error().code, Errc::kInterrupted);
  }
  SortedRows none(kWidth, folder);
  ASSERT_TRUE(none.seal());
  EXPECT_TRUE(none.for_each([](std::uint64_t, std::span<const float>) -> Status { std::abort(); }));
}

TEST(SortedRowsTest, ASealedTableHoldsLittleMemory) {
  constexpr std::size_t kWidth = 64, kRows = 20'000;  // 5 MB
  SortedRows sorted(kWidth, ::testing::TempDir());
  const std::vector<float> values(kWidth, 0.5F);
  for (std::size_t id = kRows; id > 0; --id) ASSERT_TRUE(sorted.add(id, values));
  ASSERT_TRUE(sorted.seal());
  EXPECT_LE(sorted.memory_bytes(), SortedRows::kSealedBytesMax);
  std::uint64_t next = 1;
  ASSERT_TRUE(sorted.for_each([&](std::uint64_t id, std::span<const float> row) -> Status {
    EXPECT_EQ(id, next++);
    EXPECT_EQ(row.size(), kWidth);
    return {};
  }));
  EXPECT_EQ(next, kRows + 1);
  EXPECT_LE(sorted.memory_bytes(), SortedRows::kSealedBytesMax);
}

class ExportTest : public snapshot::SnapshotTest {
 protected:
  Result<std::string> exported(const std::string& format, const std::string& parameter,
                               std::vector<std::string> words = {}) {
    PADDLE_TRY(const auto reader, snapshot::SnapshotReader::open(directory_));
    PADDLE_TRY(const auto specs, choose_parameters(reader, parameter));
    std::vector<Source> sources;
    for (const auto& spec : specs) {
      PADDLE_TRY(Source source, Source::open(reader, spec, root_));
      sources.push_back(std::move(source));
    }
    for (const Format& each : formats()) {
      if (each.name != format) continue;
      PADDLE_TRY(Sink sink, Sink::open(root_ + "/out"));
      PADDLE_TRY_STATUS(each.write({.sources = sources, .words = std::move(words)}, sink));
      EXPECT_FALSE(std::filesystem::exists(root_ + "/out")) << "it is not whole yet";
      PADDLE_TRY_STATUS(sink.finish());
      std::string text = content(root_ + "/out");
      std::filesystem::remove(root_ + "/out");
      return text;
    }
    return Error{Errc::kUsage, "no such format"};
  }
};

TEST_F(ExportTest, TextHasRowsByRisingId) {
  write(0.5F);
  EXPECT_EQ(*exported("text", "my table"), "0 1 2 3\n18446744073709551615 -1 0 1e-30\n");
  EXPECT_EQ(*exported("text", "_fc.wbias"), "0 0.5 -2.5\n");
}

TEST_F(ExportTest, VecHasWordsWhereThereAreAny) {
  write();
  EXPECT_EQ(*exported("vec", "my table", {"the"}),
            "2 3\nthe 1 2 3\n18446744073709551615 -1 0 1e-30\n");
}

TEST_F(ExportTest, CandidatesHaveNoRowYet) {
  auto writer = snapshot::SnapshotWriter::create(directory_, info());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->begin_sparse(sparse_spec(), 0));
  const std::vector<test::SavedRow> rows = {
      {.id = 3, .marks = 1ULL << 48U, .value = {0, 0, 0}, .state = {}},
      {.id = 4, .marks = 0, .value = {1, 2, 3}, .state = {}}};
  ASSERT_TRUE(writer->add_rows(test::encoded(rows)));
  ASSERT_TRUE(writer->end_sparse());
  ASSERT_TRUE(writer->finish());
  EXPECT_EQ(*exported("text", "my table"), "4 1 2 3\n");
  EXPECT_EQ(*shape_of(*snapshot::SnapshotReader::open(directory_), sparse_spec()),
            (std::vector<std::uint64_t>{1, 3}));
}

TEST_F(ExportTest, NpyIsNumpysOwnFormat) {
  write(0.5F);
  const std::string dense = *exported("npy", "_fc.wbias");
  EXPECT_TRUE(dense.starts_with(std::string("\x93NUMPY\x01\x00", 8)));
  EXPECT_NE(dense.find("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"), dense.npos);
  EXPECT_EQ(dense.size(), 128U + 8);
  EXPECT_EQ(dense[127], '\n');
  EXPECT_EQ(dense.substr(128, 4), std::string("\0\0\0\x3f", 4));
  const std::string table = *exported("npy", "my table");
  EXPECT_NE(table.find("'descr': [('id', '<u8'), ('values', '<f4', (3,))]"), table.npos);
  EXPECT_EQ(table.size() % 64, 2 * (8 + 12) % 64U);
}

TEST_F(ExportTest, SafetensorsHasNamesShapesAndOffsets) {
  write(0.5F);
  const std::string all = *exported("safetensors", "");
  const auto size = load_le<std::uint64_t>(as_bytes(all).data());
  EXPECT_EQ(size % 8, 0U);
  EXPECT_TRUE(all.substr(8, size).starts_with(
      R"({"__metadata__":{"format":"pt"},)"
      R"("my table.ids":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
      R"("_fc.wbias":{"dtype":"F32","shape":[2],"data_offsets":[16,24]},)"
      R"("my table.values":{"dtype":"F32","shape":[2,3],"data_offsets":[24,48]}})"))
      << all.substr(8, size);
  EXPECT_EQ(all.size(), 8 + size + 48);
  EXPECT_EQ(all.substr(8 + size, 16), std::string(8, '\0') + std::string(8, '\xff'))
      << "ids from 2^63 on are negative";
  EXPECT_EQ(all.substr(8 + size + 16, 4), std::string("\0\0\0\x3f", 4));
}

TEST_F(ExportTest, SafetensorsAreAlignedBehindAnOddNumberOfFloats) {
  auto writer = snapshot::SnapshotWriter::create(directory_, info());
  ASSERT_TRUE(writer);
  auto bias = dense_spec();
  bias.set_dims(0, 3);
  ASSERT_TRUE(writer->add_dense(bias, std::vector<float>{1, 2, 3}, {}, 0));
  ASSERT_TRUE(writer->begin_sparse(sparse_spec(), 2));
  ASSERT_TRUE(writer->add_rows(test::encoded(rows())));
  ASSERT_TRUE(writer->end_sparse());
  ASSERT_TRUE(writer->finish());
  const std::string all = *exported("safetensors", "");
  const std::string before = R"("my table.ids":{"dtype":"I64","shape":[2],"data_offsets":[)";
  const std::size_t at = all.find(before);
  ASSERT_NE(at, all.npos) << all;
  EXPECT_EQ(std::stoul(all.substr(at + before.size())) % 8, 0U) << all.substr(at, 90);
}

TEST_F(ExportTest, NamesThatWouldComeTwiceAreRefused) {
  auto other = dense_spec();
  other.set_name("my table.ids");
  const std::vector<wire::ParameterSpec> both{sparse_spec(), other};
  auto reserved = dense_spec();
  reserved.set_name("__metadata__");
  for (const Format& format : formats()) {
    EXPECT_EQ(static_cast<bool>(check_names(format, both)), !format.takes_all) << format.name;
    EXPECT_TRUE(check_names(format, std::span(both).first(1)));
    const Status alone = check_names(format, std::span(&reserved, 1));
    EXPECT_EQ(static_cast<bool>(alone), format.name != "safetensors") << format.name;
    if (alone) continue;
    EXPECT_EQ(alone.error().code, Errc::kUsage);
  }
}

TEST_F(ExportTest, AnUnknownParameterGetsASuggestion) {
  write();
  const auto text = exported("text", "my tables");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Errc::kUsage);
  EXPECT_EQ(text.error().hint, "did you mean 'my table'?");
}

TEST_F(ExportTest, WordsAreTheDictionarys) {
  auto writer = snapshot::SnapshotWriter::create(directory_, info());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->add_model_file({"model/dictionary.txt", "the\nnew york\r\n<unk>"}));
  ASSERT_TRUE(writer->finish());
  const auto reader = snapshot::SnapshotReader::open(directory_);
  ASSERT_TRUE(reader);
  const std::vector<std::string> words{"the", "new_york", "<unk>"};
  EXPECT_EQ(*words_of(*reader, sparse_spec(), ""), words);
  overwrite(root_ + "/words.txt", "a\nb\n");
  const std::string given = root_ + "/words.txt";
  EXPECT_EQ(*words_of(*reader, sparse_spec(), given), (std::vector<std::string>{"a", "b"}));
  overwrite(root_ + "/words.txt", "\xef\xbb\xbfword\r\nb\r\n");
  EXPECT_EQ(*words_of(*reader, sparse_spec(), given), (std::vector<std::string>{"word", "b"}));
  EXPECT_EQ(words_of(*reader, sparse_spec(), root_ + "/none.txt").error().code, Errc::kData);
  // Rows of a dense parameter have them where it has one for each.
  auto embedding = dense_spec();
  embedding.set_dims(0, 3);
  embedding.add_dims(2);
  EXPECT_EQ(*words_of(*reader, embedding, ""), words);
  embedding.set_dims(0, 4);
  EXPECT_TRUE(words_of(*reader, embedding, "")->empty());
  EXPECT_EQ(words_of(*reader, embedding, given)->size(), 2U);
}

TEST_F(ExportTest, WordsOfADictionaryThatWasTooLargeMustBeGiven) {
  overwrite(root_ + "/words.txt", "a\nb\n");
  const std::string hash = to_hex(sha256_of(as_bytes(std::string_view("a\nb\n"))));
  auto writer = snapshot::SnapshotWriter::create(directory_, info());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->add_model_file({"model/dictionary.txt.sha256", hash + "  dictionary.txt\n"}));
  ASSERT_TRUE(writer->finish());
  const auto reader = snapshot::SnapshotReader::open(directory_);
  ASSERT_TRUE(reader);
  const auto missing = words_of(*reader, sparse_spec(), "");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::kUsage);
  EXPECT_NE(missing.error().hint.find("--dictionary=PATH"), std::string::npos);
  EXPECT_EQ(words_of(*reader, sparse_spec(), root_ + "/words.txt")->size(), 2U);
  overwrite(root_ + "/words.txt", "b\na\n");
  const auto other = words_of(*reader, sparse_spec(), root_ + "/words.txt");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Errc::kData);
}

}  // namespace
}  // namespace paddle::exporting
