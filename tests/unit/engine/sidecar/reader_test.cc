// Tables of a snapshot, as a program reads them.
#include "engine/sidecar/reader.h"

#include "engine/model/parameters.h"
#include "tests/unit/engine/snapshot/snapshot_fixture.h"

namespace paddle::sidecar {
namespace {

class SnapshotRows : public snapshot::SnapshotTest {
 protected:
  std::unique_ptr<Session> session() {
    return read_snapshot([this] { return snapshot::SnapshotReader::open(directory_); });
  }
  static std::vector<float> read(Session& session, std::vector<std::uint64_t> ids,
                                 bool is_test = true) {
    std::vector<client::SparseRows> rows(1);
    rows[0].ids = std::move(ids);
    const Status pulled = session.pull(rows, is_test);
    EXPECT_TRUE(pulled) << pulled.error().message;
    return rows[0].values;
  }
};

TEST_F(SnapshotRows, AreThoseOfAllItsTables) {
  write();
  const auto opened = session();
  EXPECT_TRUE(opened->tables().empty());
  const auto hello = opened->hello("");
  ASSERT_TRUE(hello) << hello.error().message;
  EXPECT_NE(hello->text().find(R"("pass":4,"step":1234567890123,"samples":987654321012)"),
            std::string::npos)
      << hello->text();
  ASSERT_EQ(opened->tables().size(), 1U) << "the other parameter is dense";
  EXPECT_EQ(opened->tables()[0].name, "my table");
  EXPECT_EQ(opened->tables()[0].width, 3U);
  EXPECT_EQ(read(*opened, {0, 7, ~0ULL}), (std::vector<float>{1, 2, 3, 0, 0, 0, -1, 0, 1e-30F}));
  EXPECT_EQ(read(*opened, {}), std::vector<float>());
}

TEST_F(SnapshotRows, GoWhereTheCallerWantsThem) {
  write();
  const auto opened = session();
  ASSERT_TRUE(opened->hello(""));
  std::vector<float> place(3);
  std::vector<client::SparseRows> rows(1);
  rows[0].ids = {0};
  rows[0].placed_values = place;
  ASSERT_TRUE(opened->pull(rows, true));
  EXPECT_EQ(place, (std::vector<float>{1, 2, 3}));
  EXPECT_TRUE(rows[0].values.empty());
}

TEST_F(SnapshotRows, OfADeltaIncludeThoseOfItsBase) {
  write_delta();
  const auto opened = session();
  const auto hello = opened->hello("");
  ASSERT_TRUE(hello) << hello.error().message;
  // Row 0 has changed since the base, row 5 has not, and row 6 was removed.
  EXPECT_EQ(read(*opened, {0, 5, 6}), (std::vector<float>{1, 2, 3, 0, 0, 1, 0, 0, 0}));
}

TEST_F(SnapshotRows, AbsentOnesReadAsInTestsOrAsInTraining) {
  auto writer = snapshot::SnapshotWriter::create(directory_, info());
  ASSERT_TRUE(writer);
  wire::ParameterSpec spec = sparse_spec();
  spec.set_initial_mean(0.25F);
  spec.set_initial_std(1);
  ASSERT_TRUE(writer->begin_sparse(spec, 2));
  ASSERT_TRUE(writer->add_rows(test::encoded(rows())));
  ASSERT_TRUE(writer->end_sparse());
  ASSERT_TRUE(writer->finish());
  const auto opened = session();
  ASSERT_TRUE(opened->hello(""));
  EXPECT_EQ(read(*opened, {7}), std::vector<float>(3, 0.25F));
  std::vector<float> drawn(3);
  optim::fill_initial_row(drawn, spec, info().seed, 7);
  EXPECT_EQ(read(*opened, {7}, false), drawn);
  EXPECT_EQ(read(*opened, {0}, false), (std::vector<float>{1, 2, 3}));
}

TEST_F(SnapshotRows, RefusesWhatItCannotRead) {
  const auto opened = session();
  const auto missing = opened->hello("");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::kData);
  write();
  const auto code = opened->hello("[[table]]\nname = \"user\"\n");
  ASSERT_FALSE(code);
  EXPECT_EQ(code.error().code, Errc::kUsage);
  EXPECT_TRUE(opened->hello("")) << "hello may be repeated after an error";

  auto writer = snapshot::SnapshotWriter::create(directory_, info());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->add_dense(dense_spec(), std::vector<float>(2), std::vector<float>(4), 17));
  ASSERT_TRUE(writer->finish());
  const auto none = session()->hello("");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("has no table"), std::string::npos) << none.error().message;
}

TEST_F(SnapshotRows, MoreThanTheMemoryAreRefused) {
  write();
  const auto snapshot = snapshot::SnapshotReader::open(directory_);
  ASSERT_TRUE(snapshot);
  const auto loaded = inference::Parameters::load(*snapshot, {sparse_spec()}, 1000);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Errc::kResource);
  EXPECT_NE(loaded.error().message.find("the rows of table 'my table' do not fit in memory"),
            std::string::npos)
      << loaded.error().message;
  EXPECT_TRUE(inference::Parameters::load(*snapshot, {sparse_spec()}, 1U << 20U));
}

}  // namespace
}  // namespace paddle::sidecar
