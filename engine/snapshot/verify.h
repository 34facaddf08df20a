// Verification of a whole snapshot, without a job.
#pragma once

#include <optional>
#include <string>

#include "engine/snapshot/file_system.h"
#include "engine/snapshot/info.h"

namespace paddle::snapshot {

struct Verdict {
  std::string directory;
  std::optional<Error> error;  // the first one found; all fields below are empty then
  std::string warning;         // about `done`, which only the loaders of v0.10 need; "": none
  std::string id;              // hexadecimal
  std::uint64_t passes = 0;
  std::uint64_t step = 0;
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

// Reads every byte of the snapshot and, if it is a delta, of its base.
Verdict verify(const std::string& directory, FileSystem& files = kernel_file_system());

// Verifies the snapshot `directory` or, if it has no MANIFEST of its own, every snapshot in it.
// kData: there is none.
Result<std::vector<Verdict>> verify_all(const std::string& directory);

}  // namespace paddle::snapshot
