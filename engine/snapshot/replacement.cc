#include "engine/snapshot/replacement.h"

#include <fmt/format.h>

namespace paddle::snapshot {
namespace {

// Suffix of the earlier snapshot, if names cannot be exchanged, until the new one is durable.
constexpr std::string_view kReplaced = ".replaced";

// Gives `temporary` the name `directory`; an earlier snapshot gets the name `replaced`.
Status rename_in_turn(FileSystem& files, const std::string& temporary, const std::string& directory,
                      const std::string& replaced) {
  if (files.exists(directory)) PADDLE_TRY_STATUS(files.rename(directory, replaced));
  return files.rename(temporary, directory);
}

}  // namespace

// INVARIANT: a crash leaves the old snapshot or the new one. The new one is durable before it gets
// the name, and the old one is removed after the new name is durable.
Status publish(FileSystem& files, const std::string& directory) {
  const std::string temporary = directory + std::string(kUnfinished);
  const std::string replaced = directory + std::string(kReplaced);
  if (!files.exchange(temporary, directory)) {
    if (Status renamed = rename_in_turn(files, temporary, directory, replaced); !renamed) {
      static_cast<void>(files.remove_all(temporary));
      return renamed;
    }
  }
  // Until this succeeds, a crash may restore the earlier snapshot, so that one is not touched.
  PADDLE_TRY_STATUS(files.sync_directory(parent_of(directory)));
  if (files.exists(replaced)) static_cast<void>(files.rename(replaced, temporary));
  static_cast<void>(files.remove_all(temporary));
  return {};
}

Status clear_leftovers(FileSystem& files, const std::string& directory) {
  const std::string temporary = directory + std::string(kUnfinished);
  const std::string replaced = directory + std::string(kReplaced);
  if (!files.exists(temporary) && !files.exists(replaced)) return {};
  if (files.exists(replaced) && !files.exists(directory)) {
    PADDLE_TRY_STATUS(files.rename(replaced, directory));
  }
  // The process may have been killed before the names were durable.
  PADDLE_TRY_STATUS(files.sync_directory(parent_of(directory)));
  PADDLE_TRY_STATUS(files.remove_all(replaced));
  return files.remove_all(temporary);
}

Status clear_replaced(FileSystem& files, const std::string& folder) {
  PADDLE_TRY(const auto names, files.list(folder));
  for (const std::string& name : names) {
    if (!name.ends_with(kReplaced)) continue;
    const std::string replacing = name.substr(0, name.size() - kReplaced.size());
    PADDLE_TRY_STATUS(clear_leftovers(files, fmt::format("{}/{}", folder, replacing)));
  }
  return {};
}

}  // namespace paddle::snapshot
