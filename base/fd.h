// An owned file descriptor, whole reads and writes with deadlines, and the durable way to replace a
// file.
#pragma once

#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"

namespace paddle {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

// Whether a system call failed because something is used up or closed to writing: disk, quota,
// size of a file, memory, descriptors.
bool is_lack(int error);

// "open /x: No such file or directory": the error of a failed system call, with errno's text. Its
// code is kResource where is_lack(errno), whatever the caller was doing, so that a full disk is
// never taken for a damaged file or a lost peer. For what this user may not do there is a hint.
Error system_error(Errc code, const std::string& what);

// Raises the soft limit of open descriptors to the hard one: the usual 1024 is 200 nodes of
// paddlectl, or 500 trainers of a pserver.
void raise_descriptor_limit();

struct Pipe {
  UniqueFd read, write;
};
Result<Pipe> make_pipe();

Status set_nonblocking(int fd);

// Waits until fd is ready for `events` of poll(2). An error or hang-up counts as ready: the next
// call on the descriptor reports it. kUnreachable when the deadline passes.
Status wait_ready(int fd, short events, TimePoint deadline);

// Reads exactly into.size() bytes; end of file before that is kUnreachable "closed by peer".
Status read_exact(int fd, std::span<std::byte> into, TimePoint deadline);
// Writes everything; SIGPIPE must be ignored by the program.
Status write_all(int fd, ByteSpan data, TimePoint deadline);

// The same at an offset of a file, which stays at its position. False with errno set, or at the
// file's end.
bool read_at(int fd, std::span<std::byte> into, std::uint64_t offset);
bool write_at(int fd, ByteSpan data, std::uint64_t offset);

// A whole small file, of at most max_bytes. What may never end is refused: pipes, devices other
// than /dev/null.
Result<std::string> read_file(const std::string& path, std::size_t max_bytes = 64U << 20U);
// The same for a file that the user names, which may be a pipe: <(command), /dev/stdin.
Result<std::string> read_file_or_pipe(const std::string& path, std::size_t max_bytes);
// Temporary file in the same directory, fsync, rename, fsync of the directory: old or new, never
// half.
Status replace_file(const std::string& path, ByteSpan content, unsigned mode = 0600);

}  // namespace paddle
