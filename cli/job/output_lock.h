// One paddlectl at a time in a job's output folder. Others wait, and then find what the first one
// brought.
#pragma once

#include <filesystem>

#include "base/fd.h"
#include "base/result.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

// Until the end of this object, or of the program, no other program has the folder. It ends with a
// program that is killed: the kernel keeps it, and the file that is left counts for nothing.
class OutputLock {
 public:
  // Says whom it waits for. kInterrupted after Ctrl-C. Where nothing can be locked, as on a file
  // system that is read-only or knows no locks, the folder is nobody's, and that is no error:
  // files appear under names of their own first.
  static Result<OutputLock> take(Context& context, const std::filesystem::path& folder);

  OutputLock(OutputLock&&) = default;
  OutputLock& operator=(OutputLock&&) = delete;
  ~OutputLock();

  bool is_held() const { return static_cast<bool>(file_); }

 private:
  OutputLock(std::filesystem::path path, UniqueFd file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::filesystem::path path_;
  UniqueFd file_;
};

}  // namespace paddle::cli
