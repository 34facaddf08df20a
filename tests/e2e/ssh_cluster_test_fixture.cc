#include "tests/e2e/ssh_cluster_test_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kPollPeriod = milliseconds(20);
constexpr int kShardLines = 300;
constexpr int kTestLines = 60;

// "1<TAB>good3 word1 good7": the words tell the label, so training must lower the cost.
std::string examples(int lines, int seed) {
  std::string text;
  for (int i = 0; i < lines; ++i) {
    const int n = i * 7 + seed;
    const char* const kind = i % 2 == 0 ? "good" : "bad";
    text += fmt::format("{}\t{}{} word{} {}{}\n", i % 2 == 0 ? 1 : 0, kind, n % 10, n % 13, kind,
                        (n / 3) % 10);
  }
  return text;
}

std::string dictionary() {
  std::string text;
  for (int i = 0; i < 13; ++i) text += fmt::format("word{}\n", i);
  for (int i = 0; i < 10; ++i) text += fmt::format("good{}\nbad{}\n", i, i);
  return text + "<unk>\n";
}

std::string link_of(const fs::path& path) {
  std::error_code gone;
  return fs::read_symlink(path, gone).string();
}

// "" for a process that ended meanwhile.
std::string describe_if_below(const fs::path& process, const std::string& folder) {
  std::string command = TemporaryFolder::read(process / "cmdline");
  std::ranges::replace(command, '\0', ' ');
  const bool below = link_of(process / "exe").starts_with(folder) ||
                     link_of(process / "cwd").starts_with(folder) ||
                     TemporaryFolder::read(process / "environ").find(folder) != std::string::npos;
  return below ? command : "";
}

int parent_of(int pid) {
  const std::string stat = TemporaryFolder::read(fmt::format("/proc/{}/stat", pid));
  const auto end_of_name = stat.rfind(") ");
  return end_of_name == stat.npos ? 0 : std::atoi(stat.c_str() + end_of_name + 4);
}

std::string list(const std::vector<NodeProcess>& processes) {
  std::string text;
  for (const NodeProcess& process : processes) {
    text += fmt::format("{} {}\n", process.pid, process.command);
  }
  return text;
}

}  // namespace

std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
  return count;
}

void SshClusterTest::SetUp() {
  if (const std::string why = Sshd::missing(); !why.empty()) GTEST_SKIP() << why;
  for (std::size_t i = 0; i < kNodes.size(); ++i) {
    auto sshd = start_sshd(i);
    ASSERT_TRUE(sshd) << sshd.error().message;
    sshds_[i] = *std::move(sshd);
  }
  // free_ports looks at 127.0.0.1 and keeps tests apart that run at the same time.
  for (int attempt = 0; attempt < 100 && port_ == 0; ++attempt) {
    const std::uint16_t first = free_ports(kBlock);
    bool all_free = first != 0;
    for (const char* const address : kAddresses) {
      for (std::uint16_t i = 0; i < kBlock; ++i) {
        all_free = all_free && listen_on(address, static_cast<std::uint16_t>(first + i));
      }
    }
    if (all_free) port_ = first;
  }
  ASSERT_NE(port_, 0) << "no free ports";
  write_cluster("", [&](std::size_t i) {
    return fmt::format("host = \"{}\"\nssh_port = {}\nidentity = \"{}\"\nknown_hosts = \"{}\"\n",
                       kAddresses[i], sshds_[i]->port(), sshds_[i]->identity(),
                       sshds_[i]->known_hosts());
  });
  write_job();
}

void SshClusterTest::TearDown() {
  for (std::unique_ptr<Sshd>& sshd : sshds_) sshd.reset();
  const bool none_left = wait_until([&] {
    const auto left = processes();
    for (const NodeProcess& process : left) ::kill(process.pid, SIGKILL);
    return left.empty();
  });
  EXPECT_TRUE(none_left) << list(processes());
}

void SshClusterTest::write_cluster(const std::string& head,
                                   const std::function<std::string(std::size_t)>& reach) const {
  std::string text = fmt::format(
      "name = \"lab\"\nport = {}\nports_num = 1\nports_num_for_sparse = 1\n{}", port_, head);
  for (std::size_t i = 0; i < kNodes.size(); ++i) {
    text += fmt::format("\n[[node]]\nname = \"{}\"\naddress = \"{}\"\nworkdir = \"{}\"\n{}",
                        kNodes[i], kAddresses[i], workdir(i), reach(i));
  }
  user_.write("cluster.toml", text);
}

