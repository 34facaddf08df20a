// A path on the first line, then an ignore file.
#include "cli/job/ignore_rules.h"

#include "tests/fuzz/input.h"

using namespace paddle;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::string path(input.text_until('\n'));
  const std::string_view text = input.rest();
  cli::IgnoreRules rules;
  rules.add("", text);
  rules.add("folder/", text);
  static_cast<void>(rules.ignores(path, true));
  static_cast<void>(rules.ignores("folder/" + path, false));
  static_cast<void>(cli::matches_glob(text, path));
  return 0;
}
