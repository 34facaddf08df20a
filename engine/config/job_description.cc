#include "engine/config/job_description.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/config/job_config.h"
#include "engine/config/sections.h"

namespace paddle::config {
namespace {

// The name of the file at `path`, which is new or known already.
std::string name_of(const std::string& path, const std::string& stem, std::vector<JobFile>& files) {
  const auto known = std::ranges::find(files, path, &JobFile::path);
  if (known != files.end()) return known->name;
  std::string name = stem + ".txt";
  for (std::size_t i = 1; std::ranges::find(files, name, &JobFile::name) != files.end(); ++i)
    name = fmt::format("{}-{}.txt", stem, i);
  files.push_back({name, path});
  return name;
}

}  // namespace

Result<JobDescription> describe_job(const std::string& path,
                                    const std::vector<std::string>& overrides) {
  PADDLE_TRY(TomlTable root, open_job(path, overrides));
  JobDescription description;
  for_job_files(root, [&](TomlTable& table, const char* key) {
    const std::string file = in_folder(folder_of(path), table.string(key));
    table.replace(key, name_of(file, key, description.files));
  });
  description.text = root.resolved_text();
  auto read_back = TomlTable::parse(description.text, "the configuration as snapshots keep it");
  if (!read_back) return std::move(read_back).error().with(path);
  return description;
}

}  // namespace paddle::config
