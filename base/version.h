// The one place the version is written.
#pragma once

namespace paddle {

constexpr const char* kProgramVersion = "0.1.0";

}  // namespace paddle
