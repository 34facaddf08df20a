// The text of a file of statistics, which a snapshot may contain: what is read is written and read
// again, and prepares a record.
#include "engine/config/statistics_file.h"

#include "base/check.h"
#include "engine/data/preparation.h"
#include "tests/fuzz/input.h"

using namespace paddle;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  fuzz::Input input(bytes, size);
  const std::string text = fuzz::grown(input.rest());
  const auto statistics = config::parse_statistics(text);
  if (!statistics) return 0;
  const auto again = config::parse_statistics(config::statistics_text(*statistics));
  PADDLE_CHECK(again && *again == *statistics);
  config::DataConfig data;
  data.format = "jsonl";
  data.slots = {{.name = "x", .type = config::SlotType::kFloat, .width = 2},
                {.name = "y", .type = config::SlotType::kFloat},
                {.name = "z"}};
  data.slots[0].missing = config::Missing::kMean;
  data.slots[0].normalize = config::Normalize::kStandard;
  data.slots[1].bucket_count = 4;
  data.slots[2].learns_labels = true;
  if (!config::use_statistics(*statistics, data)) return 0;
  data::RecordBlock block;
  const auto begin = block.end();
  block.values = {1, -2, 3};
  block.ids = {0};
  block.add_record(begin);
  PADDLE_CHECK(data::Preparation(data).prepare(0, block));
  PADDLE_CHECK(block.values.size() == 2 && block.ids.size() == 2 && block.ids[0] < 4);
  return 0;
}
