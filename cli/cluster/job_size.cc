#include "cli/cluster/job_size.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace paddle::cli {
namespace {

// The value of "--name=value" among the arguments; "" where there is none.
std::string_view argument(const remote::ProcessStatus& status, std::string_view name) {
  for (const std::string& one : status.arguments) {
    if (one.starts_with(name) && one.substr(name.size()).starts_with('='))
      return std::string_view(one).substr(name.size() + 1);
  }
  return "";
}

}  // namespace

JobSize size_of_job(const std::vector<ProcessOnNode>& processes) {
  JobSize size;
  std::size_t trainers = 0, pservers = 0;
  std::size_t trainers_told = 0, pservers_told = 0;  // a program of the user's own tells neither
  for (const auto& [member, status] : processes) {
    ++(status.name.starts_with("pserver-") ? pservers : trainers);
    const std::string_view told = argument(status, "--num_gradient_servers");
    std::size_t count = 0;
    std::from_chars(told.data(), told.data() + told.size(), count);
    trainers_told = std::max(trainers_told, count);
    const std::string_view ports = argument(status, "--pservers");
    if (!ports.empty())
      pservers_told = static_cast<std::size_t>(std::ranges::count(ports, ',')) + 1;
  }
  size.all_seen = trainers_told > 0 && pservers_told > 0 && trainers >= trainers_told &&
                  pservers >= pservers_told;
  size.trainers = std::max(trainers, trainers_told);
  size.pservers = std::max(pservers, pservers_told);
  return size;
}

}  // namespace paddle::cli
