#include "engine/net/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "engine/net/socket.h"

namespace paddle::net {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

Error refused(const char* why) {
  return Error{Errc::kAuth, fmt::format("shared memory: {}", why)};
}

// The error of a failed open() or fstat(), by errno.
Error not_opened() {
  const bool has_gone = errno == ENOENT || errno == ESRCH;
  const bool is_short = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
  const Errc code = has_gone ? Errc::kUnreachable : is_short ? Errc::kResource : Errc::kAuth;
  return system_error(code, "shared memory");
}

// Retries, because signals interrupt fallocate() on older kernels.
bool allocate_pages(const UniqueFd& fd, std::size_t bytes) {
  constexpr int kTries = 16;
  for (int i = 0; i < kTries; ++i) {
    if (::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) == 0) return true;
    if (errno != EINTR) return false;
  }
  return false;
}

// Growth beyond this limit would end the process with a signal.
bool is_over_file_limit(std::size_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur;
}

bool is_ours(const struct stat& status) {
  return S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
}

}  // namespace

Result<UniqueFd> create_shared_file(const char* name, std::size_t bytes) {
  if (is_over_file_limit(bytes)) {
    return Error{Errc::kResource, "shared memory is over the limit of file sizes (ulimit -f)"};
  }
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return system_error(Errc::kResource, "memfd_create");
  if (!allocate_pages(fd, bytes) || ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return system_error(Errc::kResource, "memfd");
  }
  return fd;
}

Status seal_file(const UniqueFd& file, bool is_mine) {
  constexpr int kFutureWrite = 0x0010;  // F_SEAL_FUTURE_WRITE of Linux 5.1
  if (is_mine) (void)::fcntl(file.get(), F_ADD_SEALS, kFutureWrite);
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SEAL) == 0) return {};
  return system_error(Errc::kResource, "memfd");
}

Bytes offer_of(const UniqueFd& file) {
  Bytes offer(kFileOfferBytes);
  store_le(offer.data(), static_cast<std::uint32_t>(::getpid()));
  store_le(offer.data() + 4, static_cast<std::uint32_t>(file.get()));
  return offer;
}

Result<SharedFile> open_shared_file(ByteSpan offer, int flags) {
  if (offer.size() != kFileOfferBytes) return refused("malformed offer");
  const std::string path = fmt::format("/proc/{}/fd/{}", load_le<std::uint32_t>(offer.data()),
                                       load_le<std::uint32_t>(offer.data() + 4));
  // The peer may name any file, and opening it could block or have side effects: checks it first
  // through O_PATH.
  const UniqueFd seen(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat status {};
  if (!seen || ::fstat(seen.get(), &status) != 0) return not_opened();
  if (!is_ours(status)) return refused("not a file of this user");
  const std::string again = fmt::format("/proc/self/fd/{}", seen.get());
  SharedFile file{.fd = UniqueFd(::open(again.c_str(), flags | O_CLOEXEC | O_NONBLOCK))};
  if (!file.fd) return not_opened();
  const int seals = ::fcntl(file.fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return refused("its size is not fixed");
  if (::fstat(file.fd.get(), &status) != 0) return not_opened();
  file.bytes = static_cast<std::size_t>(status.st_size);
  return file;
}

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
  PADDLE_TRY(segment.fd_, create_shared_file("paddle-link", sizeof(SharedLayout)));
  PADDLE_TRY_STATUS(seal_file(segment.fd_, false));
  PADDLE_TRY_STATUS(segment.map(MAP_POPULATE));  // new pages are zeros: every counter and flag
  PADDLE_TRY(segment.layout_->token, random_nonce());
  return segment;
}

Bytes SharedSegment::offer() const {
  Bytes offer = offer_of(fd_);
  append_bytes(offer, std::span<const std::byte>(layout_->token));
  return offer;
}

Result<SharedSegment> SharedSegment::open(ByteSpan offer) {
  const Error refused{Errc::kAuth, "shared memory: not the segment that is offered"};
  if (offer.size() != kFileOfferBytes + kNonceBytes) return refused;
  PADDLE_TRY(SharedFile file, open_shared_file(offer.first(kFileOfferBytes), O_RDWR));
  if (file.bytes != sizeof(SharedLayout)) return refused;
  SharedSegment segment;
  segment.fd_ = std::move(file.fd);
  PADDLE_TRY_STATUS(segment.map(0));
  if (!std::ranges::equal(segment.layout_->token, offer.subspan(kFileOfferBytes))) return refused;
  segment.close_file();
  return segment;
}

}  // namespace paddle::net
