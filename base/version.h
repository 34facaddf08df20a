// The version of all programs, and the libraries of this one.
#pragma once

namespace paddle {

constexpr const char* kProgramVersion = "0.1.0";

}  // namespace paddle

// The packages of the libraries that this program was linked with, "libssl-dev 3.0.19-1~deb12u2", a
// line each. cmake/LinkedLibraries.cmake writes it for each program; a test's program has none
// (null).
extern "C" {
[[gnu::weak]] extern const char paddle_linked_libraries[];
}

namespace paddle {

inline const char* linked_libraries() {
  const char* const volatile text = paddle_linked_libraries;
  return text != nullptr ? text : "";
}

}  // namespace paddle
