// The actions that a client reports for the journal, with the real agent.
#include <algorithm>

#include <fmt/format.h>

#include "base/bytes.h"
#include "tests/support/free_ports.h"
#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {
namespace {

class NodeActionTest : public AgentTest {
 protected:
  NodeActionTest() {
    options_.on_action = [this](const NodeSpec& node, const NodeAction& action) {
      EXPECT_EQ(node.name, "here");
      EXPECT_EQ(node.root, node_.root);
      actions_.push_back(action);
    };
    agent_ = connect_agent();
  }
  ~NodeActionTest() override { options_.on_action = nullptr; }

  // The actions since the last call, as "job: text, exit".
  std::vector<std::string> actions() {
    std::vector<std::string> texts;
    for (const NodeAction& action : std::exchange(actions_, {}))
      texts.push_back(fmt::format("{}: {}, {}", action.job, action.text, action.exit_code));
    return texts;
  }
  int run(const std::vector<std::string>& arguments) {
    EXPECT_TRUE(agent_->run(
        {arguments, {}}, [](std::string_view, bool) {}, nullptr));
    EXPECT_EQ(actions_.back().text, "run " + arguments.front());
    return actions_.back().exit_code;
  }

  using Texts = std::vector<std::string>;
  std::vector<NodeAction> actions_;
  std::unique_ptr<AgentClient> agent_;
};

TEST_F(NodeActionTest, EachRequestAboutAProcessIsAnActionOfItsJob) {
  push_script(*agent_, "waits", "exec sleep 600");
  EXPECT_EQ(actions(), Texts{": push 1 files, 0"});
  ASSERT_TRUE(claim_to_start(*agent_, "job-1"));
  ASSERT_TRUE(agent_->write_keys("job-1", "p", Secret::generate()->reveal()));
  ProcessSpec spec = script("waits", "p");
  spec.arguments = {"--password=hunter2"};
  spec.environment["TOKEN"] = "hunter2";
  spec.restarts = 1;
  ASSERT_TRUE(agent_->start(spec));
  ASSERT_TRUE(agent_->restart("job-1", {"p"}));
  ASSERT_TRUE(agent_->ask_to_stop("job-1", {"p", "q"}));
  ASSERT_TRUE(agent_->stop("job-1", {}, std::chrono::seconds(5)));
  EXPECT_EQ(actions(),
            (Texts{"job-1: write the keys of p, 0", "job-1: start p, 0", "job-1: restart p, 0",
                   "job-1: ask to stop p q, 0", "job-1: end all, 0"}));
  const Status refused = agent_->start(script("missing", "q"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(actions(), Texts{fmt::format("job-1: start q, {}", int(refused.error().code))});
}

TEST_F(NodeActionTest, EachRequestAboutFilesIsAnActionOfTheirJob) {
  const std::string file = write_file(folder_ + "/file", "content");
  PushSource source;
  const auto push = [&](const std::string& path, const std::string& keep_only) {
    ASSERT_TRUE(agent_->push({{file, path}}, source, nullptr, keep_only));
  };
  push("jobs/first/settings.jsonl", "");
  push("bin/paddle-0123456789abcdef", "jobs/first/workspace");
  push(".paddlectl-copies/1/1", "");
  EXPECT_EQ(actions(),
            (Texts{"first: push 1 files, 0", "first: push 1 files, 0", ": push 1 files, 0"}));
  ASSERT_TRUE(fetch_file(*agent_, "jobs/first/settings.jsonl", folder_ + "/fetched"));
  ASSERT_TRUE(agent_->move("jobs/first/settings.jsonl", "jobs/first/old"));
  ASSERT_TRUE(agent_->remove("jobs/first"));
  EXPECT_FALSE(agent_->remove("../elsewhere"));
  EXPECT_EQ(actions(), (Texts{"first: fetch 1 files, 0",
                              "first: move jobs/first/settings.jsonl to jobs/first/old, 0",
                              "first: remove jobs/first, 0",
                              fmt::format(": remove ../elsewhere, {}", int(Errc::kData))}));
  CopyTree tree = {{{"file", TreeEntry::Kind::kFile, 0644, 0, 0, ""}, 1}};
  ASSERT_TRUE(agent_->export_to(tree, ".paddlectl-copies/1", folder_));
  tree.clear();
  ASSERT_TRUE(agent_->import_from(folder_ + "/file", ".paddlectl-copies/2", tree));
  EXPECT_EQ(actions(), (Texts{": put " + folder_ + ", 0", ": get " + folder_ + "/file, 0"}));
}

TEST_F(NodeActionTest, ACommandIsItsProgramAndItsExitCode) {
  EXPECT_EQ(run({"/bin/sh", "-c", "exit 3", "-phunter2"}), 3);
  EXPECT_EQ(run({"/bin/sh", "-c", "kill -KILL $$"}), 137);
  EXPECT_EQ(actions(), (Texts{": run /bin/sh, 3", ": run /bin/sh, 137"}));
}

TEST_F(NodeActionTest, ProbesAndATeardownBelongToNoJob) {
  const std::uint16_t port = test::free_ports(1);
  const Secret token = *Secret::generate();
  ASSERT_TRUE(agent_->listen_for_probes("127.0.0.1", port, token));
  ASSERT_TRUE(agent_->probe("127.0.0.1", port, token, 1));
  ASSERT_TRUE(agent_->stop_listening());
  ASSERT_TRUE(agent_->teardown(true));
  EXPECT_EQ(actions(), (Texts{fmt::format(": listen for probes on port {}, 0", port),
                              fmt::format(": probe 127.0.0.1, port {}, 0", port),
                              ": teardown, keeping data, 0"}));
}

TEST_F(NodeActionTest, ARequestThatOnlyReadsIsNone) {
  EXPECT_TRUE(agent_->facts());
  EXPECT_TRUE(agent_->list("jobs"));
  EXPECT_FALSE(agent_->read_file("jobs/first/log", 0, 100));
  EXPECT_TRUE(agent_->status(""));
  EXPECT_TRUE(agent_->check_ports("127.0.0.1", 7164, 1));
  EXPECT_TRUE(agent_->leftovers());
  EXPECT_TRUE(claim_to_start(*agent_, "first"));
  EXPECT_TRUE(agent_->started());
  EXPECT_EQ(actions(), Texts());
}

}  // namespace
}  // namespace paddle::remote
