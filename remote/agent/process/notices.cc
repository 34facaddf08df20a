#include "remote/agent/process/notices.h"

#include <limits.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "proto/supervision.pb.h"
#include "remote/agent/process/record.h"

namespace paddle::agent {
namespace {

// More than a pipe holds; bounds the time spent on a process that sends for ever.
constexpr int kReadsMax = 32;

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
  std::optional<wire::Notice> latest;
  char buffer[PIPE_BUF];
  for (int reads = 0; pipe_ && reads < kReadsMax; ++reads) {
    const ssize_t got = ::read(pipe_.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) pipe_.reset();
    if (got <= 0) break;
    pending_.append(buffer, static_cast<std::size_t>(got));
    wire::Notice notice;
    Parsed parsed = Parsed::kNone;
    while ((parsed = parse(pending_, notice)) == Parsed::kNotice) latest = notice;
    if (parsed == Parsed::kMalformed) pipe_.reset();
  }
  // A full disk loses the notice; the exit record still tells the end.
  if (latest) (void)write_record(root, folder, "notice", *latest);
}

}  // namespace paddle::agent
