// The outcome of a sweep: its trials from the best to the worst, as a table and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/console/console.h"
#include "cli/report/comparison.h"
#include "cli/sweep/sweep_file.h"
#include "cli/sweep/trial.h"

namespace paddle::cli {

// The value of the figure by which the trial is ranked: its best one; on held-out data, if any
// trial has such values. Nothing: it has none, or it failed.
std::optional<BestValue> value_of(const Trial& trial, const std::string& figure,
                                  bool only_held_out);
bool any_has_held_out(const std::vector<const Trial*>& trials, const std::string& figure);

// Best first; then trials without a value, and failed ones last. Equal ones by number.
std::vector<const Trial*> ranked_trials(const std::vector<Trial>& trials,
                                        const std::string& figure);

// A row for each trial: settings, state, value. Before the first trial has ended: settings only.
Table sweep_table(const Sweep& sweep, const std::vector<const Trial*>& trials,
                  const std::string& figure);

// {"sweep", "figure", "trials": [{"job", "state", "settings", "value", "pass", "cause"}], "best":
// job or null}. Passes count from 0; the cause is that of a failure.
Json sweep_json(const Sweep& sweep, const std::vector<const Trial*>& trials,
                const std::string& figure);

// The trials that have results, in this order, with the figure as the main one.
Comparison compared_trials(const std::vector<const Trial*>& trials, const std::string& figure);

}  // namespace paddle::cli
