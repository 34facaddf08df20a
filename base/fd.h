// An owned file descriptor, complete reads and writes with deadlines, and durable replacement of a
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

// Whether this errno value means a lack: disk space, quota, file size, memory or descriptors are
// used up, or the file system is read-only.
bool is_lack(int error);

// "open /x: No such file or directory": the error of a failed system call, with errno's text. Its
// code is kResource where is_lack(errno), whatever the caller was doing, so that a full disk is
// never mistaken for a damaged file or a lost peer. For EACCES the error has a hint, unless `code`
// is kUnreachable.
Error system_error(Errc code, const std::string& what);

// Raises the soft limit of open descriptors to the hard one: the usual 1024 is 200 nodes of
// paddlectl, or 500 trainers of a pserver.
void raise_descriptor_limit();

struct Pipe {
  UniqueFd read, write;
};
Result<Pipe> make_pipe();

Status set_nonblocking(int fd);

// Whether a read would return at once. False for -1.
bool is_readable(int fd);

// Waits until fd is ready for `events` of poll(2). An error or hang-up counts as ready: the next
// call on the descriptor reports it. kUnreachable when the deadline passes.
Status wait_ready(int fd, short events, TimePoint deadline);

// Reads exactly into.size() bytes; end of file before that is kUnreachable "closed by peer".
Status read_exact(int fd, std::span<std::byte> into, TimePoint deadline);
// Writes everything; SIGPIPE must be ignored by the program.
Status write_all(int fd, ByteSpan data, TimePoint deadline);

// Read or write all bytes at an offset of a file, without moving the file position. Return false on
// an error, with errno set, or at the end of the file.
bool read_at(int fd, std::span<std::byte> into, std::uint64_t offset);
bool write_at(int fd, ByteSpan data, std::uint64_t offset);

// Reads a whole small file of at most max_bytes. Refuses (kData) pipes and devices other than
// /dev/null, which may never end.
Result<std::string> read_file(const std::string& path, std::size_t max_bytes = 64U << 20U);
// Reads a whole file that the user names; it may also be a pipe: <(command), /dev/stdin.
Result<std::string> read_file_or_pipe(const std::string& path, std::size_t max_bytes);
// Replaces a file atomically and durably: temporary file in the same directory, fsync, rename,
// fsync of the directory. After a crash the file has its old or its new content, never a part.
// Several processes may replace one file at a time; the last one wins.
Status replace_file(const std::string& path, ByteSpan content, unsigned mode = 0600);

}  // namespace paddle
