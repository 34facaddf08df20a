// The cost of the live data of `paddlectl dashboard`: a job of many processes with long metrics, in
// memory instead of on nodes. Prints the time of the first reading, of a refresh without and with
// new lines, and the resident memory.
//   dashboard_bench [processes [lines [nodes]]]
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "cli/dashboard/cluster_watch.h"
#include "cli/dashboard/live_store.h"
#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kLineBytes = 256;

// A log point as a trainer writes it, of a fixed length.
std::string line_of(std::size_t number) {
  const std::size_t pass = number / 2'000, batch = 1 + number % 2'000;
  std::string line = fmt::format(
      R"({{"kind":"train","pass":{},"batch":{},"samples":{},"cost":{:.6f},"current_cost":{:.6f},)"
      R"("examples_per_second":{:.1f},"examples_per_busy_second":{:.1f},"auc":0.75,)"
      R"("pass_done":{:.4f},"passes":10,"unix_ms":{})",
      pass, batch, batch * 128, 3.0 / static_cast<double>(number + 1),
      3.0 / static_cast<double>(number % 97 + 1), 1000.0 + static_cast<double>(number % 13),
      1200.0 + static_cast<double>(number % 11), static_cast<double>(batch) / 2'000,
      1'700'000'000'000 + 1'000 * number);
  line.resize(kLineBytes - 2, ' ');
  return line + "}\n";
}

// A node whose processes write metrics that exist only while they are read.
class WritingClient final : public remote::FakeAgentClient {
 public:
  WritingClient(const remote::NodeSpec& spec, remote::FakeNode& fake,
                const std::atomic<std::size_t>& lines)
      : FakeAgentClient(spec, fake), lines_(lines) {}
  Result<remote::FilePart> read_file(const std::string& path, std::uint64_t offset,
                                     std::uint32_t max_bytes, std::int64_t) override {
    if (path.find("metrics") == std::string::npos) return Error{Errc::kData, "no file", ""};
    remote::FilePart part;
    part.size = lines_ * kLineBytes;
    const std::uint64_t end = std::min<std::uint64_t>(part.size, offset + max_bytes);
    for (std::uint64_t at = offset; at < end;) {
      const std::string line = line_of(at / kLineBytes);
      const std::uint64_t begin = at % kLineBytes;
      const std::uint64_t count = std::min(kLineBytes - begin, end - at);
      part.data += line.substr(begin, count);
      at += count;
    }
    part.next_offset = offset + part.data.size();
    return part;
  }

 private:
  const std::atomic<std::size_t>& lines_;
};

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double resident_mb() {
  std::ifstream statm("/proc/self/statm");
  double all = 0, resident = 0;
  statm >> all >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6;
}

struct Bench {
  Bench(std::size_t processes, std::size_t count, std::size_t nodes) : fake(nodes), lines(count) {
    fake.context.connect = [this](const remote::NodeSpec& spec,
                                  bool) -> Result<std::unique_ptr<remote::AgentClient>> {
      const std::size_t dash = spec.name.rfind('-');
      auto& node =
          fake.node(dash == std::string::npos ? 0 : std::stoul(spec.name.substr(dash + 1)));
      return std::unique_ptr<remote::AgentClient>(new WritingClient(spec, node, lines));
    };
    for (std::size_t i = 0; i < processes; ++i) {
      remote::ProcessStatus status;
      status.job = "j";
      status.name = fmt::format("trainer-{}", i);
      status.log = fmt::format("jobs/j/node_{}/train-{}.log", i % nodes, i);
      status.state = remote::ProcessState::kRunning;
      status.started_unix_ms = 1'700'000'000'000;
      status.trainers = static_cast<std::uint32_t>(processes);
      status.usage.emplace();
      status.progress.emplace().updates = 1;
      status.reports = true;
      fake.node(i % nodes).processes.push_back(status);
    }
  }
  void round() {
    for (remote::FakeNode& node : fake.nodes) node.usage.unix_ms += 2'000;
    store.publish(watch.round({"j"}));
  }
  // Milliseconds of the clock and of all cores, for one of several rounds.
  void measure(const char* what, std::size_t new_lines) {
    constexpr int kRounds = 20;
    const double cpu = cpu_seconds();
    const TimePoint begin = clock_now();
    std::size_t bytes = 0;
    for (int i = 0; i < kRounds; ++i) {
      const std::uint64_t seen = store.since("", 0).version;
      lines += new_lines;
      round();
      for (const auto& [name, data] : store.since("j", seen).events) bytes += data.size();
    }
    const double ms = std::chrono::duration<double, std::milli>(clock_now() - begin).count();
    fmt::print("{}: {:.1f} ms, {:.1f} ms of cores, {} kB to a viewer\n", what, ms / kRounds,
               1e3 * (cpu_seconds() - cpu) / kRounds, bytes / kRounds / 1000);
  }

  FakeCluster fake;
  std::atomic<std::size_t> lines;
  ClusterWatch watch{fake.context, fake.cluster, "/nonexistent"};
  LiveStore store;
};

int run(std::size_t processes, std::size_t lines, std::size_t nodes) {
  Bench bench(processes, lines, nodes);
  fmt::print("{} processes on {} nodes, {} lines each; {:.0f} MB at first\n", processes, nodes,
             lines, resident_mb());
  const double cpu = cpu_seconds();
  const TimePoint begin = clock_now();
  bench.round();
  bench.watch.wait_for_connections();
  int rounds = 0;
  do {
    bench.round();
    ++rounds;
  } while (bench.watch.has_more());
  fmt::print("first reading: {:.1f} s in {} rounds, {:.1f} s of cores, {:.0f} MB\n",
             std::chrono::duration<double>(clock_now() - begin).count(), rounds,
             cpu_seconds() - cpu, resident_mb());
  bench.measure("refresh without new lines", 0);
  bench.measure("refresh with a new line of each process", 1);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  fmt::print("{:.0f} MB at the end, {:.0f} MB at most\n", resident_mb(),
             static_cast<double>(usage.ru_maxrss) / 1e3);
  return 0;
}

}  // namespace
}  // namespace paddle::cli

int main(int argc, char** argv) {
  const auto number = [&](int at, std::size_t otherwise) {
    return argc > at ? std::strtoul(argv[at], nullptr, 10) : otherwise;
  };
  return paddle::cli::run(number(1, 200), number(2, 10'000), number(3, 20));
}
