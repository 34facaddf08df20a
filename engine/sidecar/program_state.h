// The program's own state in snapshots, such as its dense parameters: bytes that only the program
// understands, in the file model/state.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"

namespace paddle::snapshot {
class SnapshotReader;
}  // namespace paddle::snapshot

namespace paddle::sidecar {

class ProgramState {
 public:
  // Adds bytes to the state of the next snapshot. `offset` is the number of bytes so far; 0 begins
  // again. kUsage: another offset. kResource: more than snapshot::kStateBytesMax, or than fits this
  // machine's memory.
  Status add(std::uint64_t offset, std::span<const char> bytes);
  // The bytes that were added; std::nullopt if there are none. Forgets them.
  std::optional<std::string> take();

  // Reads the state in a snapshot that training continues from.
  Status load(const snapshot::SnapshotReader& snapshot);
  // The size of that state; std::nullopt if there is none.
  std::optional<std::uint64_t> loaded_bytes() const;
  // Copies a part of that state; returns how many bytes, 0 at its end. kUsage: no state was loaded,
  // or it is not kept any more.
  Result<std::size_t> read(std::uint64_t offset, std::span<char> into) const;
  // Frees the memory of the loaded state.
  void forget_loaded() { loaded_.reset(); }

 private:
  std::optional<std::string> added_;
  std::optional<std::string> loaded_;
};

}  // namespace paddle::sidecar
