#include "engine/net/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "engine/net/socket.h"

namespace paddle::net {
namespace {

constexpr std::size_t kOfferBytes = 4 + 4 + kNonceBytes;  // process, descriptor, token
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

Error refused(const char* why) {
  return Error{Errc::kAuth, fmt::format("shared memory: {}", why)};
}

bool is_segment_of_ours(const struct stat& status) {
  return S_ISREG(status.st_mode) && status.st_uid == ::geteuid() &&
         status.st_size == static_cast<off_t>(sizeof(SharedLayout));
}

}  // namespace

SharedSegment::~SharedSegment() {
  if (layout_ != nullptr) ::munmap(layout_, sizeof(SharedLayout));
}

Status SharedSegment::map(int flags) {
  void* const at = ::mmap(nullptr, sizeof(SharedLayout), PROT_READ | PROT_WRITE, MAP_SHARED | flags,
                          fd_.get(), 0);
  if (at == MAP_FAILED) return system_error(Errc::kResource, "mmap");
  layout_ = static_cast<SharedLayout*>(at);
  return {};
}

Result<SharedSegment> SharedSegment::create() {
  SharedSegment segment;
  segment.fd_ = UniqueFd(::memfd_create("paddle-link", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!segment.fd_) return system_error(Errc::kResource, "memfd_create");
  if (::ftruncate(segment.fd_.get(), sizeof(SharedLayout)) != 0 ||
      ::fcntl(segment.fd_.get(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0) {
    return system_error(Errc::kResource, "memfd");
  }
  PADDLE_TRY_STATUS(segment.map(MAP_POPULATE));  // new pages are zeros: every counter and flag
  PADDLE_TRY(segment.layout_->token, random_nonce());
  return segment;
}

Bytes SharedSegment::offer() const {
  Bytes offer(8);
  store_le(offer.data(), static_cast<std::uint32_t>(::getpid()));
  store_le(offer.data() + 4, static_cast<std::uint32_t>(fd_.get()));
  append_bytes(offer, std::span<const std::byte>(layout_->token));
  return offer;
}

Result<SharedSegment> SharedSegment::open(ByteSpan offer) {
  if (offer.size() != kOfferBytes) return refused("malformed offer");
  const std::string path = fmt::format("/proc/{}/fd/{}", load_le<std::uint32_t>(offer.data()),
                                       load_le<std::uint32_t>(offer.data() + 4));
  // The peer may name any file, and opening one could block or have effects: check it first.
  const UniqueFd seen(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat status {};
  if (!seen || ::fstat(seen.get(), &status) != 0 || !is_segment_of_ours(status)) {
    return refused("not on this host, or not of this user");
  }
  const std::string again = fmt::format("/proc/self/fd/{}", seen.get());
  SharedSegment segment;
  segment.fd_ = UniqueFd(::open(again.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!segment.fd_) return refused("it cannot be opened");
  const int seals = ::fcntl(segment.fd_.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(segment.fd_.get(), &status) != 0 ||
      !is_segment_of_ours(status)) {
    return refused("its size is not fixed");
  }
  PADDLE_TRY_STATUS(segment.map(0));
  if (!std::ranges::equal(segment.layout_->token, offer.subspan(8))) {
    return refused("another token");
  }
  segment.close_file();
  return segment;
}

}  // namespace paddle::net
