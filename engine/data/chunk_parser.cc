#include "engine/data/chunk_parser.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include <fmt/format.h>

#include "base/rng.h"
#include "engine/data/records/lines.h"
#include "engine/data/records/numbers.h"

namespace paddle::data {

ChunkParser::ChunkParser(const DatasetOptions& options, const Dictionary& dictionary,
                         std::uint32_t pass)
    : options_(options),
      has_lines_(options.data.format != "npz"),
      rules_(options.data, options.rules),
      format_(has_lines_ ? make_format(options.data, dictionary) : nullptr),
      trainers_(options.share.records_split ? options.num_trainers : 1),
      stream_(hash_combine(hash_combine(options.seed, stable_hash("global shuffle")), pass)) {
  for (const config::DataSlotConfig& slot : options.data.slots)
    class_names_.emplace_back(slot.labels);
  if (!format_) return;
  // If several layers or evaluators read the label, one of two classes decides.
  std::optional<std::uint64_t> classes;
  for (const nn::SlotRule& rule : options.rules) {
    const bool is_of_two = rule.below == 1 || rule.below == 2;
    if (!rule.is_label || rule.slot_name != "label" || classes == 2) continue;
    classes = is_of_two ? 2 : rule.below;
  }
  if (classes) format_->set_classes(*classes);
}

void ChunkParser::parse(const Chunk& chunk, RecordBlock& block) {
  block.clear();
  block.chunk_begin = chunk.begin;
  block.chunk_end = chunk.end;
  block.outcome = has_lines_ ? parse_lines(chunk, block) : parse_numbers(chunk, block);
}

// Whether this trainer takes a line or record, where all trainers read the same files: the numbers
// of the file and of the line in it decide. Split records go to the trainers in turn. A global
// shuffle hashes (seed, pass, file, line), so that each pass deals every line to exactly one
// trainer, and deals anew. Lines of other trainers are not parsed.
bool ChunkParser::takes(std::uint64_t file, std::uint64_t number) const {
  if (trainers_ <= 1) return true;
  if (!options_.data.global_shuffle) return (file + number) % trainers_ == options_.trainer_id;
  return hash_combine(hash_combine(stream_, file), number) % trainers_ == options_.trainer_id;
}

// Messages count from 1.
Error ChunkParser::at(const Chunk& chunk, std::uint64_t number, Error error) const {
  return std::move(error).with(fmt::format("{}:{}{}", options_.share.files[chunk.begin.file],
                                           has_lines_ ? "" : " record ", number + 1));
}

// The likeliest mistake first: `skip` would leave out all records of a wrong column. `line` is the
// one of the bad record; "" of arrays.
std::string ChunkParser::hint(std::uint64_t number, std::string_view line,
                              const std::string& of_field) const {
  std::string hint;
  // A header begins with a name.
  const std::size_t first = std::min(line.find_first_not_of(" \"\t#"), line.size());
  const auto is_letter = [](unsigned char c) {
    return std::isalpha(c) != 0 || c == '_' || c >= 0x80;
  };
  if (number == 0 && first < line.size() && is_letter(static_cast<unsigned char>(line[first]))) {
    hint = "is line 1 a header? remove it";
    hint += options_.data.format == "csv" ? ", or set [data] header = true; " : "; ";
  }
  if (!of_field.empty()) hint += of_field + "; ";
  return hint + (hint.empty() ? "" : "or ") +
         "[data] on_bad_record = \"skip\" leaves such records out and counts them";
}

Status ChunkParser::check_records(std::size_t first, RecordBlock& block) const {
  if (rules_.empty()) return {};
  for (const RecordBlock::Extent& record : std::span(block.records).subspan(first)) {
    if (Status good = rules_.check(block.view(record)); !good) {
      block.records.resize(first);
      return good;
    }
  }
  return {};
}

Status ChunkParser::bad_record(const Chunk& chunk, std::uint64_t number, std::string_view line,
                               const RecordBlock::Extent& begin, Error error,
                               RecordBlock& block) const {
  block.drop_since(begin);
  error = at(chunk, number, std::move(error));
  if (!options_.data.skip_bad_records) {
    error.hint = hint(number, line, error.hint);
    return error;
  }
  if (block.bad_records++ == 0) block.first_bad_record = std::move(error.message);
  return {};
}

Status ChunkParser::parse_lines(const Chunk& chunk, RecordBlock& block) {
  Lines lines(as_text(chunk.text), chunk.begin.line);
  while (const auto line = lines.next()) {
    const std::uint64_t number = lines.number();
    if (number == 0 && format_->has_header()) {
      // This is no bad record to leave out: every line after it would be misread.
      auto good = format_->check_header(*line);
      if (!good) return at(chunk, number, std::move(good).error());
      continue;
    }
    if (!takes(chunk.begin.file, number)) continue;
    const RecordBlock::Extent begin = block.end();
    const std::size_t first = block.records.size();
    Status parsed =
        chunk.is_too_long
            ? Status(Error{Errc::kData, fmt::format("a line of over {} bytes", kLineBytesMax), ""})
            : format_->parse(*line, block);
    if (parsed) parsed = check_records(first, block);
    if (parsed) continue;
    PADDLE_TRY_STATUS(bad_record(chunk, number, *line, begin, std::move(parsed).error(), block));
  }
  return {};
}

Status ChunkParser::parse_numbers(const Chunk& chunk, RecordBlock& block) const {
  for (std::uint64_t record = 0; record < chunk.records; ++record) {
    const std::uint64_t number = chunk.begin.line + record;
    if (!takes(chunk.begin.file, number)) continue;
    const RecordBlock::Extent begin = block.end();
    const std::size_t first = block.records.size();
    Status parsed = append_numbers(options_.data, class_names_, chunk, record, block);
    if (parsed) parsed = check_records(first, block);
    if (parsed) continue;
    PADDLE_TRY_STATUS(bad_record(chunk, number, "", begin, std::move(parsed).error(), block));
  }
  return {};
}

}  // namespace paddle::data
