// Tests of data.command: the objects that it lists and prints, and its mistakes.
#include "engine/data/objects.h"

#include "engine/data/pass_index.h"
#include "tests/unit/engine/data/data_fixture.h"
#include "tests/unit/engine/data/packing.h"

namespace paddle::data {
namespace {

constexpr const char* kStore =
    R"(case $1 in list) cd store && ls $2 ;; read) cat "store/$2" ;; esac)";

class ObjectsTest : public DataTest {
 protected:
  ObjectsTest() {
    for (int i = 0; i < 3; ++i)
      folder_.write(fmt::format("store/part-{}", i), fmt::format("{}\ta b\n{}\tc\n", i, 10 + i));
    script(kStore);
  }
  void script(const std::string& text) { options_.data.command = {"sh", "-c", text, "objects"}; }

  Result<config::DataShare> find(std::uint32_t trainer = 0, std::uint32_t trainers = 1) const {
    return find_share(options_.data, folder_.path(), "part-*", trainer, trainers);
  }
  // The mistake in the output of a script for the list.
  std::string mistake_in_list(const std::string& text) {
    script(text);
    const auto share = find();
    return share ? "none" : share.error().message;
  }
  std::string list_mistake(const std::string& printed) {
    return mistake_in_list("printf -- '" + printed + "'");
  }
};

TEST_F(ObjectsTest, AreDealtAndReadLikeFiles) {
  options_.share = *find();
  EXPECT_EQ(options_.share.files, (std::vector<std::string>{"part-0", "part-1", "part-2"}));
  EXPECT_EQ(read_all(),
            (std::vector<std::string>{"2 3|0", "4|10", "2 3|1", "4|11", "2 3|2", "4|12"}));
  EXPECT_EQ(find(1, 2)->files, std::vector<std::string>{"part-1"});
  folder_.write("store/part-x", "7\ta\n");
  EXPECT_TRUE(find(1, 2)->records_split);
  EXPECT_EQ(find(1, 2)->files.size(), 4U);
}

TEST_F(ObjectsTest, TheirListIsSortedAndHasAHash) {
  const std::uint64_t hash = find()->names_hash;
  EXPECT_NE(hash, 0U);
  EXPECT_EQ(find(1, 2)->names_hash, hash);
  script("printf 'part-2\\n\\npart-0\\r\\npart-1\\n'");
  EXPECT_EQ(find()->names_hash, hash);
  script("printf '\\357\\273\\277part-2\\npart-0\\npart-1\\n'");
  EXPECT_EQ(find()->names_hash, hash);
  script("printf 'part-2\\npart-1\\n'");
  EXPECT_NE(find()->names_hash, hash);
  options_.data.command.clear();
  EXPECT_EQ(find()->names_hash, 0U);
}

TEST_F(ObjectsTest, AreDecompressedByTheirNames) {
  folder_.write("store/a.gz", gzip("5\ta\n"));
  folder_.write("store/b.zst", zstd("6\tb\n"));
  options_.share.files = {"a.gz", "b.zst"};
  EXPECT_EQ(read_all(), (std::vector<std::string>{"2|5", "3|6"}));
  folder_.write("store/a.gz", gzip("5\ta\n").substr(0, 15));
  EXPECT_EQ(mistake_of("a.gz"), "a.gz: the gzip file is cut off");
}

TEST_F(ObjectsTest, ANameIsNeverAPath) {
  folder_.write("words-2", "1\ta\n");
  EXPECT_EQ(mistake_of(folder_ / "words-2"),
            "command 'sh -c " + std::string(kStore) + " objects read words-2': ended with 1");
  // A file of that name does not matter to what is known of a pass either.
  options_.share.files = {folder_ / "words-2"};
  const std::uint64_t key = pass_key(options_, 0);
  folder_.write("words-2", "1\ta b\n");
  EXPECT_EQ(pass_key(options_, 0), key);
}

TEST_F(ObjectsTest, AProgramThatFailsIsNamedWithItsObjectAndCode) {
  script("printf '1\\ta\\n'; exit 22");
  EXPECT_EQ(mistake_of("bucket/a"),
            "command 'sh -c printf '1\\ta\\n'; exit 22 objects read bucket/a': ended with 22");
  EXPECT_EQ(mistake_in_list("echo part-0; exit 3"),
            "command 'sh -c echo part-0; exit 3 objects list part-*': ended with 3");
  options_.data.command = {"/no/such/program"};
  EXPECT_EQ(find().error().message,
            "command '/no/such/program list part-*': cannot start: No such file or directory");
  options_.data.pipe_timeout = std::chrono::seconds(1);
  EXPECT_EQ(
      mistake_in_list("echo part-0; sleep 100"),
      "command 'sh -c echo part-0; sleep 100 objects list part-*': has printed nothing for 1 s");
}

TEST_F(ObjectsTest, ListsThatCannotBeAreRefused) {
  const std::string list = "the list of data.command for 'part-*': ";
  EXPECT_EQ(list_mistake(""), list + "it is empty");
  EXPECT_EQ(list_mistake("\\n"), list + "it is empty");
  EXPECT_EQ(list_mistake("part-0\\npar"),
            list + "the last name has no line end, so it may be cut off");
  EXPECT_EQ(list_mistake("b\\na\\nb\\n"), list + "it has 'b' twice");
  EXPECT_EQ(list_mistake("a\\n\\033[2J\\n"), list + "line 2: '\\x1b[2J' is not printable UTF-8");
  EXPECT_EQ(list_mistake("a\\tb\\n"), list + "line 1: 'a\tb' is not printable UTF-8");
  EXPECT_EQ(list_mistake("--help\\n"), list + "line 1: a name must not begin with '-': '--help'");
  EXPECT_EQ(list_mistake("/dev/stdin\\n"),
            list + "line 1: '/dev/stdin' stands for the standard input");
  EXPECT_EQ(mistake_in_list("printf '%1025s\\n' a | tr ' ' b"),
            list + "line 1: a name has over 1024 bytes");
  EXPECT_EQ(mistake_in_list("yes"), list + "it has over 67108864 bytes");
}

}  // namespace
}  // namespace paddle::data
