#include "engine/sidecar/program_state.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/control_group.h"
#include "engine/snapshot/info.h"
#include "engine/snapshot/reader.h"

namespace paddle::sidecar {
namespace {

// The program has the same bytes once more.
std::uint64_t bytes_max() {
  return std::min<std::uint64_t>(snapshot::kStateBytesMax, usable_memory_bytes() / 4);
}

}  // namespace

Status ProgramState::add(std::uint64_t offset, std::span<const char> bytes) {
  if (offset == 0) added_.emplace();
  const std::uint64_t size = added_ ? added_->size() : 0;
  if (!added_ || offset != size) {
    return Error{Errc::kUsage, fmt::format("state: byte {} follows byte {}", offset, size),
                 "give the state from its first byte on, without gaps"};
  }
  if (bytes.size() > bytes_max() - std::min(size, bytes_max())) {
    added_.reset();
    return Error{Errc::kResource,
                 fmt::format("the program's state has more than {} bytes", bytes_max()),
                 "a snapshot keeps at most 4 GiB, and at most a quarter of this machine's memory; "
                 "save the rest in files of the program's own"};
  }
  added_->append(bytes.data(), bytes.size());
  return {};
}

std::optional<std::string> ProgramState::take() {
  return std::exchange(added_, std::nullopt);
}

Status ProgramState::load(const snapshot::SnapshotReader& snapshot) {
  PADDLE_TRY(loaded_, snapshot.read_model_file(snapshot::kStateFile));
  return {};
}

std::optional<std::uint64_t> ProgramState::loaded_bytes() const {
  return loaded_ ? std::optional<std::uint64_t>(loaded_->size()) : std::nullopt;
}

Result<std::size_t> ProgramState::read(std::uint64_t offset, std::span<char> into) const {
  if (!loaded_) {
    return Error{Errc::kUsage, "no state was loaded, or training has gone on since",
                 "read it before the first push; hello says how many bytes it has"};
  }
  if (offset > loaded_->size()) {
    return Error{Errc::kUsage,
                 fmt::format("state: byte {} is behind its end, byte {}", offset, loaded_->size())};
  }
  return loaded_->copy(into.data(), into.size(), offset);
}

}  // namespace paddle::sidecar
