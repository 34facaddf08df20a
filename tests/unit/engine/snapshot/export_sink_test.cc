#include "engine/snapshot/export_sink.h"

#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle::exporting {
namespace {

namespace fs = std::filesystem;

class SinkTest : public testing::Test {
 protected:
  Status export_to(const std::string& name, std::string_view text = "new") {
    PADDLE_TRY(Sink sink, Sink::open(folder_ / name));
    PADDLE_TRY_STATUS(sink.write(text));
    return sink.finish();
  }
  std::string content(const std::string& name) const {
    return test::TemporaryFolder::read(folder_ / name);
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }

  test::TemporaryFolder folder_;
};

TEST_F(SinkTest, AFileIsWholeOrNotThereAndItsNeighboursStay) {
  folder_.write("out", "old");
  folder_.write("out.tmp", "mine");
  fs::permissions(folder_ / "out", fs::perms::owner_read | fs::perms::owner_write);
  {
    auto first = Sink::open(folder_ / "out");
    auto second = Sink::open(folder_ / "out");  // two exports to one name at a time
    ASSERT_TRUE(first && second);
    ASSERT_TRUE(first->write("1") && second->write("22"));
    EXPECT_EQ(content("out"), "old");
    ASSERT_TRUE(second->finish());
    EXPECT_EQ(content("out"), "22");
    auto third = Sink::open(folder_ / "out");
    ASSERT_TRUE(third && third->write("333"));
    ASSERT_TRUE(first->finish());
  }
  EXPECT_EQ(content("out"), "1");
  EXPECT_EQ(content("out.tmp"), "mine");
  EXPECT_EQ(files(), 2U) << "nothing is left over";
  EXPECT_EQ(fs::status(folder_ / "out").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(SinkTest, ALinkStaysAndItsFileIsReplaced) {
  folder_.write("to/target", "old");
  fs::create_symlink("to/target", folder_ / "link");
  ASSERT_TRUE(export_to("link"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(content("to/target"), "new");
  fs::create_symlink("nothing", folder_ / "dangling");
  EXPECT_EQ(export_to("dangling").error().code, Errc::kUsage);
  EXPECT_TRUE(fs::is_symlink(folder_ / "dangling"));
}

TEST_F(SinkTest, APipeIsWrittenAndStays) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = test::TemporaryFolder::read(folder_ / "pipe"); });
  const Status written = export_to("pipe");
  reader.join();
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(read, "new");
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));
  const auto device = Sink::open("/dev/null");
  ASSERT_TRUE(device);
  EXPECT_FALSE(device->is_file());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(SinkTest, AFolderIsRefused) {
  fs::create_directory(folder_ / "folder");
  const Status refused = export_to("folder");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUsage);
  EXPECT_EQ(export_to("none/out").error().code, Errc::kResource);
}

}  // namespace
}  // namespace paddle::exporting
