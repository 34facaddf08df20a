// Successive halving of trials that run at the same time: the rule of ASHA (Li and others, 2018) in
// its stopping variant, and of SuccessiveHalvingPruner in optuna.
//
// Rungs are at passes_min, passes_min * reduction, passes_min * reduction^2, ... passes. A trial
// that reaches a rung goes on if its value is among the best 1/reduction of the values at that rung
// so far, its own included. While a rung has fewer than `reduction` values, only the best one goes
// on. No trial waits for another one.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace paddle::cli {

class Halving {
 public:
  Halving(std::uint64_t reduction, std::uint64_t passes_min)
      : reduction_(reduction), passes_min_(passes_min) {}

  // Whether the trial goes on after so many passes, each trial's in ascending order. rank: lower is
  // better; NaN never goes on. A trial that does not go on may train until its stop is saved; its
  // further values count at no rung, and the answer stays false.
  bool goes_on(std::size_t trial, std::uint64_t passes, double rank);

 private:
  // The number of passes at the rung.
  std::uint64_t passes_at(std::size_t rung) const;
  bool is_among_best(std::size_t rung, double rank) const;

  std::uint64_t reduction_, passes_min_;
  std::vector<std::vector<double>> rungs_;        // the values at each rung
  std::map<std::size_t, std::size_t> completed_;  // by trial: its number of rungs
  std::set<std::size_t> ended_;                   // the trials that do not go on
};

}  // namespace paddle::cli
