// paddlectl, paddlectl-agent and paddle as a user has them: three nodes, each behind its own sshd.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/process.h"
#include "tests/support/sshd.h"

namespace paddle::test {

// The result of a paddlectl command: its exit code (-1: it did not end) and its output.
struct Outcome {
  int code = -1;
  std::string output;
};

std::size_t count_of(const std::string& text, const std::string& word);

// A process that runs from, in or for a node's workdir.
struct NodeProcess {
  int pid = 0;
  std::string command;  // its arguments, with a space between them
};

class SshClusterTest : public ::testing::Test {
 protected:
  static constexpr std::array<const char*, 3> kNodes = {"alpha", "bravo", "charlie"};
  static constexpr std::array<const char*, 3> kAddresses = {"127.0.0.2", "127.0.0.3", "127.0.0.4"};
  static constexpr std::uint16_t kBlock = 2;  // ports of a pserver: one dense, one sparse
  // Limit of each wait; most end sooner.
  static constexpr std::chrono::seconds kDeadline{60};

  void SetUp() override;
  // Which sshd a node has.
  virtual Result<std::unique_ptr<Sshd>> start_sshd(std::size_t node) {
    return Sshd::start(kAddresses[node]);
  }
  void TearDown() override;  // ends by pid what a failed case left

  // Runs from the user's folder, where job.toml, cluster.toml, .paddlectl and output/ are.
  Process begin(const std::vector<std::string>& arguments);
  Outcome run(const std::vector<std::string>& arguments);

  std::string user_file(const std::string& name) const { return user_.path() + "/" + name; }
  std::string job_file(std::size_t node, const std::string& job, const std::string& name) const;
  std::string workdir(std::size_t node) const { return nodes_.path() + "/" + kNodes[node]; }
  std::uint16_t port() const { return port_; }
  Sshd& sshd(std::size_t node) { return *sshds_[node]; }
  void write_user_file(const std::string& name, const std::string& text) const {
    user_.write(name, text);
  }
  // cluster.toml with `head` before the nodes and, of each, its name, address and workdir and what
  // `reach` says.
  void write_cluster(const std::string& head,
                     const std::function<std::string(std::size_t)>& reach) const;
  // A pass of the job then takes at least a second, and hardly any work of this machine.
  void slow_job_down() const;

  std::vector<NodeProcess> processes() const;
  // Those of the engine: pservers and trainers.
  std::vector<NodeProcess> engines() const;
  // Asserts, after waiting, that no process of ours is on any node.
  void expect_no_process() const;
  void expect_no_engine() const;
  void expect_clean_nodes() const;  // no process, no file, no taken port

  static bool wait_until(const std::function<bool()>& condition,
                         std::chrono::milliseconds deadline = kDeadline);
  static UniqueFd listen_on(const char* address, std::uint16_t port);

  std::vector<std::string> environment_ = {"PATH=/usr/bin:/bin"};  // of paddlectl

 private:
  void write_job() const;

  TemporaryFolder nodes_;  // paddlectl's, with all that is below it
  TemporaryFolder user_;
  std::array<std::unique_ptr<Sshd>, 3> sshds_;
  std::uint16_t port_ = 0;
  int commands_ = 0;
};

}  // namespace paddle::test
