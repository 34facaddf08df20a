#include "remote/agent/process/notices.h"

#include <limits.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "proto/supervision.pb.h"
#include "remote/agent/process/record.h"

namespace paddle::agent {
namespace {

// Parses one notice from the front of `pending` and removes it. kNone: it is not all there yet.
enum class Parsed { kNotice, kNone, kMalformed };

Parsed parse(std::string& pending, wire::Notice& notice) {
  std::uint32_t size = 0;
  if (pending.size() < sizeof size) return Parsed::kNone;
  std::memcpy(&size, pending.data(), sizeof size);
  if (size > PIPE_BUF) return Parsed::kMalformed;
  if (pending.size() < sizeof size + size) return Parsed::kNone;
  const bool is_valid = notice.ParseFromString(pending.substr(sizeof size, size));
  pending.erase(0, sizeof size + size);
  return is_valid ? Parsed::kNotice : Parsed::kMalformed;
}

}  // namespace

void Notices::open(UniqueFd pipe) {
  pipe_ = std::move(pipe);
  pending_.clear();
}

void Notices::take(const Root& root, const SafePath& folder) {
  char buffer[PIPE_BUF];
  while (pipe_) {
    const ssize_t got = ::read(pipe_.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) pipe_.reset();
    if (got <= 0) return;
    pending_.append(buffer, static_cast<std::size_t>(got));
    wire::Notice notice;
    Parsed parsed = Parsed::kNone;
    while ((parsed = parse(pending_, notice)) == Parsed::kNotice) {
      // A full disk loses the notice; the exit record still tells the end.
      [[maybe_unused]] const auto written = write_record(root, folder, "notice", notice);
    }
    if (parsed == Parsed::kMalformed) pipe_.reset();
  }
}

}  // namespace paddle::agent
