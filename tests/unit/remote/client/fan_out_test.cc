// The schedule by itself, then a push to real agents.
#include "remote/client/fan_out.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

#include "remote/client/agent_client.h"
#include "tests/support/noise.h"
#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {
namespace {

namespace fs = std::filesystem;
using Kind = FanOut::Step::Kind;

std::vector<PackShape> shapes(std::size_t count, unsigned first = 0) {
  std::vector<PackShape> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t number = first + i;
    std::memcpy(all[i].key.data(), &number, sizeof number);
    all[i].bytes = 1U << 20U;
    all[i].blobs = 8;
  }
  return all;
}

ServingNode serving(std::uint16_t port) {
  return {"127.0.0.1", port, true, *Secret::generate()};
}

FanOut::NodeIndex join(FanOut& fan_out, const std::string& node, std::size_t packs,
                       std::uint16_t port) {
  const FanOut::NodeIndex index = fan_out.join(node);
  fan_out.announce(index, shapes(packs), serving(port));
  return index;
}

// Nodes that take turns at random; what a pull meets is a table.
class FanOutSim {
 public:
  FanOutSim(std::size_t nodes, std::size_t packs, unsigned seed)
      : random_(seed), packs_(packs), fan_out_(nodes), reaches_(nodes) {
    for (auto& row : reaches_) row.assign(nodes, true);
  }
  void cut(std::size_t from, std::size_t to) { reaches_[from][to] = false; }
  void cut_inbound(std::size_t to) {
    for (auto& row : reaches_) row[to] = false;
  }

  // Packs sent from here; fails the test when it comes to no end.
  std::size_t run() {
    const std::size_t nodes = reaches_.size();
    std::size_t sent = 0, finished = 0;
    std::vector<std::optional<FanOut::Step>> doing(nodes);
    std::vector<char> finished_at(nodes, 0);
    for (std::size_t i = 0; i < nodes; ++i)
      join(fan_out_, "node-" + std::to_string(i), packs_, static_cast<std::uint16_t>(i + 1));
    for (int turn = 0; finished < nodes; ++turn) {
      if (turn > 200'000) {
        ADD_FAILURE() << "no end";
        return sent;
      }
      const std::size_t node = random_() % nodes;
      if (finished_at[node]) continue;
      if (doing[node]) {
        const FanOut::Step step = *std::exchange(doing[node], std::nullopt);
        if (step.kind == Kind::kPull) {
          const bool reached = reaches_[node][step.from];
          fan_out_.pulled(node, step, reached ? step.packs.size() : 0, reached);
        } else {
          for (const std::size_t pack : step.packs) fan_out_.arrived(node, pack);
        }
        continue;
      }
      FanOut::Step step = fan_out_.next(node);
      if (step.kind == Kind::kDone) {
        finished_at[node] = 1;
        ++finished;
      } else if (step.kind != Kind::kWait) {
        if (step.kind == Kind::kSend) sent += step.packs.size();
        EXPECT_FALSE(step.packs.empty());
        doing[node] = std::move(step);
      }
    }
    EXPECT_FALSE(fan_out_.unfinished());
    return sent;
  }
  FanOut& fan_out() { return fan_out_; }

 private:
  std::mt19937 random_;
  std::size_t packs_;
  FanOut fan_out_;
  std::vector<std::vector<char>> reaches_;
};

TEST(FanOut, WhatAllLackIsSentOnce) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    for (const std::size_t nodes : {2, 3, 8, 16, 40}) {
      FanOutSim sim(nodes, 50, seed);
      EXPECT_EQ(sim.run(), 50U) << nodes << " nodes, seed " << seed;
      EXPECT_TRUE(sim.fan_out().connection_problems().empty());
    }
  }
}

TEST(FanOut, ANodeServesOnlySomeAtATime) {
  FanOut fan_out(kServesAtOnce + 2);
  const auto holder = join(fan_out, "holder", 1, 1);
  std::vector<FanOut::NodeIndex> others;
  for (unsigned i = 0; i <= kServesAtOnce; ++i)
    others.push_back(join(fan_out, "node", 1, static_cast<std::uint16_t>(i + 2)));
  ASSERT_EQ(fan_out.next(holder).kind, Kind::kSend);
  fan_out.arrived(holder, 0);
  std::optional<FanOut::Step> first;
  for (unsigned i = 0; i < kServesAtOnce; ++i) {
    const auto step = fan_out.next(others[i]);
    ASSERT_EQ(step.kind, Kind::kPull) << i;
    if (!first) first = step;
  }
  EXPECT_EQ(fan_out.next(others.back()).kind, Kind::kWait)
      << "it is not sent what it can pull soon";
  fan_out.pulled(others[0], *first, 1, true);
  EXPECT_EQ(fan_out.next(others.back()).kind, Kind::kPull);
}

