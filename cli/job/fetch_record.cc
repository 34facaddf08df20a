#include "cli/job/fetch_record.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "base/fd.h"
#include "cli/job/folders.h"
#include "remote/push/source.h"

namespace paddle::cli {
namespace {

constexpr std::uint32_t kPartBytes = 1U << 20U;
constexpr std::size_t kRecordBytesMax = 64U << 20U;

std::string record_path(const std::string& job) {
  return job_folder(job) + "/fetched";
}

}  // namespace

std::int64_t latest_start(const std::vector<ProcessOnNode>& processes, std::size_t member,
                          const std::string& job) {
  std::int64_t latest = 0;
  for (const ProcessOnNode& process : processes) {
    if (process.member == member && process.status.job == job)
      latest = std::max(latest, process.status.started_unix_ms);
  }
  return latest;
}

FetchRecord read_fetch_record(remote::AgentClient& client, const std::string& job,
                              std::int64_t started_unix_ms) {
  FetchRecord record{started_unix_ms, {}};
  std::string text;
  for (bool more = true; more;) {
    const auto part = client.read_log(record_path(job), text.size(), kPartBytes);
    if (!part || part->size > kRecordBytesMax) return record;
    text += part->data;
    more = !part->data.empty() && text.size() < part->size;
  }
  std::istringstream lines(text);
  std::int64_t started = 0;
  std::string line;
  std::getline(lines, line);
  if (!(std::istringstream(line) >> started) || started != started_unix_ms) return record;
  while (std::getline(lines, line)) {
    std::uint64_t size = 0;
    std::istringstream fields(line);
    if (!(fields >> size) || fields.get() != ' ') continue;
    std::string path;
    std::getline(fields, path);
    record.sizes[path] = size;
  }
  return record;
}

Status write_fetch_record(remote::AgentClient& client, const std::string& job,
                          const FetchRecord& record, const std::string& folder) {
  std::string text = fmt::format("{}\n", record.started_unix_ms);
  for (const auto& [path, size] : record.sizes) text += fmt::format("{} {}\n", size, path);
  const std::string here = fmt::format("{}/.fetched-{}", folder, client.node().name);
  PADDLE_TRY_STATUS(replace_file(here, as_bytes(text), 0644));
  remote::PushSource source;
  const auto pushed = client.push({{here, record_path(job)}}, source, nullptr);
  std::error_code ignored;
  std::filesystem::remove(here, ignored);
  return pushed ? Status() : pushed.error();
}

}  // namespace paddle::cli
