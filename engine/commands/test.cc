// `paddle test`: the evaluators of a job on a snapshot and held-out data.
#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "engine/commands/command.h"
#include "engine/commands/model_flags.h"
#include "engine/model/records.h"

namespace paddle::commands {
namespace {

struct TestOptions {
  ModelFlags model;
  std::uint32_t threads = 0;
  bool json = false;
};

// {"samples":20000,"cost":0.4026,"auc":0.8806,"rows":260000,"absent_rows":12,
//  "ids":9000,"unseen_ids":5,"bad_records":0}
std::string as_json_text(const inference::TestResult& result) {
  JsonObject fields;
  fields.add("samples", result.reading.samples).add("cost", result.reading.cost);
  for (const nn::Value& one : result.reading.values) fields.add(one.name, one.value);
  fields.add("rows", result.rows.asked).add("absent_rows", result.rows.absent);
  fields.add("ids", result.ids).add("unseen_ids", result.unseen_ids);
  return fields.add("bad_records", result.bad_records).text() + "\n";
}

Status run_test(TestOptions options) {
  end_when_out_of_memory("test", kMemoryAdvice);
  PADDLE_TRY(const snapshot::SnapshotReader snapshot, options.model.open("test"));
  if (options.threads > 0) {
    options.model.source.overrides.push_back(
        fmt::format("train.trainer_count={}", options.threads));
  }
  PADDLE_TRY(const inference::ModelDescription description,
             inference::read_description(snapshot, options.model.source));
  PADDLE_TRY_STATUS(options.model.check_data(description.job));
  PADDLE_TRY(
      const inference::TestResult result,
      inference::test_snapshot(snapshot, description, options.model.workspace, options.model.data));
  std::cout << (options.json ? as_json_text(result)
                             : trainer::test_line(result.reading).substr(1) + "\n");
  if (options.json) return {};
  std::cout.flush();
  warn(result.unseen_note);
  warn(trainer::undefined_note(result.reading));
  if (result.bad_records > 0)
    std::cerr << fmt::format("paddle: {} bad records were left out\n", result.bad_records);
  return {};
}

std::function<Status()> declare_test(FlagSet& flags) {
  const auto options = std::make_shared<TestOptions>();
  options->model.declare(flags);
  flags.number("threads",
               "number of threads; 0: as many as a trainer of the job, for the same digits",
               options->threads, 0, 1024);
  flags.boolean("json", "print one JSON object", options->json);
  return [options] { return run_test(*options); };
}

}  // namespace

const Command kTestCommand{"test", "compute cost and evaluators of a snapshot on held-out data",
                           R"(usage: paddle test --snapshot=DIR [--data=GLOB|-] [flags]

Without --data it reads the job's own held-out records, below --workspace, and
prints the figures that training logged for that snapshot.

examples: paddle test --snapshot=output/pass-00002 --workspace=clicks
          paddle test --snapshot=output/pass-00002 --data='new/*.txt' --json
)",
                           declare_test};

}  // namespace paddle::commands
