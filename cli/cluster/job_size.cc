#include "cli/cluster/job_size.h"

#include <algorithm>

namespace paddle::cli {
JobSize size_of_job(const std::vector<ProcessOnNode>& processes) {
  JobSize size;
  std::size_t trainers = 0, pservers = 0;
  std::size_t trainers_told = 0, pservers_told = 0;
  for (const auto& [member, status] : processes) {
    ++(status.name.starts_with("pserver-") ? pservers : trainers);
    trainers_told = std::max<std::size_t>(trainers_told, status.trainers);
    pservers_told = std::max<std::size_t>(pservers_told, status.pservers);
  }
  size.all_seen = trainers_told > 0 && trainers >= trainers_told && pservers >= pservers_told;
  size.trainers = std::max(trainers, trainers_told);
  size.pservers = std::max(pservers, pservers_told);
  return size;
}

}  // namespace paddle::cli
