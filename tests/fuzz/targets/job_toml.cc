// A job.toml, and values of --set on the lines behind "%%".
#include "base/check.h"
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
  const auto job = config::resolve_job(file, overrides);
  if (!job) return 0;
  // Nodes get the same job without the overrides.
  const auto again = config::resolve_job(kFolder.write("job.toml", job->text));
  PADDLE_CHECK(again && again->config.layers.size() == job->config.layers.size());
  PADDLE_CHECK(again->config.train.batch_size == job->config.train.batch_size);
  PADDLE_CHECK(config::describe_job(job->text, file));
  return 0;
}
