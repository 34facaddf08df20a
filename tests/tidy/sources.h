// The sources of the repository as the tidy tests read them.
#pragma once

#include <string>
#include <vector>

namespace paddle::tidy {

struct Source {
  std::string path;  // relative to the repository
  std::vector<std::string> lines;

  bool is_header() const { return path.ends_with(".h"); }
};

// Every .cc, .h and .cu of the programs, by path.
const std::vector<Source>& product_sources();
// Those of tests/ and bench/.
const std::vector<Source>& test_sources();

// "engine/table" for "engine/table/row_index.h".
std::string room_of(const std::string& path);

}  // namespace paddle::tidy
