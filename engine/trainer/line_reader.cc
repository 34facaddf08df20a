#include "engine/trainer/line_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

namespace paddle::trainer {
namespace {

constexpr std::size_t kReadBytes = 256U << 10U;

}  // namespace

std::string LineReader::place() const {
  return fmt::format("{}:{}", file_ < files_.size() ? files_[file_] : "", line_);
}

// Appends what the file gives next to the buffer.
Status LineReader::fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t held = buffer_.size();
  if (held > kLineBytesMax) {
    return Error{
        Errc::kData,
        fmt::format("{}:{}: a line of more than {} bytes", files_[file_], line_ + 1, kLineBytesMax),
        ""};
  }
  buffer_.resize(held + kReadBytes);
  ssize_t count = 0;
  do {
    count = ::read(fd_.get(), buffer_.data() + held, kReadBytes);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return system_error(Errc::kData, "read " + files_[file_]);
  buffer_.resize(held + static_cast<std::size_t>(count));
  at_end_ = count == 0;
  return {};
}

Result<std::optional<std::string_view>> LineReader::next() {
  while (file_ < files_.size()) {
    if (!fd_) {
      fd_ = UniqueFd(::open(files_[file_].c_str(), O_RDONLY | O_CLOEXEC));
      if (!fd_) return system_error(Errc::kData, "open " + files_[file_]);
      at_end_ = false;
      line_ = 0;
    }
    std::size_t searched = begin_;
    std::size_t end = 0;
    while ((end = buffer_.find('\n', searched)) == std::string::npos && !at_end_) {
      searched = buffer_.size() - begin_;
      PADDLE_TRY_STATUS(fill());
    }
    if (end == std::string::npos && begin_ == buffer_.size()) {
      fd_.reset();
      ++file_;
      continue;
    }
    std::string_view line = std::string_view(buffer_).substr(begin_);
    if (end != std::string::npos) line = line.substr(0, end - begin_);
    begin_ += line.size() + (end == std::string::npos ? 0 : 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++line_;
    return std::optional<std::string_view>(line);
  }
  return std::optional<std::string_view>();
}

}  // namespace paddle::trainer
