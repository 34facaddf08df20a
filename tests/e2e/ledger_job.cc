#include "tests/e2e/ledger_job.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/snapshot/reader.h"

namespace paddle::test {

void write_ledger(Job& job, const Ledger& ledger) {
  for (int trainer = 0; trainer < ledger.trainers; ++trainer) {
    Rng rng(static_cast<std::uint64_t>(trainer));
    std::string text;
    for (int i = 0; i < ledger.records; ++i) {
      text += fmt::format("1 {} 1 {}\n", 1 + trainer * ledger.records + i, rng.below(2));
    }
    job.folder().write(fmt::format("data/train.txt-{:05}", trainer), text);
  }
  job.folder().write("job.toml", R"(name = "ledger"
[data]
train = "data/train.txt-*"
format = "multislot"
[[data.slot]]
name = "record"
type = "id"
[[data.slot]]
name = "click"
type = "id"
[[layer]]
name = "ids"
type = "embedding"
input = ["record"]
size = 64
weight = { sparse = true, shrink = { label = "click", decay = 1, threshold = 0 } }
[[layer]]
name = "score"
type = "fc"
input = ["ids"]
size = 1
[[layer]]
name = "cost"
type = "binary_cross_entropy"
input = ["score"]
label = "click"
[optimizer]
method = "sgd"
learning_rate = 0.01
[train]
passes = 4
batch_size = 16
)");
}

std::map<float, int> shows(const std::string& snapshot) {
  std::map<float, int> counts;
  const auto reader = snapshot::SnapshotReader::open(snapshot);
  EXPECT_TRUE(reader) << reader.error().message;
  if (!reader) return counts;
  const Status read = reader->read_rows("_ids.w0", [&](const table::Row& row) -> Status {
    ++counts[row.score.shows];
    return {};
  });
  EXPECT_TRUE(read) << read.error().message;
  return counts;
}

}  // namespace paddle::test
