// Tests on held-out data, the same for training and for a saved model.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/trainer/loop_options.h"
#include "engine/trainer/model.h"
#include "engine/trainer/report.h"

namespace paddle::trainer {

// For an error: "a.csv, b.csv, c.csv, 4 more", or "no file".
std::string files_text(std::vector<std::string> files);

// Options for the batches of a test of all records of some files, without any file.
data::DatasetOptions held_out_options(const config::JobConfig& job, const std::string& folder);
// held_out_options() with the files that match `glob` below `folder`; "": the job's own held-out
// records, in the files of [data] test or a part of those of [data] train. kData: no file matches.
Result<data::DatasetOptions> held_out_data(const config::JobConfig& job, const std::string& folder,
                                           const std::string& glob);

// kData: [data] test_fraction leaves the stream with these options without a record.
Error empty_part(const data::DatasetOptions& options);

// Scores all batches of the stream with the model's current dense values. Calls `before_batch`
// before each batch, and `pull` for the values of its rows. The figures depend only on the data,
// the values and the model's number of threads.
Result<Score> score_held_out(
    data::BatchStream& stream, Model& model,
    const std::function<Status(std::span<client::SparseRows>)>& pull,
    const std::function<void()>& before_batch = [] {});

// The held-out tests of a running job. Trainer 0 makes them for all; on the other trainers, and
// without held-out data, they do nothing.
class HeldOutTest {
 public:
  // All references must outlive the test.
  HeldOutTest(const LoopOptions& options, const data::Dictionary& dictionary, Model& model,
              client::ParameterClient& client, Report& report)
      : options_(options),
        dictionary_(dictionary),
        model_(model),
        client_(client),
        report_(report) {}

  // Reads the first held-out records, so that a job does not train a pass before a test that cannot
  // be made, and with [data] test_fraction the first of the others. A pipe_command may be slow, so
  // it runs for tests only. kData: there is no record.
  Status check_data();
  // Tests the current values, and writes the report's line.
  Status run_within_pass(const PassProgress& at) { return run(at, true); }
  Status run_at_end(const PassProgress& at) { return run(at, false); }
  // The figures of the last test that were not taken before.
  std::optional<std::vector<nn::Value>> take_figures();

 private:
  Status run(const PassProgress& at, bool is_within_pass);
  bool is_made_here() const;
  Error no_record() const;

  const LoopOptions& options_;
  const data::Dictionary& dictionary_;
  Model& model_;
  client::ParameterClient& client_;
  Report& report_;
  std::optional<std::vector<nn::Value>> figures_;
};

}  // namespace paddle::trainer
