#include "engine/sidecar/exchange.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "base/log.h"

namespace paddle::sidecar {
namespace {

constexpr std::size_t kTextBytesMax = 16U << 10U;  // of a message, and of a hint

struct Header {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint16_t zero = 0;
  std::uint32_t request = 0;
  std::uint32_t bytes = 0;
};
static_assert(sizeof(Header) == 16);

// Reads until `into` is full. Returns the bytes read: fewer at the end of the stream.
Result<std::size_t> read_all(int fd, std::span<std::byte> into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = ::read(fd, into.data() + done, into.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == ECONNRESET) break;
    if (got < 0) return system_error(Errc::kData, "read from the channel");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

bool write_whole(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

Error broken(std::string what) {
  return Error{Errc::kData, "channel: " + std::move(what),
               "the program and the engine must be of one release"};
}

Error ended_within(std::size_t got, std::size_t wanted) {
  return Error{Errc::kData,
               fmt::format("channel: it ended {} bytes into {} of a request", got, wanted)};
}

std::string_view kind_of(Errc code) {
  switch (code) {
    case Errc::kUsage:
      return "usage";
    case Errc::kVersion:
      return "version";
    case Errc::kUnreachable:
      return "unreachable";
    case Errc::kAuth:
      return "auth";
    case Errc::kData:
      return "data";
    case Errc::kResource:
      return "resource";
    case Errc::kResumable:
      return "resumable";
    case Errc::kInterrupted:
      return "interrupted";
    case Errc::kFailed:
      break;
  }
  return "failed";
}

}  // namespace

Result<Channel> Channel::open(UniqueFd socket) {
  int type = 0;
  socklen_t size = sizeof type;
  if (!socket || ::getsockopt(socket.get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
      type != SOCK_STREAM) {
    return Error{Errc::kUsage, fmt::format("--channel_fd={} is no stream socket", socket.get()),
                 "it is one end of socketpair(AF_UNIX, SOCK_STREAM), which the program hands over"};
  }
  ::fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
  return Channel(std::move(socket));
}

Result<std::optional<Request>> Channel::read() {
  Header header;
  PADDLE_TRY(const std::size_t got,
             read_all(socket_.get(), std::as_writable_bytes(std::span(&header, 1))));
  if (got == 0) return std::optional<Request>();
  if (got < sizeof header) return ended_within(got, sizeof header);
  if (header.magic != kMagic || header.zero != 0) {
    return broken(fmt::format("the header of a request is broken (magic {:#x})", header.magic));
  }
  if (header.version != kVersion) {
    return broken(fmt::format("version {} of the frames, here {}", header.version, kVersion));
  }
  if (header.request != last_ + 1) {
    return broken(fmt::format("request {} follows request {}", header.request, last_));
  }
  if (header.bytes > kRequestBytesMax) {
    return broken(fmt::format("request {} has {} bytes, more than {}", header.request, header.bytes,
                              kRequestBytesMax));
  }
  last_ = header.request;
  Request request{header.request, std::string(header.bytes, '\0')};
  PADDLE_TRY(const std::size_t body,
             read_all(socket_.get(), std::as_writable_bytes(std::span(request.text))));
  if (body < request.text.size()) return ended_within(body, request.text.size());
  return std::optional(std::move(request));
}

void Channel::write(std::uint32_t request, const JsonObject& object) {
  std::string body = object.text();
  if (body.size() > kAnswerBytesMax) {
    body = answer_of({Errc::kResource, fmt::format("the answer has {} bytes, more than {}",
                                                   body.size(), kAnswerBytesMax)})
               .text();
  }
  const Header header{.request = request, .bytes = static_cast<std::uint32_t>(body.size())};
  std::string frame(sizeof header, '\0');
  std::memcpy(frame.data(), &header, sizeof header);
  frame += body;
  const std::scoped_lock lock(*writing_);
  // A program that has closed its end reads no answer.
  (void)write_whole(socket_.get(), frame);
}

void Channel::close() const {
  ::shutdown(socket_.get(), SHUT_RDWR);
}

JsonObject answer_of(const Error& error) {
  return JsonObject()
      .add("ok", false)
      .add("code", static_cast<int>(error.code))
      .add("kind", kind_of(error.code))
      .add("message", std::string_view(error.message).substr(0, kTextBytesMax))
      .add("hint", std::string_view(error.hint).substr(0, kTextBytesMax));
}

Result<SharedMemory> SharedMemory::open(UniqueFd file) {
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != ::geteuid()) {
    return Error{Errc::kUsage, fmt::format("--memory_fd={} is no file of this user", file.get()),
                 "it is a memfd_create() that the program hands over"};
  }
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return Error{Errc::kUsage, "the memory of --memory_fd may still shrink or grow",
                 "seal it with F_SEAL_SHRINK | F_SEAL_GROW"};
  }
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes < kAlignment || bytes > kMemoryBytesMax) {
    return Error{Errc::kUsage, fmt::format("the memory of --memory_fd has {} bytes, not {} to {}",
                                           bytes, kAlignment, kMemoryBytesMax)};
  }
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return system_error(Errc::kResource, "map the program's memory");
  return SharedMemory(std::span(static_cast<std::byte*>(mapped), bytes));
}

SharedMemory::~SharedMemory() {
  if (!all_.empty()) ::munmap(all_.data(), all_.size());
}

Result<std::span<std::byte>> SharedMemory::bytes_of_range(const Range& range, std::size_t element,
                                                          const std::string& what) {
  const bool is_inside =
      range.offset <= all_.size() && range.count <= (all_.size() - range.offset) / element;
  if (!is_inside) {
    return Error{Errc::kUsage,
                 fmt::format("{}: {} values of {} bytes from byte {} are not in the memory of {} "
                             "bytes",
                             what, range.count, element, range.offset, all_.size()),
                 "give the memory more bytes, or the request fewer ids"};
  }
  if (range.offset % kAlignment != 0) {
    return Error{Errc::kUsage, fmt::format("{}: byte {} of the memory is no multiple of {}", what,
                                           range.offset, kAlignment)};
  }
  return all_.subspan(range.offset, range.count * element);
}

}  // namespace paddle::sidecar
