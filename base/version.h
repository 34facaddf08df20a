// The version of all programs.
#pragma once

namespace paddle {

constexpr const char* kProgramVersion = "0.1.0";

}  // namespace paddle
