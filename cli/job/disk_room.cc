#include "cli/job/disk_room.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

// No limit where the system does not tell.
std::uint64_t free_bytes_at(fs::path folder) {
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  const fs::space_info space = fs::space(folder, error);
  return error ? UINT64_MAX : space.available;
}

// Sizes are what a node says: their sum must not wrap around to a small one.
std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  return a + std::min(b, UINT64_MAX - a);
}

}  // namespace

DiskRoom::DiskRoom(const fs::path& folder, std::string shown)
    : shown_(std::move(shown)), free_(free_bytes_at(folder)) {}

Status DiskRoom::reserve(const std::string& node, const std::vector<remote::FetchItem>& files) {
  std::uint64_t bytes = 0;
  for (const remote::FetchItem& file : files) bytes = sum(bytes, file.size);
  const std::lock_guard lock(mutex_);
  const std::uint64_t left = free_ - reserved_;
  if (bytes <= left) {
    reserved_ += bytes;
    return {};
  }
  const remote::FetchItem& largest =
      *std::ranges::max_element(files, {}, [](const auto& file) { return file.size; });
  return Error{
      Errc::kResource,
      fmt::format("node {}: no room for its {}: {} has {} free{}, {} too little; the largest is "
                  "{} with {}",
                  node, human_bytes(bytes), shown_, human_bytes(left),
                  reserved_ > 0 ? " beside the files of other nodes" : "",
                  human_bytes(bytes - left),
                  largest.folder ? escape_control(largest.local_path) : largest.remote_path,
                  human_bytes(largest.size)),
      "free some space, choose another folder, or fetch less; if that size makes no sense, look at "
      "the node"};
}

}  // namespace paddle::cli
