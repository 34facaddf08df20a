// The real agent over the local launcher, in a folder of the test's own; after each test nothing
// may be left.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "proto/agent.pb.h"
#include "remote/client/agent_client.h"
#include "remote/client/push_source.h"

namespace paddle::remote {

std::string write_file(const std::string& path, const std::string& content);
std::string file_content(const std::string& path);
// Pushes as one command does: what the files are is found out anew.
Result<PushStats> push(AgentClient& agent, const std::vector<PushItem>& items,
                       const PushProgress& progress = nullptr);
// Fetches one file as a listing of its folder tells it.
Status fetch_file(AgentClient& agent, const std::string& path, const std::string& local);
// Claims a job as `train` does, or `again` as `train --resume`; kUsage when another one has it.
Status claim_to_start(AgentClient& agent, const std::string& job, bool again = false);
// Pids of processes whose program, working folder or environment mentions `path`.
std::vector<int> processes_using(const std::string& path);

class AgentTest : public ::testing::Test {
 protected:
  AgentTest();
  ~AgentTest() override;

  std::unique_ptr<AgentClient> connect_agent();
  // A shell script pushed below root as bin/`name`.
  void push_script(AgentClient& agent, const std::string& name, const std::string& body);
  ProcessSpec script(const std::string& name, const std::string& process);
  // Asks the agent until the process has ended; fails the test after a generous deadline.
  ProcessStatus wait_end(AgentClient& agent, const std::string& job, const std::string& name);
  // Reads the log until it contains `text`.
  std::string wait_log(AgentClient& agent, const std::string& path, const std::string& text);

  std::string folder_;
  NodeSpec node_;
  ConnectOptions options_;
};

}  // namespace paddle::remote