TEST(FanOut, EachNodeIsSentAPart) {
  FanOut fan_out(4);
  for (int i = 0; i < 4; ++i) join(fan_out, "node", 64, 1);
  std::set<std::size_t> sent;
  for (FanOut::NodeIndex index = 0; index < 4; ++index) {
    const FanOut::Step step = fan_out.next(index);
    EXPECT_EQ(step.kind, Kind::kSend);
    sent.insert(step.packs.begin(), step.packs.end());
  }
  EXPECT_EQ(sent.size(), 16U) << "4 MiB to each, nothing twice";
}

TEST(FanOut, ANodeThatIsNotReachedCostsNoMoreThanItsPart) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    FanOutSim sim(8, 64, seed);
    sim.cut_inbound(3);
    EXPECT_LE(sim.run(), 2 * 64U) << seed;
    const std::vector<std::string> problems = sim.fan_out().connection_problems();
    for (const std::string& one : problems)
      EXPECT_EQ(one, "node-3 cannot be reached from the other nodes");
  }
}

TEST(FanOut, ANodeThatReachesNobodyIsSentAll) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    FanOutSim sim(6, 40, seed);
    for (std::size_t to = 0; to < 6; ++to) sim.cut(2, to);
    EXPECT_LE(sim.run(), 2 * 40U) << seed;
  }
}

TEST(FanOut, NodesThatDoNotReachEachOtherAreSentEverything) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    FanOutSim sim(6, 40, seed);
    for (std::size_t to = 0; to < 6; ++to) sim.cut_inbound(to);
    EXPECT_EQ(sim.run(), 6 * 40U) << seed;
    EXPECT_FALSE(sim.fan_out().connection_problems().empty());
  }
}

TEST(FanOut, AnyLinksMayBeCutAndAllGetAll) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    FanOutSim sim(7, 30, seed);
    for (std::size_t from = 0; from < 7; ++from) {
      for (std::size_t to = 0; to < 7; ++to) {
        if (random() % 3 == 0) sim.cut(from, to);
      }
    }
    EXPECT_LE(sim.run(), 7 * 30U) << seed;
  }
}

TEST(FanOut, WhoLeavesIsNotWaitedFor) {
  FanOut fan_out(2);
  const auto first = join(fan_out, "a", 1, 1);
  const auto second = join(fan_out, "b", 1, 2);
  const FanOut::Step sends = fan_out.next(first);
  EXPECT_EQ(sends.kind, Kind::kSend);
  const FanOut::Step waits = fan_out.next(second);
  ASSERT_EQ(waits.kind, Kind::kWait);
  fan_out.leave(first);
  fan_out.wait(waits.seen, std::chrono::hours(1));  // returns at once
  EXPECT_EQ(fan_out.next(second).kind, Kind::kSend);
  ASSERT_TRUE(fan_out.unfinished());
  fan_out.arrived(second, 0);
  EXPECT_FALSE(fan_out.unfinished());
}

TEST(FanOut, WhoHasAllStaysForThoseThatHaveNotToldYet) {
  FanOut fan_out(2);
  const auto first = join(fan_out, "a", 1, 1);
  const auto late = fan_out.join("b");
  EXPECT_EQ(fan_out.next(first).kind, Kind::kSend);
  fan_out.arrived(first, 0);
  EXPECT_TRUE(fan_out.unfinished()) << "b may lack the same";
  fan_out.announce(late, shapes(1), serving(2));
  EXPECT_EQ(fan_out.next(late).kind, Kind::kPull);
}

class FanOutTest : public AgentTest {
 protected:
  static constexpr std::size_t kNodes = 8;

  FanOutTest() {
    for (std::size_t i = 0; i < kNodes; ++i) {
      NodeSpec spec = node_;
      spec.name = "node-" + std::to_string(i);
      spec.root = folder_ + "/nodes/cluster/" + spec.name;
      spec.address = "127.0.0.1";
      specs.push_back(spec);
    }
  }
  ~FanOutTest() override {
    for (const NodeSpec& spec : specs) {
      const auto agent = connect(spec, options_);
      EXPECT_TRUE(agent && (*agent)->teardown(false));
    }
  }

