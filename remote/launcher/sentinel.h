// Sentinel lines in a shell's output, found behind banners and other noise.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace paddle::remote {

// The longest noise (banners, motd) before a sentinel line.
constexpr std::size_t kNoiseBytesMax = 64U << 10U;

// Reads lines until one starts with `prefix`; returns the rest of it. kData after kNoiseBytesMax,
// kAuth when bootstrap's shell code refuses our folder.
Result<std::string> skip_to_line(int fd, const std::string& prefix, TimePoint deadline);

}  // namespace paddle::remote
