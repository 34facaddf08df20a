// A job that counts itself: a table's own shows tell how often each record was applied.
#pragma once

#include <map>

#include "tests/e2e/local_training_job.h"

namespace paddle::test {

struct Ledger {
  int trainers = 3;
  int records = 3000;  // of each trainer, with an id of its own each
  int passes = 4;
};
// A table that takes its time to save, so that a trainer that does not wait is far ahead.
void write_ledger(Job& job, const Ledger& ledger);

// How many rows were shown how often.
std::map<float, int> shows(const std::string& snapshot);

}  // namespace paddle::test
