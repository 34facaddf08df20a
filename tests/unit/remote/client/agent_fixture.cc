#include "tests/unit/remote/client/agent_fixture.h"

#include <poll.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace paddle::remote {
namespace {

constexpr Duration kPatience = std::chrono::seconds(30);
constexpr int kPauseMs = 20;  // between two questions to the agent

TimePoint patience() {
  return TimePoint(std::chrono::steady_clock::now()) + kPatience;
}

bool out_of_patience(TimePoint end) {
  ::poll(nullptr, 0, kPauseMs);
  return TimePoint(std::chrono::steady_clock::now()) >= end;
}

}  // namespace

std::string write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

std::string file_content(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

Result<PushStats> push(AgentClient& agent, const std::vector<PushItem>& items,
                       const PushProgress& progress) {
  PushSource source;
  return agent.push(items, source, progress);
}

Status fetch_file(AgentClient& agent, const std::string& path, const std::string& local) {
  const std::size_t slash = path.rfind('/');
  PADDLE_TRY(const auto files, agent.list_own_files(path.substr(0, slash)));
  for (const FileEntry& file : files) {
    if (file.path == path.substr(slash + 1))
      return agent.fetch({{path, local, file.size, file.sha256}});
  }
  return Error{Errc::kData, path + " is not listed", ""};
}

std::vector<int> processes_using(const std::string& path) {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const int pid = std::atoi(entry.path().filename().c_str());
    const std::string stat = pid > 0 ? file_content(entry.path() / "stat") : "";
    const auto end = stat.rfind(')');
    if (end == std::string::npos || stat[end + 2] == 'Z') continue;
    std::error_code error;
    std::string uses = file_content(entry.path() / "environ");
    for (const char* link : {"exe", "cwd"}) {
      uses += '\0' + std::filesystem::read_symlink(entry.path() / link, error).string();
    }
    if (uses.find(path) != std::string::npos) found.push_back(pid);
  }
  return found;
}

Status claim_to_start(AgentClient& agent, const std::string& job, bool again) {
  const JobCommand command = again ? JobCommand::kResume : JobCommand::kTrain;
  PADDLE_TRY(const auto others, agent.claim_job({.job = job,
                                                 .claim = {command, "alice@laptop, pid 12"},
                                                 .fresh = !again,
                                                 .idle = again}));
  if (others.empty()) return {};
  return Error{Errc::kUsage, "claimed by " + others.front().who, ""};
}

AgentTest::AgentTest() {
  ::signal(SIGPIPE, SIG_IGN);
  folder_ = (std::filesystem::temp_directory_path() / "paddle-agent-XXXXXX").string();
  EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
  node_.name = "here";
  node_.launcher = "local";
  node_.root = folder_ + "/nodes/cluster/here";
  options_.agent_binary = AGENT_BINARY;
}

AgentTest::~AgentTest() {
  node_.timeout = {};  // a test's own may be too short for a machine that has much to do
  if (auto agent = connect(node_, options_)) {
    const auto report = (*agent)->teardown(false);
    EXPECT_TRUE(report && report->remaining().empty());
  }
  EXPECT_EQ(processes_using(folder_), std::vector<int>{});
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/nodes"));
  std::filesystem::remove_all(folder_);
}

std::unique_ptr<AgentClient> AgentTest::connect_agent() {
  auto agent = connect(node_, options_);
  if (agent) return std::move(*agent);
  ADD_FAILURE() << agent.error().message;
  std::abort();
}

void AgentTest::push_script(AgentClient& agent, const std::string& name, const std::string& body) {
  const std::string local = write_file(folder_ + "/script", "#!/bin/sh\n" + body + "\n");
  const auto pushed = push(agent, {{local, "bin/" + name, true}});
  ASSERT_TRUE(pushed) << pushed.error().message;
}

ProcessSpec AgentTest::script(const std::string& name, const std::string& process) {
  ProcessSpec spec;
  spec.job = "job-1";
  spec.name = process;
  spec.program = "bin/" + name;
  spec.directory = "jobs/job-1/work";
  spec.log = "jobs/job-1/output/" + process + ".log";
  return spec;
}

ProcessStatus AgentTest::wait_end(AgentClient& agent, const std::string& job,
                                  const std::string& name) {
  for (const TimePoint end = patience();;) {
    const auto statuses = agent.processes(job);
    EXPECT_TRUE(statuses) << statuses.error().message;
    if (!statuses) return {};
    for (const ProcessStatus& status : *statuses) {
      if (status.name == name && status.state != ProcessState::kRunning) return status;
    }
    if (!out_of_patience(end)) continue;
    ADD_FAILURE() << name << " does not end";
    return {};
  }
}

std::string AgentTest::wait_log(AgentClient& agent, const std::string& path,
                                const std::string& text) {
  std::string log;
  std::uint64_t offset = 0;
  for (const TimePoint end = patience(); log.find(text) == std::string::npos;) {
    if (const auto chunk = agent.read_file(path, offset, 1U << 20U)) {
      log += chunk->data;
      offset = chunk->next_offset;
    }
    if (!out_of_patience(end)) continue;
    ADD_FAILURE() << "no '" << text << "' in '" << log << "'";
    return log;
  }
  return log;
}

}  // namespace paddle::remote
