// Processes that are killed, and started again as their supervisors would.
#pragma once

#include <sys/mman.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/fd.h"
#include "tests/e2e/local_training_job.h"

namespace paddle::test {

// PADDLE_KILLS, or `otherwise`.
inline int kills_wanted(int otherwise) {
  const char* const text = std::getenv("PADDLE_KILLS");
  return text == nullptr ? otherwise : std::atoi(text);
}

// Lines about all trainers in the log of trainer 0, each once: an incarnation that is lost or goes
// back at the end of one may say it again.
inline std::set<std::string> totals_of(const std::string& log) {
  std::set<std::string> totals;
  std::istringstream text(log);
  for (std::string line; std::getline(text, line);) {
    if (line.find(" over all trainers: ") == std::string::npos) continue;
    totals.insert(line.substr(line.find("Pass=")));
  }
  return totals;
}

// The incarnations of one process.
class Supervised {
 public:
  explicit Supervised(std::function<Process(int incarnation)> start_incarnation)
      : start_incarnation_(std::move(start_incarnation)) {
    start();
  }
  void kill_and_start() {
    process_->signal(SIGKILL);
    process_->wait();
    start();
  }
  void start() {
    process_.reset();
    process_.emplace(start_incarnation_(++incarnation_));
  }
  std::optional<int> wait(std::chrono::seconds limit) { return process_->wait(limit); }
  bool has_ended() const {
    return process_->pid() <= 0 || ::kill(process_->pid(), 0) != 0 || is_zombie();
  }
  int incarnation() const { return incarnation_; }
  const Process& process() const { return *process_; }

 private:
  bool is_zombie() const {
    const std::string status = TemporaryFolder::read(fmt::format("/proc/{}/stat", process_->pid()));
    return status.find(") Z ") != std::string::npos;
  }

  std::function<Process(int)> start_incarnation_;
  int incarnation_ = 0;
  std::optional<Process> process_;
};

inline std::unique_ptr<Supervised> supervised_trainer(Job& job, const std::string& name,
                                                      const Shape& shape, int id, int port,
                                                      const std::vector<std::string>& flags,
                                                      std::vector<std::string> environment = {}) {
  environment.emplace_back("PATH=/usr/bin:/bin");
  const auto memory = std::make_shared<UniqueFd>(::memfd_create("paddlectl-trainer", 0));
  return std::make_unique<Supervised>([=, &job](int incarnation) {
    std::vector<std::string> all = flags;
    all.push_back(fmt::format("--incarnation={}", incarnation));
    all.push_back(fmt::format("--resume={}", incarnation > 1));
    std::vector<std::string> variables = environment;
    variables.push_back(fmt::format("PADDLECTL_MEMORY_FD={}", memory->get()));
    return job.start_trainer(name, shape, id, port, all, variables);
  });
}

// Its savepoints are in <folder>/<name>-savepoints.
inline std::unique_ptr<Supervised> supervised_pserver(Job& job, const std::string& name,
                                                      const Shape& shape, int id, int port) {
  return std::make_unique<Supervised>([=, &job](int incarnation) {
    return job.start_pserver(
        name, shape, id, port,
        {"--lost_trainer_ends_job", "--lost_trainer_grace=100",
         fmt::format("--incarnation={}", incarnation),
         fmt::format("--savepoints={}",
                     job.folder() / fmt::format("{}-savepoints/pserver-{}", name, id))});
  });
}

}  // namespace paddle::test
