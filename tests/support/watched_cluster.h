// Nodes in memory that a ClusterWatch looks at: each round is a call, and each read of a file is
// counted.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/dashboard/cluster_watch.h"
#include "cli/dashboard/live_store.h"
#include "tests/support/fake_cluster.h"

namespace paddle::cli {

// Counts the requests to the nodes, over all connections.
struct NodeRequests {
  std::mutex mutex;
  std::map<std::string, std::uint64_t> bytes;  // the bytes read, by path
  std::size_t reads = 0;
  std::map<std::string, int> connections;  // attempts, by node
};

class CountingClient final : public remote::FakeAgentClient {
 public:
  CountingClient(const remote::NodeSpec& spec, remote::FakeNode& fake, NodeRequests& requests)
      : FakeAgentClient(spec, fake), requests_(requests) {}
  Result<remote::FilePart> read_file(const std::string& path, std::uint64_t offset,
                                     std::uint32_t max_bytes, std::int64_t since_unix_ms) override {
    if (fake().unreachable) return Error{Errc::kUnreachable, "gone", ""};
    auto part = FakeAgentClient::read_file(path, offset, max_bytes, since_unix_ms);
    const std::lock_guard lock(requests_.mutex);
    ++requests_.reads;
    if (part) requests_.bytes[path] += part->data.size();
    return part;
  }

 private:
  NodeRequests& requests_;
};

struct WatchedCluster {
  explicit WatchedCluster(std::size_t nodes) : fake(nodes) {
    fake.context.connect = [this](const remote::NodeSpec& spec,
                                  bool) -> Result<std::unique_ptr<remote::AgentClient>> {
      const std::size_t dash = spec.name.rfind('-');
      auto& node =
          fake.node(dash == std::string::npos ? 0 : std::stoul(spec.name.substr(dash + 1)));
      {
        const std::lock_guard lock(requests.mutex);
        ++requests.connections[spec.name];
      }
      if (node.unreachable)
        return Error{Errc::kUnreachable, "node " + spec.name + ": no route to host", ""};
      if (absent.contains(spec.name)) return std::unique_ptr<remote::AgentClient>();
      return std::unique_ptr<remote::AgentClient>(new CountingClient(spec, node, requests));
    };
    fake.context.unix_ms = [] { return std::int64_t{1'700'000'000'000}; };
  }

  // Two seconds later.
  void round(const std::set<std::string>& wanted = {"j"}) {
    fake.clock.time += std::chrono::seconds(2);
    for (remote::FakeNode& node : fake.nodes) node.usage.unix_ms += 2'000;
    store.publish(watch.round(wanted));
  }
  void connect(const std::set<std::string>& wanted = {"j"}) {
    round(wanted);
    watch.wait_for_connections();
    round(wanted);
  }
  // The data of an event for a viewer; "" if there is none.
  std::string event(const std::string& name, const std::string& job = "j", std::uint64_t seen = 0) {
    for (const auto& [event, data] : store.since(job, seen).events) {
      if (event == name) return data;
    }
    return "";
  }
  std::uint64_t version() { return store.since("", 0).version; }
  Result<LogPart> log(const std::string& process, std::optional<std::uint64_t> offset = {}) {
    Result<LogPart> answer = Error{};
    watch.read_logs(
        {{"j", process, offset, [&](Result<LogPart> part) { answer = std::move(part); }}});
    return answer;
  }

  // A running process on a node.
  remote::ProcessStatus& start(std::size_t node, const std::string& name,
                               const std::string& job = "j") {
    remote::ProcessStatus status;
    status.job = job;
    status.name = name;
    const bool is_pserver = name.starts_with("pserver");
    status.log = "jobs/" + job + "/node_" + std::to_string(node) +
                 (is_pserver ? "/server" : "/train") +
                 (name.ends_with("-0") ? "" : name.substr(name.rfind('-'))) + ".log";
    status.state = remote::ProcessState::kRunning;
    status.started_unix_ms = 1'000;
    status.trainers = 1;
    status.run = 1;
    status.usage.emplace();
    status.progress.emplace().unix_ms = fake.node(node).usage.unix_ms;
    status.reports = true;
    fake.node(node).processes.push_back(status);
    return fake.node(node).processes.back();
  }
  std::string& file(std::size_t node, const std::string& path) {
    return fake.node(node).files[path];
  }

  FakeCluster fake;
  NodeRequests requests;
  std::set<std::string> absent;  // nodes without the cluster's folder
  ClusterWatch watch{fake.context, fake.cluster, "/nonexistent/output"};
  LiveStore store;
};

// A line of metrics of a trainer.
inline std::string train_line(int batch, double cost, std::int64_t unix_ms = 0) {
  return fmt::format(
      R"({{"kind":"train","pass":0,"batch":{},"samples":{},"cost":{},"current_cost":{},)"
      R"("examples_per_second":1000,"pass_done":0.5,"passes":2,"unix_ms":{}}})"
      "\n",
      batch, 10 * batch, cost, cost, unix_ms > 0 ? unix_ms : 2'000 + batch);
}

}  // namespace paddle::cli
