// get of a folder that holds folders of agents, whose copies and whose files come and go meanwhile.
#include "remote/agent/root/node_copy.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle::agent {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

class NodeCopy : public testing::Test {
 protected:
  // An agent's folder below `home`, as nodes have theirs that share it.
  static Root make_root(const std::string& name, const TemporaryFolder& home) {
    auto root = open_root(home.make(name));
    EXPECT_TRUE(root) << root.error().message;
    return std::move(*root);
  }
  static Result<wire::agent::CopyReply> take(const Root& root, const std::string& outside) {
    wire::agent::CopyRequest request;
    request.set_inside(".paddlectl-copies/1-1");
    request.set_outside(outside);
    request.set_bring_in(true);
    return copy_files(root, request);
  }

  bool give_home_to(uid_t user) const {
    bool all = ::chown(home_.path().c_str(), user, user) == 0;
    for (const auto& entry : fs::recursive_directory_iterator(home_.path())) {
      all = ::chown(entry.path().c_str(), user, user) == 0 && all;
    }
    return all;
  }

  static constexpr uid_t kNobody = 65534;
  TemporaryFolder home_;
};

TEST_F(NodeCopy, TakesNoCopiesThatOtherAgentsHaveBelow) {
  const Root mine = make_root("n-0", home_);
  home_.write("n-1/.paddlectl-copies/1-1/home/text", "a copy of a copy");
  home_.write("n-1/kept", "not a copy");
  home_.write("photos/copies/text", "a user's");
  const auto reply = take(mine, home_.path());
  ASSERT_TRUE(reply) << reply.error().message;
  const fs::path to =
      fs::path(home_ / "n-0/.paddlectl-copies/1-1") / fs::path(home_.path()).filename();
  EXPECT_FALSE(fs::exists(to / "n-1/.paddlectl-copies"));
  EXPECT_FALSE(fs::exists(to / "n-0/.paddlectl-copies"));
  EXPECT_TRUE(fs::exists(to / "n-1/kept"));
  EXPECT_TRUE(fs::exists(to / "photos/copies/text"));
  EXPECT_EQ(reply->files(), 2);
}

TEST_F(NodeCopy, GoesOnWithoutWhatIsRemovedMeanwhileAndCountsIt) {
  const Root mine = make_root("n-0", home_);
  home_.write("from/stays/text", "here");
  std::atomic<bool> end = false;
  std::thread others([&] {
    for (int i = 0; !end; i = (i + 1) % 8) {
      const std::string folder = "from/busy/" + std::to_string(i);
      home_.write(folder + "/below/text", "soon gone");
      home_.write(folder + "/text", "soon gone");
      std::error_code error;
      fs::remove_all(home_ / folder, error);
    }
  });
  std::uint64_t gone = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (gone == 0 && !HasFailure() && std::chrono::steady_clock::now() < deadline) {
    fs::remove_all(home_ / "n-0/.paddlectl-copies/1-1");
    const auto reply = take(mine, home_ / "from");
    EXPECT_TRUE(reply) << reply.error().message;
    if (!reply) break;
    EXPECT_EQ(TemporaryFolder::read(home_ / "n-0/.paddlectl-copies/1-1/from/stays/text"), "here");
    gone = reply->gone();
  }
  end = true;
  others.join();
  EXPECT_GT(gone, 0U);
}

TEST_F(NodeCopy, WhatCannotBeReadIsAnError) {
  const Root mine = make_root("n-0", home_);
  EXPECT_FALSE(take(mine, home_ / "never/there"));
  CopyFolders copies(mine);
  ASSERT_TRUE(copies.use());
  EXPECT_FALSE(take(mine, home_ / "n-0/.paddlectl-copies")) << "it would not end";
  home_.write("from/closed/text", "");
  ASSERT_EQ(::chmod((home_ / "from/closed").c_str(), 0444), 0) << "to be listed, not entered";
  EXPECT_EXIT(
      {
        // Root may read all.
        if (::geteuid() == 0 && (!give_home_to(kNobody) || ::setuid(kNobody) != 0)) ::_exit(1);
        ::_exit(take(make_root("n-1", home_), home_ / "from") ? 2 : 0);
      },
      testing::ExitedWithCode(0), "");
  ASSERT_EQ(::chmod((home_ / "from/closed").c_str(), 0755), 0);
}

}  // namespace
}  // namespace paddle::agent
