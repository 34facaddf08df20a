// get of a folder that holds folders of agents, whose copies and whose files come and go meanwhile.
#include "remote/agent/node_copy.h"

#include <atomic>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "remote/agent/copy_folders.h"
#include "tests/support/temporary_folder.h"

namespace paddle::agent {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

class NodeCopy : public testing::Test {
 protected:
  // An agent's folder below `home`, as nodes have theirs that share it.
  static Root make_root(const std::string& name, const TemporaryFolder& home) {
    auto root = open_root(home / name);
    EXPECT_TRUE(root) << root.error().message;
    return std::move(*root);
  }
  static Result<wire::agent::CopyReply> take(const Root& root, const std::string& outside) {
    wire::agent::CopyRequest request;
    request.set_inside("copy/1-1");
    request.set_outside(outside);
    request.set_bring_in(true);
    return copy_files(root, request);
  }

  TemporaryFolder home_;
};

TEST_F(NodeCopy, TakesNoCopiesThatOtherAgentsHaveBelow) {
  const Root mine = make_root("n-0", home_), other = make_root("n-1", home_);
  CopyFolders copies(mine), copies_of_other(other);
  ASSERT_TRUE(copies.use());
  ASSERT_TRUE(copies_of_other.use());
  home_.write("n-1/copy/1-1/home/n-0/copy/1-1/home/text", "a copy of a copy");
  home_.write("n-1/kept", "not a copy");
  home_.write("photos/copy/text", "a user's folder of that name");
  const auto reply = take(mine, home_.path());
  ASSERT_TRUE(reply) << reply.error().message;
  const fs::path to = fs::path(home_ / "n-0/copy/1-1") / fs::path(home_.path()).filename();
  EXPECT_FALSE(fs::exists(to / "n-1/copy"));
  EXPECT_FALSE(fs::exists(to / "n-0/copy"));
  EXPECT_TRUE(fs::exists(to / "n-1/kept"));
  EXPECT_TRUE(fs::exists(to / "photos/copy/text"));
  EXPECT_EQ(reply->files(), 2);
}

TEST_F(NodeCopy, GoesOnWithoutWhatIsRemovedMeanwhile) {
  const Root mine = make_root("n-0", home_);
  CopyFolders copies(mine);
  ASSERT_TRUE(copies.use());
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
  for (int i = 0; i < 300; ++i) {
    fs::remove_all(home_ / "n-0/copy/1-1");
    const auto reply = take(mine, home_ / "from");
    EXPECT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(TemporaryFolder::read(home_ / "n-0/copy/1-1/from/stays/text"), "here");
    if (HasFailure()) break;
  }
  end = true;
  others.join();
  EXPECT_FALSE(take(mine, home_ / "never/there"));
}

}  // namespace
}  // namespace paddle::agent
