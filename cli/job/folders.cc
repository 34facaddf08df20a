#include "cli/job/folders.h"

#include <algorithm>

#include <fmt/format.h>

namespace paddle::cli {
namespace {

constexpr std::size_t kJobNameBytesMax = 100;

}  // namespace

std::string job_folder(const std::string& job) {
  return "jobs/" + job;
}

std::string workspace_folder(const std::string& job) {
  return job_folder(job) + "/workspace";
}

std::string output_folder(const std::string& job) {
  return job_folder(job) + "/output";
}

std::string node_folder(const std::string& job, std::size_t node) {
  return fmt::format("jobs/{}/node_{}", job, node);
}

Status check_job_name(const std::string& job) {
  const bool good = !job.empty() && job.size() <= kJobNameBytesMax && job.front() != '.' &&
                    job.front() != '-' && std::ranges::all_of(job, [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
                    });
  if (good) return {};
  return Error{
      Errc::kUsage, fmt::format("'{}' cannot be a job's name", job),
      fmt::format("use up to {} letters, digits, '.', '-' and '_', beginning with a letter or "
                  "digit",
                  kJobNameBytesMax)};
}

}  // namespace paddle::cli
