#include "engine/inference/test.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/inference/records.h"
#include "engine/trainer/held_out.h"

namespace paddle::inference {

Result<TestResult> test_snapshot(const snapshot::SnapshotReader& snapshot,
                                 const ModelDescription& description, const std::string& folder,
                                 const std::string& glob) {
  PADDLE_TRY(data::DatasetOptions data, records_of(description.job, folder, glob));
  config::JobConfig job = description.job;
  job.train.device = config::TrainDevice::kCpu;  // wherever it was trained
  PADDLE_TRY(trainer::Model model, trainer::Model::build(job));
  data.rules = model.rules();
  PADDLE_TRY(const Parameters parameters, Parameters::load(snapshot, model.parameters()));
  for (client::DenseParameter& one : model.dense())
    std::ranges::copy(parameters.dense(one.parameter), one.value.begin());
  TestResult result;
  DistinctIds distinct(parameters);
  const auto pull = [&](std::span<client::SparseRows> tables) -> Status {
    for (client::SparseRows& rows : tables)
      result.rows.add(parameters.read_rows(rows.parameter, rows.ids, rows.values, &distinct));
    return {};
  };
  const auto stream = data::open_pass(data, description.dictionary, 0);
  PADDLE_TRY(const trainer::Score score, trainer::score_held_out(*stream, model, pull));
  result.bad_records = stream->bad_records();
  result.ids = distinct.asked();
  result.unseen_ids = distinct.absent();
  result.unseen_note = distinct.note();
  if (score.samples == 0) {
    return Error{Errc::kData,
                 fmt::format("{} has no record{}", glob == "-" ? "stdin" : glob,
                             result.bad_records > 0 ? " that is not bad" : ""),
                 "there is nothing to test on"};
  }
  result.reading = model.read(score);
  return result;
}

}  // namespace paddle::inference
