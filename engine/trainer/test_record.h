// Tests at the ends of passes, in save_dir and on their way from trainer 0 to the others.
//
// The file TESTS has a line a pass, "pass=3<tab>cost=0.41<tab>auc=0.8": a job that goes on knows
// them. The file BEST has one line, the name of the best pass whose snapshot is there.
#pragma once

#include <string>
#include <vector>

#include "base/tally.h"
#include "engine/trainer/early_stop.h"

namespace paddle::trainer {

// In the order of passes; none when there is no such file. kData, kResource.
Result<std::vector<PassTest>> read_tests(const std::string& folder);
Status write_tests(const std::string& folder, std::span<const PassTest> tests);
// "": no pass is the best one, and there is no file.
Status write_best(const std::string& folder, const std::string& name);

// Of trainer 0, for all, when they meet after a pass. It travels in the place of evaluators'
// counters: those of the others are zero.
struct Decision {
  EndReason reason = EndReason::kNone;
  std::vector<nn::Value> figures = {};  // of the test of that pass; empty: it was not tested
};
// `figures` has the names that all trainers know.
Tally encode(const Decision& decision, std::span<const nn::Value> figures);
// Nothing for a tally of another shape.
std::optional<Decision> decode_decision(const Tally& tally, std::span<const nn::Value> figures);

}  // namespace paddle::trainer
