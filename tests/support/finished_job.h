// The output folder of a job of two trainers and a pserver, whose names, logs and configuration try
// to become markup.
#pragma once

#include <string>

#include "tests/support/temporary_folder.h"

namespace paddle::test {

constexpr const char* kEvilText = "<script>alert(1)</script>\x1b[2J\"'&";

struct FinishedJob {
  TemporaryFolder folder;

  FinishedJob() {
    std::string metrics;
    for (int pass = 0; pass < 2; ++pass) {
      for (int batch = 10; batch <= 50; batch += 10) {
        metrics += "{\"kind\":\"train\",\"pass\":" + std::to_string(pass) +
                   ",\"batch\":" + std::to_string(batch) +
                   ",\"samples\":100,\"cost\":2,\"current_cost\":" +
                   std::to_string(3.0 - pass - batch / 100.0) +
                   ",\"auc\":0.5,\"examples_per_second\":1000,\"unix_ms\":" +
                   std::to_string(1'700'000'001'000 + pass * 1000 + batch) + "}\n";
      }
      metrics +=
          "{\"kind\":\"pass\",\"pass\":" + std::to_string(pass) +
          ",\"batch\":50,\"samples\":500,\"cost\":2,\"total_samples\":1000,"
          "\"total_cost\":1.5,\"total_auc\":0.7,\"unix_ms\":1700000001500}\n"
          "{\"kind\":\"test\",\"pass\":" +
          std::to_string(pass) +
          ",\"batch\":50,\"samples\":10,\"cost\":1.25,\"auc\":0.75,\"unix_ms\":1700000001600}\n";
    }
    folder.write("j/node_0/metrics.jsonl", metrics + "{broken\n");
    folder.write(
        "j/node_1/metrics-1.jsonl",
        "{\"kind\":\"train\",\"pass\":0,\"batch\":10,\"cost\":2,\"examples_per_second\":100,"
        "\"unix_ms\":1700000001000}\n");
    folder.write(
        "j/node_0/server-metrics.jsonl",
        "{\"kind\":\"pserver\",\"port\":7164,\"sparse\":1,\"rows\":1234567,\"bytes\":5000000,"
        "\"pushes\":42,\"lags\":[30,10,2],\"unix_ms\":1700000002000}\n"
        "{\"kind\":\"pserver\",\"port\":7165,\"sparse\":0,\"rows\":0,\"bytes\":64,"
        "\"pushes\":0,\"batches\":0,\"lags\":[0],\"unix_ms\":1700000002000}\n");
    folder.write("j/node_0/train.log", "plain <b>line</b>\nW1121 19:27:48.123456 trainer-0] " +
                                           std::string(kEvilText) + "\n");
    folder.write("j/machines.jsonl",
                 "{\"node\": \"n-0\", \"processor\": \"A CPU <b>\", \"os\": \"Debian 12\", "
                 "\"kernel\": \"6.1\", \"gpus\": \"\", \"agent_version\": \"0.1.0\", \"cores\": 8, "
                 "\"memory_bytes\": 16000000000, \"utc_offset_s\": 3600}\n{broken\n");
    folder.write("j/commands.jsonl",
                 "{\"unix_ms\": 1700000000000, \"command\": \"paddlectl train --set a=1 w\", "
                 "\"version\": \"0.1.0\", \"tags\": \"lr-test b\", \"note\": \"<b>note</b>\", "
                 "\"commit\": \"0123456789abcdef0123456789abcdef01234567\", "
                 "\"branch\": \"<i>\", \"changed\": \"yes\"}\n");
    folder.write("j/job.toml", "name = \"x\"  # " + std::string(kEvilText) + "\nseed = 1\n");
    const std::string evil = "\"node\": \"n<i>\", ";
    folder.write(
        "j/processes.jsonl",
        "{\"node\": \"n-0\", \"role\": \"pserver-0\", \"state\": \"stopped\", \"failed\": 0, "
        "\"started_unix_ms\": 1700000000000, \"ended_unix_ms\": 1700000003000, "
        "\"resident_bytes\": 50000000, \"log\": \"node_0/server.log\"}\n"
        "{" +
            evil +
            "\"role\": \"trainer-0\", \"state\": \"done\", \"failed\": 0, "
            "\"started_unix_ms\": 1700000000500, \"ended_unix_ms\": 1700000002500, "
            "\"resident_bytes\": 90000000, \"cpu_ms\": 1500, \"arguments\": \"train "
            "--key_file={root}/jobs/j/key --incarnation={incarnation} --resume={again} "
            "--transport=clear "
            "--set=a=<u>\", "
            "\"log\": \"node_0/train.log\"}\n"
            "{\"node\": \"n-1\", \"role\": \"trainer-1\", \"state\": \"exited with code 6\", "
            "\"failed\": 1, "
            "\"started_unix_ms\": 1700000000500, \"ended_unix_ms\": 1700000002500, "
            "\"log\": \"node_1/train-1.log\"}\nnot json\n"
            "{\"node\": \"n-1\", \"role\": \"trainer-../../up\", \"log\": "
            "\"../../../etc/passwd\"}\n");
  }
};

}  // namespace paddle::test
