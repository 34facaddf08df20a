#include "cli/cluster/fetch_target.h"

#include <fmt/format.h>

#include "base/safe_path.h"

namespace paddle::cli {

Result<std::string> fetch_target(const std::filesystem::path& folder, const std::string& name,
                                 const std::string& hint) {
  if (auto safe = SafePath::parse(name); !safe) return std::move(safe).error();
  const std::filesystem::path target = folder / name;
  std::error_code error;
  std::filesystem::create_directories(target.parent_path(), error);
  if (error) {
    return Error{Errc::kResource,
                 fmt::format("create {}: {}", target.parent_path().string(), error.message()),
                 hint};
  }
  return target.string();
}

}  // namespace paddle::cli