void SshClusterTest::write_job() const {
  user_.write("job/job.toml", R"(name = "tiny"
seed = 1
[data]
train = "data/train.txt-*"
test = "data/test.txt"
format = "bow"
dictionary = "data/dictionary.txt"
[[layer]]
name = "score"
type = "embedding"
input = ["words"]
pooling = "sum"
size = 2
weight = { initial_std = 0.0, sparse = true }
[[layer]]
name = "class"
type = "fc"
input = ["score"]
size = 2
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["class"]
label = "label"
[optimizer]
method = "adam"
learning_rate = 0.05
[train]
passes = 2
batch_size = 20
log_period = 5
)");
  for (int i = 0; i < 3; ++i) {
    user_.write(fmt::format("job/data/train.txt-0000{}", i), examples(kShardLines, i));
  }
  user_.write("job/data/test.txt", examples(kTestLines, 5));
  user_.write("job/data/dictionary.txt", dictionary());
}

void SshClusterTest::slow_job_down() const {
  std::string job = TemporaryFolder::read(user_file("job/job.toml"));
  job.insert(job.find("format = "), "pipe_command = [\"sh\", \"-c\", \"sleep 1; cat\"]\n");
  write_user_file("job/job.toml", job);
}

Process SshClusterTest::begin(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"/usr/bin/env", "--chdir=" + user_.path(), PADDLECTL_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Process(std::move(command), user_file(fmt::format("printed-{}", commands_++)),
                 environment_);
}

Outcome SshClusterTest::run(const std::vector<std::string>& arguments) {
  Process process = begin(arguments);
  const auto code = process.wait(kDeadline);
  return {code.value_or(-1), process.output()};
}

std::string SshClusterTest::job_file(std::size_t node, const std::string& job,
                                     const std::string& name) const {
  return fmt::format("{}/lab/{}/jobs/{}/node_{}/{}", workdir(node), kNodes[node], job, node, name);
}

std::vector<NodeProcess> SshClusterTest::processes() const {
  std::vector<NodeProcess> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    if (!std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; })) continue;
    std::string command = describe_if_below(entry.path(), nodes_.path());
    if (!command.empty()) found.push_back({std::stoi(name), std::move(command)});
  }
  return found;
}

std::vector<NodeProcess> SshClusterTest::engines() const {
  std::vector<NodeProcess> found = processes();
  std::erase_if(found, [](const NodeProcess& process) {
    return process.command.find("/bin/paddle-") == std::string::npos;
  });
  // A child of a trainer looks like it until it executes the pipe_command.
  const std::vector<NodeProcess> all = found;
  std::erase_if(found, [&](const NodeProcess& process) {
    return std::ranges::count(all, parent_of(process.pid), &NodeProcess::pid) > 0;
  });
  return found;
}

void SshClusterTest::expect_no_process() const {
  EXPECT_TRUE(wait_until([&] { return processes().empty(); })) << list(processes());
}

void SshClusterTest::expect_no_engine() const {
  EXPECT_TRUE(wait_until([&] { return engines().empty(); })) << list(engines());
}

void SshClusterTest::expect_clean_nodes() const {
  expect_no_process();
  std::string files;
  for (const auto& entry : fs::recursive_directory_iterator(nodes_.path())) {
    files += entry.path().string() + "\n";
  }
  std::string printed;
  for (int i = 0; i < commands_; ++i)
    printed += TemporaryFolder::read(user_file(fmt::format("printed-{}", i)));
  EXPECT_EQ(files, "") << printed;
  for (const char* const address : kAddresses) {
    for (int i = 0; i < kBlock; ++i) {
      EXPECT_TRUE(listen_on(address, static_cast<std::uint16_t>(port_ + i))) << address;
    }
  }
}

bool SshClusterTest::wait_until(const std::function<bool()>& condition, milliseconds deadline) {
  const auto end = steady_clock::now() + deadline;
  while (!condition()) {
    if (steady_clock::now() > end) return false;
    std::this_thread::sleep_for(kPollPeriod);
  }
  return true;
}

UniqueFd SshClusterTest::listen_on(const char* address, std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  ::inet_pton(AF_INET, address, &where.sin_addr);
  const int reuse = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  const bool listens = ::bind(fd.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) == 0 &&
                       ::listen(fd.get(), 1) == 0;
  return listens ? std::move(fd) : UniqueFd();
}

}  // namespace paddle::test
