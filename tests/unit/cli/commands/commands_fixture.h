// paddlectl's commands against two nodes in memory, which a test scripts.
#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "cli/command_line.h"
#include "tests/support/fake_agent_client.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {

namespace fs = std::filesystem;
using remote::FakeNode;
using remote::ProcessState;
using remote::ProcessStatus;

// Time that passes only in pauses, and by `step` with each look at it, from any thread.
struct FakeClock final : Clock {
  Duration step{};
  mutable std::atomic<Duration::rep> passed = 0;
  TimePoint now() const override { return TimePoint(Duration(passed += step.count())); }
};

inline constexpr const char* kJob = R"(
name = "tiny"
[data]
train = "data/train-*"
test = "data/test.txt"
format = "bow"
dictionary = "data/dictionary.txt"
[[layer]]
name = "embedded"
type = "embedding"
input = ["words"]
size = 4
pooling = "sum"
[[layer]]
name = "output"
type = "fc"
input = ["embedded"]
size = 2
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["output"]
label = "label"
[optimizer]
method = "sgd"
learning_rate = 0.1
)";

// Stays a moment, so that another one that may come does.
struct NodesAtOnce {
  NodesAtOnce(std::atomic<int>& now, std::atomic<int>& most) : now_(now) {
    const int mine = ++now;
    for (int seen = most; mine > seen && !most.compare_exchange_weak(seen, mine);) {
    }
    ::poll(nullptr, 0, 10);
  }
  ~NodesAtOnce() { --now_; }
  std::atomic<int>& now_;
};

class CommandsTest : public testing::Test {
 protected:
  void SetUp() override {
    write("c.toml", "name = \"t\"\n[[node]]\nname = \"n\"\nlauncher = \"local\"\ncount = 2\n");
    write("paddle", "engine");
    write("w/job.toml", kJob);
    write("w/data/train-00000", "1\ta b\n");
    write("w/data/train-00001", "0\tb\n");
    write("w/data/test.txt", "1\ta\n");
    write("w/data/dictionary.txt", "a\nb\n<unk>\n");
    write("w/.git/x", "hidden");
    for (FakeNode& node : nodes_)
      node.on_start = [this](FakeNode& fake, ProcessStatus& status) { started(fake, status); };
  }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((fs::path(folder_) / path).parent_path());
    std::ofstream(fs::path(folder_) / path) << text;
  }

  void started(FakeNode& fake, ProcessStatus& status) {
    if (status.name.starts_with("pserver-")) {
      status.phase = remote::Phase::kReady;
      fake.files[status.log] += "READY pserver " + status.name.substr(8) + " ports 1-2\n";
    } else {
      status.state = trainer_state_;
      status.exit_code = trainer_exit_;
      status.ended_unix_ms = 500;
      fake.files[status.log] = "reading\nbad record in data/train-00000:7\n";
      if (status.name == "trainer-0") {
        fake.files["jobs/job1/node_0/metrics.jsonl"] =
            "{\"kind\":\"test\",\"pass\":0,\"samples\":1,\"cost\":0.5,\"perplexity\":1.65}\n";
        fake.files["jobs/job1/output/pass-00000/MANIFEST"] = "m";
      }
    }
  }

  int run(std::vector<std::string> arguments) {
    out_.str("");
    err_.str("");
    Console console(out_, err_, console_options_);
    Context context{
        console,
        clock_,
        [this](const remote::NodeSpec& spec,
               bool create) -> Result<std::unique_ptr<remote::AgentClient>> {
          FakeNode& fake = nodes_[spec.name == "n-0" ? 0 : 1];
          const NodesAtOnce here(at_once_, at_once_max_);
          const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
          while (at_once_max_ < awaited_at_once_ && std::chrono::steady_clock::now() < until) {
            std::this_thread::yield();
          }
          timeout_ = spec.timeout;
          const std::lock_guard lock(fake.mutex);  // several names may be one machine
          if (fake.unreachable)
            return Error{Errc::kUnreachable, "node " + spec.name + ": no route", "plug it in"};
          if (fake.torn_down && !create) return std::unique_ptr<remote::AgentClient>();
          fake.torn_down = false;
          return std::unique_ptr<remote::AgentClient>(new remote::FakeAgentClient(spec, fake));
        },
        [this](Duration d) {
          clock_.passed += d.count();
          if (on_pause_) on_pause_();
        },
        [this] { return interrupted_; },
        [] { return std::int64_t{0}; },
        folder_ + "/paddle",
        folder_};
    context.ask = ask_;
    context.folders_beside = [this](const remote::NodeSpec&) {
      return Result<std::vector<std::string>>(beside_);
    };
    context.take_interrupt = [this] { interrupted_ = false; };
    return run_app(context, std::move(arguments));
  }
  int train() { return run({"train", "--name", "job1", "w"}); }
  std::vector<std::string> running() const {
    std::vector<std::string> names;
    for (const FakeNode& node : nodes_) {
      for (const ProcessStatus& process : node.processes) {
        if (process.state == ProcessState::kRunning) names.push_back(process.name);
      }
    }
    return names;
  }
  bool out_has(const std::string& text) const { return out_.str().find(text) != std::string::npos; }
  bool err_has(const std::string& text) const { return err_.str().find(text) != std::string::npos; }

  const test::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
  FakeClock clock_;
  std::array<FakeNode, 2> nodes_;
  std::atomic<Duration> timeout_ = Duration();      // of the node connected last
  std::atomic<int> at_once_ = 0, at_once_max_ = 0;  // nodes being connected
  int awaited_at_once_ = 0;  // a node is connected once so many have been begun, or after 10 s
  ProcessState trainer_state_ = ProcessState::kExited;
  int trainer_exit_ = 0;
  bool interrupted_ = false;
  std::function<void()> on_pause_;
  std::function<std::optional<std::string>(std::string_view, bool)> ask_;
  ConsoleOptions console_options_;
  std::vector<std::string> beside_;  // folders of nodes on this machine, with those of the cluster
  std::ostringstream out_, err_;
};

}  // namespace paddle::cli
