// Output folders of ended jobs, as a fetch leaves them, for comparisons.
#pragma once

#include <string>

#include <fmt/format.h>

#include "cli/job/settings.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {

struct EndedJob {
  std::string name;
  std::string rate = "0.1";  // optimizer.learning_rate
  double auc = 0.75;         // on held-out data after the last of two passes
  double cost = 0.5;         // the same
  std::vector<std::string> tags = {};
  std::string note = {};
  std::string command = "paddlectl train";
};

// Writes <folder>/<name>/.
inline void write_ended_job(const TemporaryFolder& folder, const EndedJob& job) {
  std::string metrics;
  for (int pass = 0; pass < 2; ++pass) {
    metrics += fmt::format(
        "{{\"kind\":\"train\",\"pass\":{0},\"batch\":5,\"samples\":100,\"cost\":2,"
        "\"examples_per_second\":1000,\"unix_ms\":{1}}}\n"
        "{{\"kind\":\"test\",\"pass\":{0},\"batch\":10,\"samples\":10,\"cost\":{2},\"auc\":{3},"
        "\"unix_ms\":{1}}}\n",
        pass, 1'700'000'001'000 + pass, job.cost + 1 - pass, job.auc - 0.25 + 0.25 * pass);
  }
  const std::string at = job.name + "/";
  folder.write(at + "node_0/metrics.jsonl", metrics);
  folder.write(at + "job.toml", "name = \"x\"\n[optimizer]\nlearning_rate = " + job.rate + "\n");
  folder.write(at + "commands.jsonl",
               "{\"unix_ms\": 1, \"command\": \"" + job.command + "\", \"version\": \"1\"}\n");
  cli::JobSettings settings;
  settings.record = {job.tags, job.note, {}};
  folder.write(at + "settings.jsonl", cli::encode(settings));
  folder.write(at + "processes.jsonl",
               "{\"node\": \"n\", \"role\": \"trainer-0\", \"state\": \"done\", "
               "\"started_unix_ms\": 1700000000000, \"ended_unix_ms\": 1700000090000, "
               "\"log\": \"node_0/train.log\"}\n");
}

}  // namespace paddle::test
