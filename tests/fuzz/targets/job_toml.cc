// A job.toml, and values of --set on the lines behind "%%".
#include "engine/config/job_config.h"
#include "tests/fuzz/input.h"
#include "tests/support/temporary_folder.h"

using namespace paddle;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view kOverrides = "\n%%\n";
  static const test::TemporaryFolder kFolder;
  fuzz::Input input(data, size);
  const std::string whole = fuzz::grown(input.rest());
  const std::string_view text = whole;
  const std::size_t end = std::min(text.find(kOverrides), text.size());
  std::vector<std::string> overrides;
  fuzz::Input lines(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  lines.text(end + kOverrides.size());
  while (!lines.empty()) overrides.emplace_back(lines.text_until('\n'));
  const std::string file = kFolder.write("job.toml", std::string(text.substr(0, end)));
  static_cast<void>(config::read_job(file, overrides));
  return 0;
}
