// Pushes to a node with a small disk.
#include "tests/support/small_disk.h"

#include <regex>

#include "tests/unit/remote/client/push_fixture.h"

namespace paddle::remote {
namespace {

constexpr std::size_t kSmallFileBytes = 200'000;
constexpr std::size_t kLargeFileBytes = 20'000'000;  // sent in chunks
constexpr std::size_t kDiskMebibytes = 36;  // beside the agent, which sanitizers make large

class SmallDisk : public PushTest {
 protected:
  // `work` gets an agent on a disk that has so much room beside it.
  void on_node(const std::function<void(AgentClient& agent)>& work) {
    const std::size_t agent_mebibytes = (fs::file_size(options_.agent_binary) >> 20U) + 1;
    const std::string size = std::to_string(kDiskMebibytes + agent_mebibytes) + "m";
    const std::string disk = folder_ + "/disk";
    fs::create_directory(disk);
    node_.root = disk + "/nodes/cluster/here";
    const bool can_mount = test::on_small_disk(disk, size, [&] {
      const auto agent = connect_agent();
      work(*agent);
      EXPECT_TRUE(agent->teardown(false));
    });
    if (!can_mount) GTEST_SKIP() << "nothing can be mounted here";
  }
  static void expect_no_room(const Result<PushStats>& pushed, const std::string& root) {
    ASSERT_FALSE(pushed);
    const Error& error = pushed.error();
    EXPECT_EQ(error.code, Errc::kResource);
    const std::regex figures("node here: there is not enough disk space for this push in " + root +
                             ": its files need at least [0-9]+ MB there, the job at least [0-9.]+ "
                             "MB more, and [0-9]+ MB "
                             "are free; nothing was sent");
    EXPECT_TRUE(std::regex_match(error.message, figures)) << error.message;
    EXPECT_NE(error.hint.find("workdir"), std::string::npos) << error.hint;
  }
};

TEST_F(SmallDisk, FilesThatDoNotFitAreRefusedBeforeTheFirstIsSent) {
  std::vector<PushItem> items;
  for (unsigned i = 0; i < 200; ++i) {
    const std::string name = "f" + std::to_string(i);
    items.push_back(
        {write_file(folder_ + "/" + name, test::noise(kSmallFileBytes, i)), "jobs/a/" + name});
  }
  on_node([&](AgentClient& agent) {
    expect_no_room(push(agent, items), node_.root);
    EXPECT_EQ(files_below(objects()), 0U);
    items.resize(50);
    const auto fits = push(agent, items);
    ASSERT_TRUE(fits) << fits.error().message;
    EXPECT_EQ(fits->files_sent, 50U);
  });
}

TEST_F(SmallDisk, AFileThatDoesNotFitIsRefusedBeforeItsFirstChunkIsSent) {
  const std::string large = write_file(folder_ + "/large", test::noise(2 * kLargeFileBytes, 1));
  on_node([&](AgentClient& agent) {
    expect_no_room(push(agent, {{large, "jobs/a/large"}}), node_.root);
    std::uint64_t blocks = 0;
    for (const auto& entry : fs::directory_iterator(at("store/partial"))) {
      struct stat info {};
      ASSERT_EQ(::stat(entry.path().c_str(), &info), 0);
      blocks += static_cast<std::uint64_t>(info.st_blocks);
    }
    EXPECT_EQ(blocks, 0U);
  });
}

// The agent itself says what is free there, whatever it could not write.
TEST_F(SmallDisk, WhatAFullDiskRefusesIsSaidWithWhatIsFreeThere) {
  on_node([&](AgentClient& agent) {
    ASSERT_EQ(::mount("none", "/dev/shm", "tmpfs", 0, "size=64k"), 0) << "of this test alone";
    ASSERT_TRUE(claim_to_start(agent, "job-1"));
    push_script(agent, "sleeper", "exec sleep 1000");
    for (const std::string& full : {std::string("/dev/shm/full"), folder_ + "/disk/full"})
      test::fill(full);
    const auto expect_figures = [&](const Status& refused, const std::string& file) {
      ASSERT_FALSE(refused) << file;
      const Error& error = refused.error();
      EXPECT_EQ(error.code, Errc::kResource) << error.message;
      const std::regex figures(".*" + file +
                               ".*: No space left on device \\(0 B of [0-9.]+ MB and "
                               "[0-9]+ files are free on the disk of " +
                               node_.root + "\\)");
      EXPECT_TRUE(std::regex_match(error.message, figures)) << error.message;
      EXPECT_NE(error.hint.find("make room there"), std::string::npos) << error.hint;
    };
    expect_figures(claim_to_start(agent, "job-2"), "claims/job-2");
    expect_figures(agent.write_keys("job-1", "trainer-0", as_bytes("secret")),
                   "the key file of trainer-0 in jobs/job-1/keys");
    expect_figures(agent.start(script("sleeper", "trainer-0")), "jobs/job-1/proc/trainer-0/spec");
  });
}

TEST_F(SmallDisk, AChangedFileIsTakenWhereItReplacesTheOneBefore) {
  std::string content = test::noise(kLargeFileBytes, 1);
  const std::string large = write_file(folder_ + "/large", content);
  on_node([&](AgentClient& agent) {
    const auto first = push(agent, {{large, "jobs/a/large"}});
    ASSERT_TRUE(first) << first.error().message;
    content.replace(kLargeFileBytes / 2, 5, "other");
    write_file(large, content);
    const auto second = push(agent, {{large, "jobs/a/large"}});
    ASSERT_TRUE(second) << "there is no room for a second copy: " << second.error().message;
    EXPECT_LT(second->bytes_sent, kLargeFileBytes / 10);
    EXPECT_EQ(file_content(at("jobs/a/large")), content);
  });
}

}  // namespace
}  // namespace paddle::remote
