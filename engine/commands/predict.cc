// `paddle predict`: a line for each record, with its score.
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "base/control_group.h"
#include "base/fd.h"
#include "engine/commands/command.h"
#include "engine/commands/model_flags.h"
#include "engine/model/records.h"

namespace paddle::commands {
namespace {

struct PredictFlags {
  ModelFlags model;
  std::string output = "csv";
  std::string layer;
  std::uint32_t threads = 0;
};

// kInterrupted: the reader has closed the pipe, as `| head` does.
Status write_out(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {
      return Error{Errc::kInterrupted, "the reader of the predictions has closed the pipe"};
    } else if (errno != EINTR) {
      return system_error(Errc::kResource, "writing the predictions");
    }
  }
  return {};
}

Result<inference::LineFormat> format_of(const std::string& output) {
  if (output == "csv") return inference::LineFormat::kCsv;
  if (output == "jsonl") return inference::LineFormat::kJson;
  return Error{Errc::kUsage, fmt::format("--output is '{}', but must be csv or jsonl", output),
               "predictions go to stdout: write them to a file with >FILE"};
}

Status run_predict(const PredictFlags& flags) {
  end_when_out_of_memory("predict", kMemoryAdvice);
  PADDLE_TRY(const inference::LineFormat format, format_of(flags.output));
  // Before the snapshot is read, which may take long.
  if (!flags.model.snapshot.empty() && flags.model.data.empty()) {
    return Error{Errc::kUsage, "--data is missing",
                 "--data=GLOB names files of records, --data=- reads them from stdin"};
  }
  PADDLE_TRY(const snapshot::SnapshotReader snapshot, flags.model.open("predict --data=GLOB"));
  PADDLE_TRY(const inference::ModelDescription description,
             inference::read_description(snapshot, flags.model.source));
  const std::uint32_t cores = usable_cores();
  const auto result =
      inference::predict_records(snapshot, description,
                                 {.folder = flags.model.workspace,
                                  .glob = flags.model.data,
                                  .layer = flags.layer,
                                  .format = format,
                                  .threads = flags.threads > 0 ? flags.threads : cores},
                                 write_out);
  if (!result) {
    return result.error().code == Errc::kInterrupted ? Status() : Status(result.error());
  }
  warn(result->unseen_note);
  if (result->bad_records > 0)
    std::cerr << fmt::format("paddle: {} bad records were left out of the output\n",
                             result->bad_records);
  return {};
}

std::function<Status()> declare_predict(FlagSet& flags) {
  const auto options = std::make_shared<PredictFlags>();
  options->model.declare(flags);
  flags.text("output", "format of the lines, csv or jsonl", options->output);
  flags.text("layer", "print the outputs of this layer instead of scores", options->layer);
  flags.number("threads",
               "number of threads, which does not change the lines; 0: one for each core",
               options->threads, 0, 1024);
  return [options] { return run_predict(*options); };
}

}  // namespace

const Command kPredictCommand{"predict", "score records with a snapshot, a line for each",
                              R"(usage: paddle predict --snapshot=DIR --data=GLOB|- [flags]

A line is "<label>,<score>". The score is the probability of a click or of the
second of two classes, or the estimated number. With more classes a line
is "<label>,<class>,<probability>" of the likeliest. Classes with names have
a header and a column of probabilities each.

examples:
  paddle predict --snapshot=output/pass-00002 --data='new/*.txt' >scores.csv
  zcat new.txt.gz | paddle predict --snapshot=output/pass-00002 --data=-
)",
                              declare_predict};

}  // namespace paddle::commands
