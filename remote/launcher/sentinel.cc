#include "remote/launcher/sentinel.h"

#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "proto/frame_stream.h"

namespace paddle::remote {

Result<std::string> skip_to_line(int fd, const std::string& prefix, TimePoint deadline) {
  std::string line;
  std::string last;
  for (std::size_t noise = 0; noise < kNoiseBytesMax; ++noise) {
    std::byte byte{};
    auto got = read_exact(fd, std::span(&byte, 1), deadline);
    if (!got) {
      Error error = std::move(got).error();
      if (!last.empty()) error.message += "; it last said '" + escape_control(last) + "'";
      return error;
    }
    if (byte != std::byte{'\n'}) {
      line += static_cast<char>(byte);
      continue;
    }
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.starts_with(prefix)) return line.substr(prefix.size());
    if (line.starts_with("PADDLECTL-REFUSED ")) {
      return Error{Errc::kAuth, escape_control(line.substr(18)), "choose another workdir"};
    }
    last = std::exchange(line, {});
  }
  return Error{Errc::kData,
               fmt::format("no '{}' within {} bytes of output", prefix, kNoiseBytesMax),
               "does a start-up file of the shell print without end?"};
}

}  // namespace paddle::remote
