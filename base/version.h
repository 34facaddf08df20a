// The version of all programs, and the libraries of this one.
#pragma once

#include <string>

namespace paddle {

constexpr const char* kProgramVersion = "0.1.0";

// The libraries of this program, a line each: the packages that it contains, as they were at the
// build ("libfmt-dev 9.1.0+ds1-2"), then the files that it shares with its machine, as they are now
// ("libssh.so.4 of this machine: /usr/lib/x86_64-linux-gnu/libssh.so.4.9.6").
std::string linked_libraries();

}  // namespace paddle

// The packages. cmake/LinkedLibraries.cmake writes them for each program; a test's program has none
// (null).
extern "C" {
[[gnu::weak]] extern const char paddle_linked_libraries[];
}
