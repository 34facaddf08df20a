// The job.toml of a table, and the guesses behind it as rows for the terminal.
#pragma once

#include <string>
#include <vector>

#include "cli/job/table_guess.h"
#include "cli/job/table_sample.h"

namespace paddle::cli {

// A commented job.toml that trains a first network as it stands. `source` is the name of the user's
// file; `data` is its copy, relative to the workspace, a pattern of [data] train.
std::string job_of_table(const TableSample& sample, const TableGuess& guess,
                         const std::string& source, const std::string& data);

// One guess as a user reads it.
struct GuessRow {
  std::string what;   // "label"
  std::string guess;  // "survived: 0 or 1"
  Sureness sure = Sureness::kSure;
  std::string change;  // the way to change it; "": none
};
std::vector<GuessRow> guess_rows(const TableSample& sample, const TableGuess& guess);

}  // namespace paddle::cli
