#include "engine/snapshot/export_text.h"

#include <cstdio>

#include "tests/unit/engine/snapshot/snapshot_fixture.h"

namespace paddle::snapshot {
namespace {

class ExportTextTest : public SnapshotTest {
 protected:
  Result<std::string> exported(const std::string& parameter) {
    char* text = nullptr;
    std::size_t size = 0;
    std::FILE* out = ::open_memstream(&text, &size);
    const Status status = export_text(directory_, parameter, out);
    std::fclose(out);
    std::string result(text, size);
    std::free(text);
    if (!status) return status.error();
    return result;
  }
};

TEST_F(ExportTextTest, SparseRowsRiseById) {
  write();
  const auto text = exported("my table");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "0 1 2 3\n18446744073709551615 -1 0 1e-30\n");
}

TEST_F(ExportTextTest, CandidatesHaveNoRowYet) {
  auto writer = SnapshotWriter::create(directory_, info());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->begin_sparse(sparse_spec(), 0));
  const std::vector<SparseRow> rows = {
      {.id = 3, .marks = 1ULL << 48U, .value = {0, 0, 0}, .state = {}},
      {.id = 4, .marks = 0, .value = {1, 2, 3}, .state = {}}};
  ASSERT_TRUE(writer->add_rows(rows));
  ASSERT_TRUE(writer->end_sparse());
  ASSERT_TRUE(writer->finish());
  const auto text = exported("my table");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "4 1 2 3\n");
}

TEST_F(ExportTextTest, DenseIsWrittenByRows) {
  write(0.5F);
  const auto text = exported("_fc.wbias");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(text->substr(0, 6), "0 0.5 ");
}

TEST_F(ExportTextTest, UnknownParameterGetsASuggestion) {
  write();
  const auto text = exported("my tables");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Errc::kData);
  EXPECT_EQ(text.error().hint, "did you mean 'my table'?");
}

}  // namespace
}  // namespace paddle::snapshot