  // blocked: a node that listens and does not answer, as behind a firewall.
  void push_to_all(const std::vector<PushItem>& items,
                   std::optional<std::size_t> blocked = std::nullopt) {
    PushSource source("", specs.size());
    stats.assign(specs.size(), {});
    {
      std::vector<std::unique_ptr<AgentClient>> agents;
      for (const NodeSpec& spec : specs) agents.push_back(*connect(spec, options_));
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < specs.size(); ++i) {
        threads.emplace_back([&, i] {
          const auto block = [&](std::uint64_t, std::uint64_t arrived) {
            if (blocked == i && arrived > 0) {
              for (const int pid : serving(specs[i])) ::kill(pid, SIGSTOP);
            }
            return true;
          };
          const auto pushed = agents[i]->push(items, source, block);
          EXPECT_TRUE(pushed) << pushed.error().message;
          if (pushed) stats[i] = *pushed;
        });
      }
      threads.clear();
      for (const NodeSpec& spec : specs)
        EXPECT_TRUE(serving(spec).empty()) << "nobody listens after a push";
    }
    problems = source.fan_out().connection_problems();
    for (const NodeSpec& spec : specs) {
      for (const PushItem& item : items) {
        EXPECT_TRUE(file_content(spec.root + "/" + item.remote_path) ==
                    file_content(item.local_path))
            << spec.name << " " << item.remote_path;
      }
    }
  }
  // The process that serves files to other nodes is a child of the agent.
  std::vector<int> serving(const NodeSpec& spec) const {
    const std::vector<int> all = processes_using(spec.root);
    std::vector<int> found;
    for (const int pid : all) {
      const std::string stat = file_content("/proc/" + std::to_string(pid) + "/stat");
      const int parent = std::atoi(stat.c_str() + stat.rfind(')') + 4);
      if (std::ranges::find(all, parent) != all.end()) found.push_back(pid);
    }
    return found;
  }
  std::uint64_t uplink() const {
    std::uint64_t bytes = 0;
    for (const PushStats& one : stats) bytes += one.bytes_on_wire;
    return bytes;
  }

  std::vector<NodeSpec> specs;
  std::vector<PushStats> stats;
  std::vector<std::string> problems;
};

TEST_F(FanOutTest, OneFileOfEightMegabytesLeavesThisMachineOnce) {
  const std::string content = test::noise(8U << 20U, 1);
  push_to_all({{write_file(folder_ + "/large", content), "jobs/a/large"}});
  EXPECT_GE(uplink(), content.size());
  EXPECT_LE(uplink(), content.size() * 11 / 10);
  for (const PushStats& one : stats) {
    EXPECT_EQ(one.bytes_sent, content.size());
    EXPECT_EQ(one.bytes_on_wire + one.bytes_from_nodes, content.size());
  }
  EXPECT_TRUE(problems.empty());
}

TEST_F(FanOutTest, ManySmallFilesDoSoTooBesideWhatOnlyOneNodeGets) {
  std::vector<PushItem> items;
  std::uint64_t total = 0;
  for (unsigned i = 0; i < 150; ++i) {
    const std::string name = "file-" + std::to_string(i);
    items.push_back({write_file(folder_ + "/" + name, test::noise(20'000, i)), "jobs/a/" + name});
    total += 20'000;
  }
  push_to_all(items);
  EXPECT_LE(uplink(), total * 11 / 10);
}

TEST_F(FanOutTest, ANodeThatCannotServeStillGetsAll) {
  specs[2].address = "192.0.2.1";  // nobody's: it cannot listen there
  const std::string content = test::noise(8U << 20U, 2);
  push_to_all({{write_file(folder_ + "/large", content), "jobs/a/large"}});
  EXPECT_LE(uplink(), 2 * content.size());
  EXPECT_EQ(problems, std::vector<std::string>{"node-2 cannot be reached from the other nodes"});
}

TEST_F(FanOutTest, ANodeWhosePortIsBlockedStillGetsAll) {
  const std::string content = test::noise(8U << 20U, 4);
  push_to_all({{write_file(folder_ + "/large", content), "jobs/a/large"}}, 5);
  EXPECT_LE(uplink(), 2 * content.size());
}

TEST_F(FanOutTest, NodesThatAllCannotServeAreSentEverything) {
  for (NodeSpec& spec : specs) spec.address = "192.0.2.1";
  const std::string content = test::noise(2U << 20U, 3);
  push_to_all({{write_file(folder_ + "/large", content), "jobs/a/large"}});
  EXPECT_EQ(uplink(), specs.size() * content.size());
}

}  // namespace
}  // namespace paddle::remote
