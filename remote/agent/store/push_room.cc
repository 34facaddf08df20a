#include "remote/agent/store/push_room.h"

#include <sys/statvfs.h>

#include <algorithm>

#include "base/text.h"

namespace paddle::agent {
namespace {

constexpr std::uint64_t kBlockBytes = 4096;
constexpr std::uint64_t kReservePart = 5;
constexpr std::uint64_t kReserveBytesMax = 1'000'000'000;

}  // namespace

std::uint64_t free_bytes(const Root& root) {
  struct statvfs disk {};
  if (::fstatvfs(root.fd.get(), &disk) != 0 || disk.f_blocks == 0) return UINT64_MAX;
  return std::uint64_t{disk.f_bavail} * disk.f_frsize;
}

Status PushRoom::take(std::uint64_t file_bytes) {
  needed_ += (file_bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  const std::uint64_t reserve = std::min(needed_ / kReservePart, kReserveBytesMax);
  if (needed_ + reserve <= free_) return {};
  return Error{Errc::kResource,
               "no room for this push in " + folder_ + ": its files need at least " +
                   human_bytes(needed_) + " there, the job at least " + human_bytes(reserve) +
                   " more, and " + human_bytes(free_) + " are free; nothing was sent",
               "make room there, push less (.paddleignore), or set another `workdir` in the "
               "cluster file"};
}

}  // namespace paddle::agent
