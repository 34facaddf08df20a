// Lines of a data file in each format: a byte for the format, two for its options, the text.
#include "engine/config/sections.h"
#include "engine/data/format.h"
#include "engine/data/number_notes.h"
#include "engine/data/preparation.h"
#include "engine/data/record_rules.h"
#include "tests/fuzz/input.h"
#include "tests/support/temporary_folder.h"

using namespace paddle;

namespace {

constexpr std::size_t kBatch = 32;

const data::Dictionary& dictionary() {
  static const test::TemporaryFolder kFolder;
  static const data::Dictionary kWords =
      *data::Dictionary::read(kFolder.write("words", "<s>\n<e>\na\nb\n<unk>\n"));
  return kWords;
}

// Sets one of eight ways to prepare the numbers of a slot.
void prepare(config::DataSlotConfig& slot, unsigned way) {
  slot.fits.assign(slot.width, {.fill = 0.5, .offset = 1, .scale = 2, .edges = {}});
  if (way == 1 || way == 2) slot.missing = config::Missing::kMean;
  if (way == 2 || way == 3) slot.missing_indicator = true;
  if (way == 3 || way == 4) slot.normalize = config::Normalize::kStandard;
  if (way == 5) slot.normalize = config::Normalize::kLog;
  if (way == 6) slot.missing = config::Missing::kRefuse;
  if (way != 7) return;
  slot.bucket_edges = {0, 1};
  for (config::ColumnFit& fit : slot.fits) fit.edges = {0, 1};
}

config::DataConfig configuration(fuzz::Input& input) {
  using config::SlotType;
  const auto formats = config::data_formats();
  config::DataConfig made;
  made.format = formats[input.below(static_cast<unsigned>(formats.size()))].name;
  if (made.format == "npz") made.format = "jsonl";  // has a target of its own
  const std::uint8_t options = input.byte();
  const std::uint8_t more = input.byte();
  made.ngram = 2 + options % 4;
  made.float_label = (options & 8U) != 0;
  made.buckets = (options & 16U) != 0 ? 1000 : options >> 7U;
  made.dictionary_size = dictionary().size();
  made.trim = (options & 32U) == 0;
  if ((options & 64U) != 0) made.labels = {"no", "1", "-1.5"};
  if (made.format == "csv") {
    made.columns = {"a", "b", "c", "d"};
    made.has_header = (more & 1U) != 0;
    made.delimiter = (more & 2U) != 0 ? '\t' : ',';
    const char separator = (more & 8U) != 0 ? '|' : '\0';
    made.slots = {{.name = "a",
                   .type = (more & 4U) != 0 ? SlotType::kHash : SlotType::kId,
                   .width = 2,
                   .columns = {0, 1},
                   .separator = separator},
                  {.name = "c", .type = SlotType::kFloat, .width = 2, .columns = {2, 3}}};
  }
  if (made.format == "multislot") {
    made.slots = {{.name = "a", .used = (more & 1U) == 0},
                  {.name = "b", .type = SlotType::kIds, .used = (more & 2U) == 0},
                  {.name = "c", .type = SlotType::kFloat, .width = 2, .used = (more & 4U) == 0}};
  }
  if (made.format == "jsonl") {
    made.slots = {{.name = "a", .type = (more & 1U) != 0 ? SlotType::kHash : SlotType::kId},
                  {.name = "b", .type = (more & 2U) != 0 ? SlotType::kHashes : SlotType::kIds},
                  {.name = "c", .type = SlotType::kFloat, .width = 1U + (more >> 7U)}};
  }
  for (config::DataSlotConfig& slot : made.slots) {
    if (slot.type == SlotType::kId || slot.type == SlotType::kIds) slot.labels = made.labels;
    if (slot.type == SlotType::kFloat) prepare(slot, more >> 4U & 7U);
  }
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  fuzz::Input input(bytes, size);
  const config::DataConfig config = configuration(input);
  const auto format = data::make_format(config, dictionary());
  if (format->has_header()) static_cast<void>(format->check_header(input.text_until('\n')));
  const nn::SlotRule rule{.layer = "cost", .slot_name = "", .below = 2};
  // A rule is of a slot that the network reads: without one, no network does.
  const std::size_t kinds = config::data_slots(config).empty() ? 0 : 1;
  const data::RecordRules rules(config, {&rule, kinds});
  data::Preparation preparation(config);
  data::RecordBlock block;
  while (!input.empty()) {
    const data::RecordBlock::Extent end = block.end();
    const std::size_t first = block.records.size();
    if (format->parse(input.text_until('\n'), block) && preparation.prepare(first, block)) continue;
    block.records.resize(first);
    block.drop_since(end);
  }
  for (const auto& record : block.records) static_cast<void>(rules.check(block.view(record)));
  data::NumberNotes notes(config, {});
  notes.add(block);
  static_cast<void>(notes.warnings());
  const auto slots = config::data_slots(config);
  nn::Batch batch = data::empty_batch(slots, kBatch);
  for (const auto& record : block.records) {
    if (batch.size >= kBatch) break;
    static_cast<void>(data::append(slots, block.view(record), batch));
  }
  return 0;
}
