#include "tests/e2e/cli_local_test_cluster.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr auto kGoneDeadline = std::chrono::seconds(30);
constexpr auto kRunDeadline = std::chrono::seconds(100);
constexpr std::uint64_t kWords = 20;

// Letters only, as the prepare scripts keep them.
std::string word(std::uint64_t index) {
  return fmt::format("w{}{}", static_cast<char>('a' + index / 5),
                     static_cast<char>('a' + index % 5));
}

std::string link_of(int pid, const char* name) {
  std::error_code error;
  return fs::read_symlink(fmt::format("/proc/{}/{}", pid, name), error).string();
}

}  // namespace

LocalCluster::LocalCluster(int nodes)
    : first_port_(free_ports(static_cast<std::uint16_t>(4 * nodes))) {
  EXPECT_GT(first_port_, 0);
  folder_.write("cluster.toml",
                fmt::format("name = \"t\"\nworkdir = \"{}\"\nport = {}\n[[node]]\nname = \"n\"\n"
                            "launcher = \"local\"\ncount = {}\n",
                            folder_ / "nodes", first_port_, nodes));
}

LocalCluster::~LocalCluster() {
  if (fs::exists(folder_ / "nodes"))
    run({"teardown", "--cluster", "cluster.toml", "--yes", "--discard"});
  for (const int pid : processes()) ::kill(pid, SIGKILL);
}

Process LocalCluster::start(const std::vector<std::string>& arguments) {
  std::vector<std::string> all{"/usr/bin/env", "-C", folder_.path(), PADDLECTL_PROGRAM};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return {all, folder_ / fmt::format("run-{}.txt", runs_++)};
}

Outcome LocalCluster::run(const std::vector<std::string>& arguments) {
  Process process = start(arguments);
  const auto code = process.wait(kRunDeadline);
  return {code.value_or(-1), process.output()};
}

Outcome LocalCluster::run_in(const std::string& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"-C", folder, PADDLECTL_PROGRAM});
  arguments.insert(arguments.begin(), {"/usr/bin/env", "-C", folder_.path(), "/usr/bin/env"});
  Process process(arguments, folder_ / fmt::format("run-{}.txt", runs_++));
  const auto code = process.wait(kRunDeadline);
  return {code.value_or(-1), process.output()};
}

void LocalCluster::copy_template(const std::string& name) {
  const fs::path from = fs::path(TEMPLATES_FOLDER) / name;
  fs::create_directories(folder_ / name);
  for (const char* file : {"job.toml", "prepare"})
    fs::copy_file(from / file, fs::path(folder_ / name) / file);
}

Outcome LocalCluster::prepare(const std::string& name, const std::vector<std::string>& options,
                              const std::string& text) {
  std::vector<std::string> arguments{folder_ / (name + "/prepare")};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.push_back(folder_.write(name + ".txt", text));
  Process process(arguments, folder_ / fmt::format("run-{}.txt", runs_++));
  const auto code = process.wait(kRunDeadline);
  return {code.value_or(-1), process.output()};
}

std::vector<int> LocalCluster::processes() const {
  std::vector<int> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    int pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) continue;
    const bool ours = link_of(pid, "exe").starts_with(folder_.path() + "/") ||
                      (link_of(pid, "cwd") + "/").starts_with(folder_.path() + "/");
    if (ours) found.push_back(pid);
  }
  return found;
}

int LocalCluster::find_engine(const std::string& argument) const {
  for (const int pid : processes()) {
    const std::string command = TemporaryFolder::read(fmt::format("/proc/{}/cmdline", pid));
    if (command.find('\0' + argument + '\0') != std::string::npos) return pid;
  }
  return 0;
}

bool LocalCluster::all_gone() const {
  const auto end = std::chrono::steady_clock::now() + kGoneDeadline;
  while (!processes().empty()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

bool LocalCluster::nothing_left() const {
  return all_gone() && !fs::exists(folder_ / "nodes") && !fs::exists(folder_ / ".paddlectl");
}

std::string chained_sentences(int count) {
  Rng rng(1);
  std::string text;
  for (int i = 0; i < count; ++i) {
    std::uint64_t at = rng.below(kWords);
    for (int j = 0; j < 8; ++j) {
      text += word(at) + " ";
      at = rng.below(8) == 0 ? rng.below(kWords) : (at + 1) % kWords;
    }
    text += '\n';
  }
  return text;
}

std::string labelled_texts(int count) {
  Rng rng(2);
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t label = rng.below(2);
    text += fmt::format("{}\t", label);
    for (int j = 0; j < 4; ++j) {
      const std::uint64_t side = rng.below(10) == 0 ? 1 - label : label;
      text += word(side * kWords / 2 + rng.below(kWords / 2)) + " ";
    }
    text += '\n';
  }
  return text;
}

std::vector<double> held_out_costs(const std::string& output) {
  const std::string mark = "held-out cost ";
  std::vector<double> costs;
  for (auto at = output.find(mark); at != std::string::npos; at = output.find(mark, at + 1)) {
    costs.push_back(std::stod(output.substr(at + mark.size(), 20)));
  }
  return costs;
}

}  // namespace paddle::test
