// A cluster of nodes in memory with a context and a session, for tests of what happens on its
// nodes.
#pragma once

#include <list>
#include <memory>
#include <sstream>
#include <string>

#include "cli/cluster/cluster_session.h"
#include "tests/support/fake_agent_client.h"

namespace paddle::cli {

struct FakeCluster {
  struct StillClock final : Clock {
    mutable TimePoint time{};
    TimePoint now() const override { return time; }
  };

  explicit FakeCluster(std::size_t count) : nodes(count) {
    cluster =
        *parse_cluster("name = \"t\"\n[[node]]\nname = \"n\"\nlauncher = \"local\"\ncount = " +
                           std::to_string(count) + "\n",
                       "t.toml");
  }
  remote::FakeNode& node(std::size_t number) { return *std::next(nodes.begin(), long(number)); }
  ClusterSession session() { return ClusterSession::find_all(context, cluster); }

  std::list<remote::FakeNode> nodes;
  ClusterSpec cluster;
  StillClock clock;
  std::ostringstream out, err;
  Console console{out, err, {}};
  bool interrupted = false;
  Context context{
      console,
      clock,
      [this](const remote::NodeSpec& spec, bool) -> Result<std::unique_ptr<remote::AgentClient>> {
        const std::size_t dash = spec.name.rfind('-');
        const std::size_t number =
            dash == std::string::npos ? 0 : std::stoul(spec.name.substr(dash + 1));
        return std::unique_ptr<remote::AgentClient>(
            new remote::FakeAgentClient(spec, node(number)));
      },
      [this](Duration pause) { clock.time += pause; },
      [this] { return interrupted; },
      [] { return std::int64_t{0}; },
      "/nonexistent/paddle",
      "/nonexistent"};
};

}  // namespace paddle::cli
